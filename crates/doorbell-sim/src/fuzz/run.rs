//! A run of the fuzzer: each seed runs every shape, twice.

use doorbell_machine::Mark;
use doorbell_machine::sim::{Failure, MachineSpec, Memory, Outcome, RunError};

use super::{Setup, Shape, Span, setup};

/// What to fuzz.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The seeds.
    pub seeds: Span,
    /// The range of core counts; each seed picks one.
    pub cores: Span,
    /// The memory model.
    pub memory: Memory,
    /// The machine to take parts from; the default machine if `None`.
    pub profile: Option<&'a MachineSpec>,
    /// The shapes; each seed runs through all of them.
    pub shapes: &'a [Shape],
}

/// Counts over all first runs. Second runs are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Seeds that were started.
    pub seeds: u64,
    /// Runs: one per seed and shape.
    pub runs: u64,
    /// Events of the simulated machine.
    pub events: u64,
    /// Simulated time.
    pub time_ns: u64,
    /// Rings.
    pub rings: u64,
    /// Parks.
    pub parks: u64,
    /// Faults.
    pub faults: u64,
    /// A hash over the hashes of all runs, in order. Two builds with the same value behave the same.
    pub hash: u64,
    /// Interrupts that were delayed because their CPU had interrupts disabled.
    pub interrupts_held: u64,
}

/// A rare branch, and how many seeds reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkRow {
    /// The branch.
    pub mark: Mark,
    /// Seeds that reached it in any of their runs.
    pub seeds: u64,
}

/// What was wrong with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An oracle, or the machine, found a failure.
    Failed(Failure),
    /// The second run of the same setup differed.
    Differs {
        /// The hash of the first run.
        first: u64,
        /// The hash of the second.
        second: u64,
    },
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Found {
    /// The shape's name.
    pub shape: &'static str,
    /// The setup that repeats it.
    pub setup: Setup,
    /// What it was.
    pub what: What,
    /// How the run ended.
    pub outcome: Outcome,
}

/// The result of a run of the fuzzer.
#[derive(Clone, Debug)]
pub struct Fuzzed {
    /// What was counted.
    pub tally: Tally,
    /// All marks.
    pub marks: Vec<MarkRow>,
    /// The first failure, if any. The fuzzer stops there.
    pub found: Option<Box<Found>>,
}

impl Fuzzed {
    fn new() -> Self {
        let row = |mark: &Mark| MarkRow {
            mark: *mark,
            seeds: 0,
        };
        Self {
            tally: Tally::default(),
            marks: Mark::ALL.iter().map(row).collect(),
            found: None,
        }
    }
}

/// Runs seeds until all are done or one fails. `before` is called with each seed.
///
/// # Errors
/// [`RunError`] if a run could not begin.
pub fn fuzz(plan: &Plan<'_>, before: impl FnMut(u64, &Fuzzed)) -> Result<Fuzzed, RunError> {
    fuzz_with(plan, before, |shape, setup, first| {
        Ok(judge(first, &(shape.run)(setup, None)?))
    })
}

/// As [`fuzz`], with one run of each setup: it takes half the time, and does not show that a run can be repeated.
#[cfg(test)]
pub(super) fn fuzz_once(plan: &Plan<'_>) -> Result<Fuzzed, RunError> {
    fuzz_with(
        plan,
        |_, _| (),
        |_, _, first| Ok(first.failure.clone().map(What::Failed)),
    )
}

/// What is wrong with the first run of a setup.
type Judged = Result<Option<What>, RunError>;

fn fuzz_with(
    plan: &Plan<'_>,
    mut before: impl FnMut(u64, &Fuzzed),
    judged: impl Fn(&Shape, &Setup, &Outcome) -> Judged,
) -> Result<Fuzzed, RunError> {
    let mut done = Fuzzed::new();
    for seed in plan.seeds.iter() {
        before(seed, &done);
        one_seed(plan, seed, &mut done, &judged)?;
        if done.found.is_some() {
            break;
        }
    }
    Ok(done)
}

/// Runs one seed through all shapes, up to the first failure.
fn one_seed(
    plan: &Plan<'_>,
    seed: u64,
    done: &mut Fuzzed,
    judged: impl Fn(&Shape, &Setup, &Outcome) -> Judged,
) -> Result<(), RunError> {
    let setup = setup(seed, plan.cores, plan.memory, plan.profile);
    done.tally.seeds += 1;
    let mut reached = doorbell_machine::Marks::default();
    for shape in plan.shapes {
        let first = (shape.run)(&setup, None)?;
        done.tally.add(&first);
        reached = reached.and(first.marks);
        if let Some(what) = judged(shape, &setup, &first)? {
            done.found = Some(Box::new(Found {
                shape: shape.name,
                setup,
                what,
                outcome: first,
            }));
            break;
        }
    }
    for row in done.marks.iter_mut().filter(|row| reached.has(row.mark)) {
        row.seeds += 1;
    }
    Ok(())
}

/// What is wrong with a run and its repetition. A difference between the two is reported first, because
/// then a failure could not be repeated.
fn judge(first: &Outcome, second: &Outcome) -> Option<What> {
    if first.hash != second.hash || first.events != second.events {
        return Some(What::Differs {
            first: first.hash,
            second: second.hash,
        });
    }
    first.failure.clone().map(What::Failed)
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.events += outcome.events;
        self.time_ns = self.time_ns.saturating_add(outcome.time_ns);
        self.rings += outcome.rings;
        self.parks += outcome.parks;
        self.faults += outcome.faults;
        self.interrupts_held += outcome.interrupts_held;
        let mixed = self.hash.rotate_left(5) ^ outcome.hash;
        self.hash = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
