//! The rounds: every contestant runs once in each, and the use of resources is recorded.
//!
//! On a shared machine the distance between two CPUs changes from minute to minute. So where a plan has a limit, every
//! pass is judged by the two limits around it, and is discarded when they differ too much.

use super::rows::{Rated, Results, percentiles, row};
use super::{Contestant, Metric, Outcome, Plan, Run, Stage, Work, goals};
use crate::error::unknown;
use crate::measure::{
    IdleMachine, Machine, Samples, SyscallSource, TimeLimit, interrupts, median, spread_of, timed,
    usage,
};
use crate::progress::Progress;
use crate::report::{MeasuredOn, Report, Row, gist_of, main_table};
use crate::scenario::Options;
use anyhow::{Context as _, Result};

/// Two limits may differ by this factor.
const LIMIT_TOLERANCE_X: f64 = 1.5;
/// How often a pass is repeated because the limit moved.
const RETRIES_MAX: u32 = 2;

/// The figures of one contestant in one round: those of [`Outcome`] and those of the process.
pub(super) type Figures = std::collections::BTreeMap<&'static str, f64>;

/// The results of one row.
#[derive(Debug, Default)]
pub(super) struct Tape {
    /// The name of its kind of times, if its contestant has several.
    pub(super) part: &'static str,
    /// The figures of each round.
    pub(super) rounds: Vec<Figures>,
    /// The samples of all rounds.
    pub(super) late: Samples,
}

/// The results of a contestant: for each kind of its times.
#[derive(Debug, Default)]
pub(super) struct Tapes {
    pub(super) all: Vec<Tape>,
    /// Rounds and passes that were dropped because the limit moved.
    pub(super) dropped: [u32; 2],
}

impl Tapes {
    fn keep(&mut self, outcome: Outcome) {
        let mut parts = outcome.parts;
        if parts.is_empty() {
            parts.push(("", outcome.late));
        }
        for (place, (part, late)) in parts.into_iter().enumerate() {
            if place == self.all.len() {
                self.all.push(Tape::default());
            }
            let (tape, mut figures) = (&mut self.all[place], outcome.figures.clone());
            figures.extend(percentiles(&late));
            tape.part = part;
            tape.late.add(&late);
            tape.rounds.push(figures);
        }
    }
}

/// Runs the contestants that the options name, and their baselines.
pub(crate) fn run(plan: &Plan, options: &Options) -> Result<Report> {
    let stage = Stage::new(options)?;
    let contestants = chosen((plan.contestants)(&stage)?, options.only.as_deref())?;
    let rounds = options.rounds();
    let steps = u64::from(rounds) * contestants.len() as u64;
    let progress = Progress::on_stderr(steps, options.place.as_deref().unwrap_or_default());
    progress.say("watching the idle machine");
    let rest = IdleMachine::watch(options.idle_span())?;
    let machine = Machine::describe(stage.clock, stage.placement, rest)?;
    let time_limit = TimeLimit::start()?;
    let work = (plan.work)(options);
    let mut runner = Runner {
        plan,
        stage: &stage,
        work,
        rest,
        time_limit: &time_limit,
        limits_ns: Vec::new(),
    };
    let tapes = runner.run(rounds, &contestants, &progress)?;
    progress.clear();
    let text = plan.text();
    let metrics = text.metrics("Metrics");
    let rows = rows(plan, &metrics, &contestants, &tapes);
    let tapes_of_rows = tapes.iter().flat_map(|tapes| &tapes.all);
    let rated = rows.iter().zip(tapes_of_rows);
    let rated = rated.map(|(row, tape)| Rated {
        row,
        rounds: &tape.rounds,
    });
    let results = Results {
        rated: rated.collect(),
        options,
    };
    let mut tables = results.tables(text).into_iter();
    // Without columns of its own, the first of its tables is the main one.
    let main = if metrics.iter().all(|metric| metric.title.is_empty()) {
        tables.next()
    } else {
        Some(main_table(&metrics, &rows, rounds))
    };
    let goals = goals::table(&text.items("Goals"), &results);
    let gist = gist_of(text, "Gist", &rows);
    let mut notes = runner.limit_notes(&contestants, &tapes);
    notes.extend(caveats(&machine, work));
    notes.extend((plan.notes)(options));
    Ok(Report {
        scenario: plan.scenario,
        machine: MeasuredOn::Host(machine),
        rounds,
        rows,
        main: main.unwrap_or_default(),
        gist,
        side_tables: tables.chain(goals).collect(),
        notes,
        chart: text.chart("Chart", &metrics),
    })
}

/// A run of all contestants.
struct Runner<'a> {
    plan: &'a Plan,
    stage: &'a Stage,
    work: Work,
    rest: IdleMachine,
    time_limit: &'a TimeLimit,
    limits_ns: Vec<f64>,
}

impl Runner<'_> {
    fn run(&mut self, rounds: u32, all: &[Contestant], progress: &Progress) -> Result<Vec<Tapes>> {
        let mut tapes: Vec<Tapes> = all.iter().map(|_| Tapes::default()).collect();
        for round in 0..rounds {
            // Each round begins with the next one.
            for place in 0..all.len() {
                let at = (place + round as usize) % all.len();
                let one = &all[at];
                progress.say(&format!("round {}: {}", round + 1, one.label()));
                let kept = self.round_of(one, &mut tapes[at]);
                kept.with_context(|| one.label())?;
                progress.advance();
            }
        }
        Ok(tapes)
    }

    fn round_of(&mut self, one: &Contestant, tapes: &mut Tapes) -> Result<()> {
        let Some(mut outcome) = self.trusted_pass(one, tapes)? else {
            tapes.dropped[0] += 1;
            return Ok(());
        };
        // It varies little between rounds and needs a separate pass.
        if tapes.all.is_empty()
            && let Some(per_1k) = self.counted_pass(one)?
        {
            let per_1m = 1_000.0 * per_1k;
            let both = [("syscalls_per_1k", per_1k), ("syscalls_per_1m", per_1m)];
            outcome.figures.extend(both);
        }
        tapes.keep(outcome);
        Ok(())
    }

    /// A pass during which the limit, if there is one, did not move.
    fn trusted_pass(&mut self, one: &Contestant, tapes: &mut Tapes) -> Result<Option<Outcome>> {
        let Some(limit) = self.plan.limit else {
            return self.timed_pass(one).map(Some);
        };
        for _ in 0..=RETRIES_MAX {
            let before_ns = limit(self.stage)?;
            let mut outcome = self.timed_pass(one)?;
            let after_ns = limit(self.stage)?;
            self.limits_ns.extend([before_ns, after_ns]);
            if let Some(limit_ns) = trusted_limit_ns(before_ns, after_ns) {
                let compared = outcome.figures.get(self.plan.compared).copied();
                let ratio = compared.map(|ns| ("ratio_to_limit_x", ns / limit_ns));
                return Ok(Some(outcome.and([("limit_ns", limit_ns)]).and(ratio)));
            }
            outcome.figures.clear();
            tapes.dropped[1] += 1;
        }
        Ok(None)
    }

    fn timed_pass(&self, one: &Contestant) -> Result<Outcome> {
        self.pass(one, |run| {
            let interrupts_before = interrupts()?;
            let before = usage()?;
            let (outcome, span) = timed(|| run.run(self.work.amount / one.divisor));
            let after = usage()?;
            let interrupts_after = interrupts()?;

            let outcome = outcome?;
            let operations = outcome.operations.max(1) as f64;
            let per_op = |count: f64| count / operations;
            let [cpu_s, waits, forced] = std::array::from_fn(|at| after[at] - before[at]);
            let cpu_share = cpu_s / span.as_secs_f64();
            let interrupts = interrupts_before.zip(interrupts_after);
            let interrupts = interrupts.map(|(before, after)| {
                let count = self
                    .rest
                    .excess_interrupts(after.saturating_sub(before), span);
                let (per_1k, per_1m) = (1e3 * per_op(count), 1e6 * per_op(count));
                [("interrupts_per_1k", per_1k), ("interrupts_per_1m", per_1m)]
            });
            let all = [
                ("operations_count", outcome.operations as f64),
                ("cpu_percent", 100.0 * cpu_share),
                ("wakeups_per_op", per_op(waits)),
                ("switches_per_1k", 1_000.0 * per_op(waits + forced)),
            ];
            Ok(outcome.and(all).and(interrupts.into_iter().flatten()))
        })
    }

    /// System calls per 1,000 operations. Counting slows each of them down, so nothing is timed meanwhile.
    fn counted_pass(&self, one: &Contestant) -> Result<Option<f64>> {
        if self.work.counted == 0 {
            return Ok(None);
        }
        // Opened before the start, so that the threads started there are counted.
        let Some(Ok(mut counter)) = self.stage.syscalls.map(SyscallSource::open) else {
            return Ok(None);
        };
        self.pass(one, |run| {
            let before = counter.read()?;
            let outcome = run.run((self.work.counted / one.divisor).max(1))?;
            let count = counter.read()? - before;
            let operations = outcome.operations.max(1) as f64;
            Ok(Some(1_000.0 * count as f64 / operations))
        })
    }

    /// Starts, warms up, measures and stops. Returns the first error.
    fn pass<T>(
        &self,
        one: &Contestant,
        measure: impl FnOnce(&mut dyn Run) -> Result<T>,
    ) -> Result<T> {
        let _armed = self.time_limit.arm(one.label(), self.work.pass_max);
        let mut run = one.start()?;
        let warmed = run.run((self.work.warm_up / one.divisor).max(self.work.warm_up.min(1)));
        let result = warmed.and_then(|_| measure(&mut *run));
        let ended = run.stop();
        let value = result?;
        ended?;
        Ok(value)
    }

    /// What the limit was, and what was dropped because it moved.
    fn limit_notes(&self, all: &[Contestant], tapes: &[Tapes]) -> Vec<String> {
        let limits = median(&self.limits_ns).zip(spread_of(&self.limits_ns));
        let Some((middle, [least, most])) = limits else {
            return Vec::new();
        };
        let losses = all.iter().zip(tapes).filter_map(|(one, tapes)| {
            let ([rounds, passes], label) = (tapes.dropped, one.label());
            let loss = format!("{label}: {passes} of its passes, {rounds} of its rounds");
            (passes > 0).then_some(loss)
        });
        let losses = losses.collect::<Vec<_>>().join("; ");
        let lost = if losses.is_empty() {
            "nothing"
        } else {
            &losses
        };
        vec![
            format!(
                "limit: a cache line went to the other CPU and back in {middle:.0} ns ({least:.0}..{most:.0} over {} \
                 readings)",
                self.limits_ns.len()
            ),
            format!("dropped because the limit moved: {lost}"),
        ]
    }
}

/// The limit for a pass between these two readings, if they are alike.
pub(super) fn trusted_limit_ns(before_ns: f64, after_ns: f64) -> Option<f64> {
    let (low, high) = (before_ns.min(after_ns), before_ns.max(after_ns));
    let usable = low > 0.0 && high / low <= LIMIT_TOLERANCE_X;
    usable.then(|| f64::midpoint(before_ns, after_ns))
}

/// Those whose label contains `only`, and the baselines of their groups.
fn chosen(all: Vec<Contestant>, only: Option<&str>) -> Result<Vec<Contestant>> {
    let labels: Vec<String> = all.iter().map(Contestant::label).collect();
    let matches = matching(&labels, only)?;
    let named = all.iter().zip(&matches).filter(|(_, matches)| **matches);
    let groups: Vec<String> = named.map(|(one, _)| one.group.clone()).collect();
    let marked = all.into_iter().zip(matches);
    let wanted = marked.filter_map(|(one, matches)| {
        let is_wanted = matches || (one.is_baseline && groups.contains(&one.group));
        is_wanted.then_some(one)
    });
    Ok(wanted.collect())
}

/// Whether each of `labels` contains `only`, or one of its parts between `|`, ignoring case; an error if none of them does.
pub(crate) fn matching(labels: &[String], only: Option<&str>) -> Result<Vec<bool>> {
    let wanted = only.unwrap_or_default().to_lowercase();
    let is_wanted = |label: &String| {
        let label = label.to_lowercase();
        wanted.split('|').any(|part| label.contains(part))
    };
    let matches: Vec<bool> = labels.iter().map(is_wanted).collect();
    if matches.contains(&true) {
        return Ok(matches);
    }
    let wanted = only.unwrap_or_default();
    Err(unknown("contestant", wanted, labels))
}

/// A row for each tape, compared with the tape of the same part of its baseline.
fn rows(plan: &Plan, metrics: &[Metric], all: &[Contestant], tapes: &[Tapes]) -> Vec<Row> {
    let baseline_of = |group: &str, part: &str| {
        let is_it = |one: &Contestant| one.is_baseline && one.group == group;
        let place = all.iter().position(is_it)?;
        tapes[place].all.iter().find(|tape| tape.part == part)
    };
    let mut rows = Vec::new();
    for (one, tapes) in all.iter().zip(tapes) {
        let empty = Tape::default();
        let dropped = tapes.all.is_empty().then_some(&empty);
        for tape in tapes.all.iter().chain(dropped) {
            let variant = match tape.part {
                "" => one.variant.clone(),
                part => format!("{}: {part}", one.variant),
            };
            let (names, baseline) = ((&*one.name, &*variant), baseline_of(&one.group, tape.part));
            let mut row = row(names, tape, baseline, plan.compared, metrics);
            if plan.limit.is_some() {
                let names = ["rounds_dropped_count", "passes_dropped_count"];
                for (name, count) in names.into_iter().zip(tapes.dropped) {
                    row.metrics.put(name, Some(f64::from(count)));
                }
            }
            rows.push(row);
        }
    }
    rows
}

/// Notes for the reader that can apply to any run.
fn caveats(machine: &Machine, work: Work) -> Vec<String> {
    let mut notes = Vec::new();
    if work.counted > 0
        && let Err(reason) = crate::measure::SyscallSource::find()
    {
        notes.push(format!("system calls were not counted: {reason:#}"));
    }
    if machine.was_busy() {
        let busy = "other programs used the CPUs before this run: expect wide spreads, and interrupt \
                    counts that include theirs";
        notes.push(busy.to_owned());
    }
    if let Ok(switches) = std::env::var("DOORBELL_SWITCHES") {
        let rows = "rows of doorbell that name no switch";
        notes.push(format!(
            "DOORBELL_SWITCHES is set: {rows} ran with {switches}"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use anyhow::bail;

    use super::*;
    use crate::error::TASK_LOST;

    fn act(rounds: u32, fails: bool) -> (Result<Vec<Tapes>>, Vec<String>) {
        let log = Rc::new(RefCell::new(Vec::new()));
        let (starts, ends) = (Rc::clone(&log), Rc::clone(&log));
        let start = move || {
            starts.borrow_mut().push("start".to_owned());
            Ok(Rc::clone(&starts))
        };
        let run = move |_: &mut Rc<RefCell<Vec<String>>>, amount| {
            ends.borrow_mut().push(format!("run {amount}"));
            if fails {
                bail!(TASK_LOST);
            }
            Ok(Outcome::of(u64::from(amount), [("op_ns", 5.0)]))
        };
        let one = Contestant::new("actor", "acting", start, run, |log| {
            log.borrow_mut().push("stop".to_owned());
            Ok(())
        });
        let Ok(stage) = Stage::new(&Options::default()) else {
            return (Ok(Vec::new()), Vec::new());
        };
        let time_limit = TimeLimit::start().expect("a thread can be started");
        let mut runner = Runner {
            plan: &Plan::NEW,
            stage: &stage,
            work: Work::of(10, 2, 0),
            rest: IdleMachine::default(),
            time_limit: &time_limit,
            limits_ns: Vec::new(),
        };
        let tapes = runner.run(rounds, &[one], &Progress::hidden());
        let said = log.borrow().clone();
        (tapes, said)
    }

    #[test]
    fn a_pass_is_started_warmed_measured_and_stopped() {
        let (tapes, log) = act(2, false);
        let tapes = tapes.expect("nothing fails");
        let [tapes] = &tapes[..] else { return };
        let pass = ["start", "run 2", "run 10", "stop"];
        assert_eq!(log, [pass, pass].concat());
        assert_eq!((tapes.all.len(), tapes.all[0].rounds.len()), (1, 2));
        let figures = &tapes.all[0].rounds[0];
        assert!((figures["op_ns"] - 5.0).abs() < 1e-9);
        assert!((figures["operations_count"] - 10.0).abs() < 1e-9);
        assert!(figures.contains_key("wakeups_per_op"));
        assert!(!figures.contains_key("syscalls_per_1k"), "nobody counted");
    }

    #[test]
    fn one_that_fails_is_named_and_stopped() {
        let (tapes, log) = act(2, true);
        if !log.is_empty() {
            assert_eq!(log, ["start", "run 2", "stop"]);
            let error = format!("{:#}", tapes.expect_err("it fails"));
            assert!(error.starts_with("actor (acting):"), "{error}");
        }
    }

    #[test]
    fn each_kind_of_times_is_kept_by_itself() {
        let mut tapes = Tapes::default();
        for us in [3, 5] {
            let [mut first, second] = [Samples::default(), Samples::default()];
            first.record(us * 1_000);
            let outcome = Outcome::of(0, [("polls_per_s", 7.0)]);
            tapes.keep(Outcome {
                parts: vec![("read", first), ("sleep", second)],
                ..outcome
            });
        }
        let found: Vec<_> = tapes
            .all
            .iter()
            .map(|tape| (tape.part, tape.late.len(), tape.rounds[1].get("max_us")))
            .collect();
        assert_eq!(found, [("read", 2, Some(&5.0)), ("sleep", 0, None)]);
        assert!(
            tapes
                .all
                .iter()
                .all(|tape| tape.rounds[0]["polls_per_s"] > 6.0)
        );
    }

    #[test]
    fn limits_that_differ_too_much_are_not_trusted() {
        assert_eq!(trusted_limit_ns(100.0, 140.0), Some(120.0));
        assert_eq!(trusted_limit_ns(151.0, 100.0), None);
        assert_eq!(trusted_limit_ns(0.0, 0.0), None);
    }

    #[test]
    fn a_filter_ignores_the_case_and_says_who_there_is() {
        let labels = ["Tokio (one)".to_owned(), "other (two)".to_owned()];
        assert_eq!(matching(&labels, Some("TOK")).expect("one"), [true, false]);
        assert_eq!(matching(&labels, None).expect("all"), [true, true]);
        let error = matching(&labels, Some("nobody")).expect_err("none");
        assert!(error.to_string().contains("other (two)"), "{error}");
    }

    #[test]
    fn a_baseline_takes_part_with_its_group() {
        let one = |name, group| {
            let start = || Ok(());
            Contestant::new(name, "", start, |(), _| Ok(Outcome::default()), Ok).in_group(group)
        };
        let all = || {
            vec![
                one("base", "a").baseline(),
                one("mine", "a"),
                one("base", "b").baseline(),
            ]
        };
        let names = |only| {
            let chosen = chosen(all(), Some(only)).expect("there is one");
            chosen.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(names("mine"), ["base", "mine"]);
        assert_eq!(names("base"), ["base", "base"]);
    }
}
