// One test needs state outside of the simulated machine that steers a run, which a real run must not have.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::AtomicU64;

use doorbell_machine::sim::{
    self, CHOSEN, Config, Failure, MachineSpec, Memory, Outcome, RunError, Sink,
};
use doorbell_machine::{Bug, Machine, Mark, Ordering, Sim, Word};

use super::shapes::shapes;
use super::{
    CORES_MAX, Fuzzed, MUTANTS, Mutant, Plan, SHAPES, Setup, Shape, Shown, Span, SpanError, What,
    fuzz, hunt, machine_for,
};
use crate::profile::Profile;

fn span(text: &str) -> Span {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn config(setup: &Setup) -> Config {
    Config {
        seed: setup.seed,
        machine: setup.machine(setup.cores),
        memory: setup.memory,
        ..Config::default()
    }
}

/// Each core increments a word; the seed decides how often.
fn adds(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    let times = 1 + setup.seed % 3;
    sim::run_traced(config(setup), sink, move || {
        let word = <Sim as Machine>::U32::new(0);
        for _ in 0..times {
            // ORDER: one thread only.
            word.fetch_add(1, Ordering::Relaxed);
        }
        if times == 2 {
            <Sim as Machine>::mark(Mark::BellAlready);
        }
    })
}

/// Fails for seeds whose last two digits are 17.
fn fails(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    let seed = setup.seed;
    sim::run_traced(config(setup), sink, move || {
        sim::work(10);
        if seed % 100 == 17 {
            sim::fail("it is seventeen");
        }
    })
}

/// State that survives a run, so that the next run depends on it.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Behaves differently in each run.
fn forgets(setup: &Setup, sink: Option<Sink>) -> Result<Outcome, RunError> {
    // ORDER: relaxed; each caller only needs a different number.
    let runs = RUNS.fetch_add(1, Ordering::Relaxed) + 1;
    sim::run_traced(config(setup), sink, move || sim::work(runs))
}

const ADDS: Shape = Shape {
    name: "adds",
    about: "adds to a word",
    run: adds,
};
const FAILS: Shape = Shape {
    name: "fails",
    about: "fails at 17",
    run: fails,
};
const FORGETS: Shape = Shape {
    name: "forgets",
    about: "is never the same",
    run: forgets,
};

fn run(seeds: &str, shapes: &[Shape]) -> Fuzzed {
    let plan = Plan {
        seeds: span(seeds),
        cores: span("1..=4"),
        memory: Memory::Tso,
        profile: None,
        shapes,
    };
    fuzz(&plan, |_, _| ()).expect("the machine can be simulated")
}

#[test]
fn every_seed_runs_every_shape_and_marks_are_counted_by_seed() {
    let done = run("0..9", &[ADDS, FAILS]);
    assert!(done.found.is_none());
    assert_eq!((done.tally.seeds, done.tally.runs), (9, 18));
    let reached: Vec<_> = done.marks.iter().filter(|row| row.seeds > 0).collect();
    assert_eq!(done.marks.len(), Mark::ALL.len());
    assert_eq!(reached.len(), 1, "{reached:?}");
    assert_eq!((reached[0].mark, reached[0].seeds), (Mark::BellAlready, 3));
}

#[test]
fn the_hash_of_all_runs_tells_them_apart() {
    let hash = |seeds| run(seeds, &[ADDS, FAILS]).tally.hash;
    assert_eq!(hash("0..9"), hash("0..9"));
    let others = [hash("0..9"), hash("0..8"), hash("1..9")];
    assert!(
        others[0] != others[1] && others[0] != others[2],
        "{others:?}"
    );
}

#[test]
fn a_failure_ends_the_run_and_its_setup_repeats_it() {
    let done = run("10..1000", &[ADDS, FAILS]);
    assert_eq!(done.tally.seeds, 8, "10 to 17");
    let found = done.found.expect("17 fails");
    assert_eq!((found.shape, found.setup.seed), ("fails", 17));
    let why = Failure::Oracle("it is seventeen".to_owned());
    assert_eq!(found.what, What::Failed(why.clone()));
    let again = fails(&found.setup, None).expect("it can be simulated");
    assert_eq!((again.hash, again.failure), (found.outcome.hash, Some(why)));
}

#[test]
fn a_run_that_cannot_be_repeated_is_found() {
    let done = run("5..6", &[FORGETS]);
    let found = done.found.expect("the second run differs");
    assert!(matches!(found.what, What::Differs { first, second } if first != second));
}

#[test]
fn a_hunt_ends_at_the_seed_that_notices() {
    const MUTANT: Mutant = Mutant {
        bug: Bug::BellNoRing,
        shown: Shown::Under(Memory::Sc),
        shapes: &[ADDS, FAILS],
    };
    let mut told = 0;
    let killed = hunt(&MUTANT, Memory::Sc, span("0..50"), span("2"), |_| told += 1);
    let killed = killed.expect("it can be simulated");
    assert_eq!((killed.bug, killed.seeds, told), (Bug::BellNoRing, 18, 18));
    let by = killed.killed.expect("17 notices");
    assert_eq!((by.seed, by.shape, by.cores), (17, "fails", 2));
    let lived = hunt(&MUTANT, Memory::Sc, span("20..50"), span("2"), |_| ());
    let lived = lived.expect("it can be simulated");
    assert_eq!(lived.seeds, 30);
    assert!(lived.killed.is_none());
}

/// Those of the timer tree and its wiring that few seeds notice, without what takes long: a worker that never looks
/// wakes without end (`scenario/tests/pull.rs` kills it), and a blind climb shows under `tso` in one of a hundred
/// seeds.
#[test]
fn a_broken_timer_tree_is_noticed_in_random_programs() {
    let few = shapes::<CHOSEN>();
    let few = few
        .iter()
        .filter(|shape| ["conserving", "storm"].contains(&shape.name));
    let few: &'static [Shape] = few.copied().collect::<Vec<_>>().leak();
    for bug in [
        Bug::PullForgetsDuty,
        Bug::PullReportsNothing,
        Bug::PullTrustsStuck,
        Bug::TreeStopsEarly,
        Bug::TreeSentryStays,
        Bug::TreeSentryBlind,
    ] {
        let listed = MUTANTS.iter().find(|mutant| mutant.bug == bug);
        assert_eq!(listed.map(|it| it.shown), Some(Shown::Under(Memory::Sc)));
        sim::break_thread(bug);
        let mutant = Mutant {
            bug,
            shown: Shown::Under(Memory::Sc),
            shapes: few,
        };
        let hunted = hunt(&mutant, Memory::Sc, span("0..400"), span("2..=8"), |_| ());
        let hunted = hunted.expect("it can be simulated");
        assert!(hunted.killed.is_some(), "{bug:?}");
    }
}

#[test]
fn every_mutant_is_in_the_list_once() {
    let listed: Vec<Bug> = MUTANTS.iter().map(|mutant| mutant.bug).collect();
    assert_eq!(listed, Bug::ALL);
    let not_here = |mutant: &&Mutant| matches!(mutant.shown, Shown::NotHere(_));
    assert!(
        MUTANTS
            .iter()
            .filter(not_here)
            .all(|it| it.shapes.is_empty())
    );
}

#[test]
fn ranges_are_read_as_rust_writes_them() {
    let ends = |text: &str| (span(text).first(), span(text).last());
    assert_eq!(ends("3..7"), (3, 6));
    assert_eq!(ends("3..=7"), (3, 7));
    assert_eq!(ends(" 3 .. 7 "), (3, 6));
    assert_eq!(ends("5"), (5, 5));
    assert_eq!(ends("0..=18446744073709551615"), (0, u64::MAX));
    assert_eq!(span("0..=18446744073709551615").count(), u64::MAX);
    for text in ["3..=7", "5"] {
        assert_eq!(span(text).to_string(), text);
    }
}

#[test]
fn ranges_that_are_none_say_what_to_write() {
    let error = |text: &str| text.parse::<Span>().expect_err("it is none");
    for text in [
        "",
        "a..b",
        "1..",
        "..5",
        "1-5",
        "-1..5",
        "1..99999999999999999999",
    ] {
        assert_eq!(error(text), SpanError::NoRange(text.to_owned()));
    }
    assert!(error("9..=2").to_string().ends_with("write `2..=9`"));
    assert!(error("4..4").to_string().ends_with("write `4..=4`"));
    let cores = |text: &str| span(text).of_cores();
    assert_eq!(cores("1..=1024").map(Span::last), Ok(1_024));
    let none = cores("0..4").expect_err("no run has 0 cores");
    assert!(none.to_string().ends_with("write `1..=3`"), "{none}");
    let many = cores("2..2000").expect_err("no run has 1,999 cores");
    assert!(many.to_string().ends_with("write `2..=1024`"), "{many}");
    assert!(cores("5000").is_err());
}

#[test]
fn cores_are_picked_from_the_whole_range_and_small_ones_often() {
    let range = span("2..=256");
    let picked: Vec<u64> = (0..4_000).map(|seed| range.pick(seed)).collect();
    assert!(picked.iter().all(|cores| (2..=256).contains(cores)));
    assert!(picked.contains(&2) && picked.iter().any(|cores| *cores > 250));
    let small = picked.iter().filter(|cores| **cores < 16).count();
    assert!((1_000..3_000).contains(&small), "{small}");
    assert_eq!(span("7").pick(99), 7);
    assert_eq!(span("1..=1").pick(0), 1);
    let all = span("0..=18446744073709551615");
    assert!((0..1_000).any(|seed| all.pick(seed) > u64::MAX / 4));
}

#[test]
fn machines_have_room_for_the_cores_and_stay_in_bounds() {
    let mut profiles: Vec<Option<MachineSpec>> = vec![None];
    for name in Profile::built_in() {
        let profile = Profile::load(name).expect("it is built in");
        profiles.push(Some(profile.spec().clone()));
    }
    profiles.push(Some(MachineSpec {
        smt: 513,
        ..MachineSpec::default()
    }));
    for profile in &profiles {
        for cores in 1..=CORES_MAX as usize {
            let machine = machine_for(cores, profile.as_ref());
            assert!(machine.cpus() >= cores, "{cores} of {machine:?}");
            assert_eq!(machine.check(), Ok(()), "{cores}");
        }
    }
    let epyc = profiles[1].as_ref().expect("the first one");
    let small = machine_for(6, Some(epyc));
    assert_eq!((small.sockets, small.cores_per_llc, small.smt), (1, 3, 2));
    let large = machine_for(300, Some(epyc));
    assert_eq!((large.sockets, large.cpus()), (3, 384));
}

#[test]
fn seeds_draw_faults_of_the_machine() {
    let done = run("0..10", &SHAPES);
    assert!(done.found.is_none(), "{:?}", done.found);
    let tally = done.tally;
    assert!(tally.faults > 0 && tally.interrupts_held > 0, "{tally:?}");
}

#[test]
fn scenarios_run_on_one_core_and_on_many() {
    for (cores, memory) in [("1", Memory::Sc), ("40", Memory::Tso)] {
        let plan = Plan {
            seeds: span("3"),
            cores: span(cores),
            memory,
            profile: None,
            shapes: &SHAPES,
        };
        let done = fuzz(&plan, |_, _| ()).expect("the machine can be simulated");
        assert!(done.found.is_none(), "{:?}", done.found);
        assert_eq!(done.tally.runs, SHAPES.len() as u64);
        assert!(done.tally.events > 10_000, "{:?}", done.tally);
    }
}
