//! The frame of all scenarios: a plan names contestants and work, its text metrics, tables and goals. The contestants run interleaved
//! in rounds, and each is compared with the baseline of its group in the same round, or with the physical limit.

mod goals;
mod metric;
mod rounds;
mod rows;
#[cfg(test)]
#[path = "tests.rs"]
pub(crate) mod testing;

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::measure::{Clock, Placement, Samples, SyscallSource};
use crate::peers::{Host, Want, give_up_privileges};
use crate::scenario::Options;
use crate::text::Text;
use crate::tools::steps_for;
use anyhow::Result;

pub(crate) use goals::{as_word, meets};
pub(crate) use metric::{Metric, ends, variation};
pub(crate) use rounds::{matching, run};
pub(crate) use rows::{percentiles, percentiles_of};

/// A scenario. Metrics, conclusion and goals are in its text.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Its name on the command line.
    pub(crate) scenario: &'static str,
    pub(crate) work: fn(&Options) -> Work,
    /// The contestants; measures amounts of work before the CPUs are busy.
    pub(crate) contestants: fn(&Stage) -> Result<Vec<Contestant>>,
    /// The metric by which a contestant is compared with its baseline.
    pub(crate) compared: &'static str,
    /// What is special about this run.
    pub(crate) notes: fn(&Options) -> Vec<String>,
    /// Reads the physical limit, in ns. Then a pass counts only between two readings that are alike.
    pub(crate) limit: Option<ReadLimit>,
}

impl Plan {
    /// Without a name and contestants.
    pub(crate) const NEW: Self = Self {
        scenario: "",
        work: |_| Work::of(1, 1, 0),
        contestants: |_| Ok(Vec::new()),
        compared: "p99_us",
        notes: |_| Vec::new(),
        limit: None,
    };
}

impl Plan {
    /// What is measured, how to read it, its metrics, chart, conclusion and goals.
    pub(crate) fn text(&self) -> Text {
        let scenario = crate::scenario::of_name(self.scenario);
        scenario.map_or(Text(""), |scenario| scenario.text)
    }
}

type ReadLimit = fn(&Stage) -> Result<f64>;

/// What contestants are made with.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// The clock that times calls.
    pub(crate) clock: Clock,
    pub(crate) placement: Placement,
    /// Counts system calls, where that is possible.
    pub(crate) syscalls: Option<SyscallSource>,
    pub(crate) options: Options,
}

impl Stage {
    /// Looks at the machine.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        // What a step takes is measured now, before the CPUs are busy.
        let _ = steps_for(Duration::ZERO);
        Ok(Self {
            placement: Placement::of_this_process()?,
            clock: Clock::calibrated(),
            syscalls: SyscallSource::find().ok(),
            options: options.clone(),
        })
    }

    /// Whether a thread may run before all others, once the privilege is given up if that is asked for.
    pub(crate) fn may_be_first(&self) -> Result<bool> {
        if self.options.unprivileged {
            give_up_privileges()?;
        }
        Ok(Want::First.is_given())
    }

    /// The CPUs of caller and callee.
    pub(crate) fn cpus(&self) -> [usize; 2] {
        [self.placement.caller_cpu, self.placement.callee_cpu]
    }
}

/// The work of a contestant in a pass, in the scenario's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    /// In the measured pass.
    pub(crate) amount: u32,
    /// Before it, not measured.
    pub(crate) warm_up: u32,
    /// In the pass that counts system calls; 0 for none.
    pub(crate) counted: u32,
    /// A pass that takes longer counts as hung.
    pub(crate) pass_max: Duration,
}

impl Work {
    /// Passes of at most a minute.
    pub(crate) const fn of(amount: u32, warm_up: u32, counted: u32) -> Self {
        Self {
            amount,
            warm_up,
            counted,
            pass_max: Duration::from_mins(1),
        }
    }

    /// Passes that may take longer.
    pub(crate) const fn at_most(self, pass_max: Duration) -> Self {
        Self { pass_max, ..self }
    }
}

/// The result of a pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The number of operations; counts are given per operation.
    pub(crate) operations: u64,
    /// Figures, named with the unit last.
    pub(crate) figures: BTreeMap<&'static str, f64>,
    /// Latenesses or durations, for percentiles.
    pub(crate) late: Samples,
    /// Times of several kinds, instead of `late`: each is a row of its own, with this name after the variant.
    pub(crate) parts: Vec<(&'static str, Samples)>,
}

impl Outcome {
    /// So many operations and these figures.
    pub(crate) fn of<const N: usize>(operations: u64, figures: [(&'static str, f64); N]) -> Self {
        Self {
            operations,
            figures: BTreeMap::from(figures),
            ..Self::default()
        }
    }

    /// With these times.
    pub(crate) fn late(self, late: Samples) -> Self {
        Self { late, ..self }
    }

    /// With times of several kinds.
    pub(crate) fn in_parts(self, parts: Vec<(&'static str, Samples)>) -> Self {
        Self { parts, ..self }
    }

    /// With more figures.
    pub(crate) fn and(mut self, more: impl IntoIterator<Item = (&'static str, f64)>) -> Self {
        self.figures.extend(more);
        self
    }
}

/// One way to do what the scenario asks for.
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) variant: String,
    /// Its members are compared with the group's baseline.
    pub(crate) group: String,
    /// A baseline takes part whenever a member of its group does.
    pub(crate) is_baseline: bool,
    /// It does so many times less work.
    pub(crate) divisor: u32,
    start: Box<dyn Fn() -> Result<Box<dyn Run>>>,
}

impl fmt::Debug for Contestant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.name, self.variant)
    }
}

/// A contestant during a pass: it is started, run with little work, run, and stopped.
///
/// All threads start with it or later, because system calls are counted only in those, and have ended when `stop`
/// returns.
pub(crate) trait Run {
    /// Does this much work; an error if something was lost.
    fn run(&mut self, amount: u32) -> Result<Outcome>;

    /// Ends all threads. Also called after a failed `run`.
    fn stop(self: Box<Self>) -> Result<()>;
}

/// A host, the work that is done on it, and how it ends.
struct On<H, R> {
    host: H,
    run: R,
    stop: fn(H) -> Result<()>,
}

impl<H, R: FnMut(&mut H, u32) -> Result<Outcome>> Run for On<H, R> {
    fn run(&mut self, amount: u32) -> Result<Outcome> {
        (self.run)(&mut self.host, amount)
    }

    fn stop(self: Box<Self>) -> Result<()> {
        (self.stop)(self.host)
    }
}

impl Contestant {
    /// One that is started by `start`, works by `run` and ends by `stop`. Its group is its variant.
    pub(crate) fn new<H: 'static>(
        name: &str,
        variant: impl Into<String>,
        start: impl Fn() -> Result<H> + 'static,
        run: impl Fn(&mut H, u32) -> Result<Outcome> + 'static,
        stop: fn(H) -> Result<()>,
    ) -> Self {
        let (variant, run) = (variant.into(), Rc::new(run));
        Self {
            name: name.to_owned(),
            group: variant.clone(),
            variant,
            is_baseline: false,
            divisor: 1,
            start: Box::new(move || {
                let (host, run) = (start()?, Rc::clone(&run));
                let run = move |host: &mut H, amount| run(host, amount);
                Ok(Box::new(On { host, run, stop }))
            }),
        }
    }

    /// The same on a peer.
    pub(crate) fn of<P: Host>(
        variant: impl Into<String>,
        start: impl Fn() -> Result<P> + 'static,
        run: impl Fn(&mut P, u32) -> Result<Outcome> + 'static,
    ) -> Self {
        Self::new(P::NAME, variant, start, run, P::stop)
    }

    pub(crate) fn named(self, name: &str) -> Self {
        let name = name.to_owned();
        Self { name, ..self }
    }

    pub(crate) fn in_group(self, group: impl Into<String>) -> Self {
        let group = group.into();
        Self { group, ..self }
    }

    pub(crate) fn baseline(self) -> Self {
        self.baseline_if(true)
    }

    pub(crate) fn baseline_if(self, is_baseline: bool) -> Self {
        Self {
            is_baseline,
            ..self
        }
    }

    /// With a part of the work.
    pub(crate) fn with_less(self, divisor: u32) -> Self {
        Self { divisor, ..self }
    }

    pub(crate) fn start(&self) -> Result<Box<dyn Run>> {
        (self.start)()
    }

    /// "name (variant)".
    pub(crate) fn label(&self) -> String {
        format!("{} ({})", self.name, self.variant)
    }
}
