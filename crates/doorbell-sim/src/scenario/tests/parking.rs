//! A worker falls asleep and is stopped after each step on the way. Steps are what the machine reports as
//! steps, so a new one is covered without a change here. While the worker is stopped, something arrives, of
//! every kind there is. Then the thread that brings it is stopped after each of its own steps in turn,
//! until the worker sleeps. Every arrival must be served, no ring may be missing, and none may be in vain.

mod arrival;
mod plan;
mod seen;

use crate::scenario::class::{Classes, RT, Urgent};
use arrival::{First, What};
use doorbell_core::worker::IdlePolicy;
use doorbell_machine::sim::{CHOSEN, Memory, Parkers, break_thread};
use doorbell_machine::{Bug, Mark};
use plan::{Setting, Tally, Woken, explore};

/// What can arrive at any worker.
const TO_ANY: &[What] = &[
    What::Call,
    What::Wake,
    What::WakePinned,
    What::Timer,
    What::TimerSoon,
    What::TimerOfWaker,
    What::Ready,
    What::Register,
    What::Close,
];

/// What can arrive if the scheduler has two workers.
const TO_SCHEDULER: &[What] = &[What::Surplus, What::ReadyOff];

/// What can arrive if there are other classes.
const BESIDE: &[What] = &[What::Urgent, What::Batch];

const ALONE: Setting = Setting {
    what: What::Call,
    first: First::Before,
    woken: Woken::ByCall,
    workers: 1,
    worker: 0,
    classes: Classes::One,
    idle: IdlePolicy::Park,
    paused: false,
    parkers: Parkers::Futex,
    memory: Memory::Sc,
    seed: 1,
};

/// The same worker, which spins first, on another kind of machine.
const SPINNING: Setting = Setting {
    idle: IdlePolicy::Spin { spin_ns: 5_000 },
    parkers: Parkers::Eventfd,
    memory: Memory::Tso,
    seed: 2,
    ..ALONE
};

/// Tries every arrival, at workers with a descriptor and at workers that get their first one with it.
fn try_all(settings: &[Setting], whats: &[&[What]]) -> Tally {
    let mut tally = Tally::default();
    for setting in settings {
        for first in [First::Before, First::Now] {
            if (first, setting.woken) == (First::Now, Woken::ByDescriptor) {
                continue;
            }
            for what in whats.iter().copied().flatten() {
                let setting = Setting {
                    what: *what,
                    first,
                    ..*setting
                };
                match explore::<0>(setting) {
                    Ok(more) => tally = tally.and(more),
                    Err(why) => panic!("{why}"),
                }
            }
        }
    }
    tally
}

/// Checks that the worker was stopped wherever it can be.
fn check_seen(tally: &Tally, phases: &[&str], marks: &[Mark]) {
    for phase in phases {
        assert!(tally.phases.contains(*phase), "never {phase}: {tally:?}");
    }
    for mark in marks {
        assert!(tally.marks.has(*mark), "never {mark:?}: {tally:?}");
    }
    for step in ["load", "store", "rmw", "fence", "park", "unpark"] {
        assert!(tally.steps.contains(step), "no {step}: {tally:?}");
    }
}

/// The phases of workers with descriptors, and of workers without.
const PHASES: &[&str] = &[
    "Running, awake or on its word",
    "Spinning, awake or on its word",
    "Parked, keeper",
    "Notified, keeper",
    "Spinning, keeper",
    "Parked, awake or on its word",
    "Notified, awake or on its word",
];

/// Every branch by which a worker does not fall asleep, or not for long.
const MARKS: &[Mark] = &[
    Mark::BellMustRing,
    Mark::BellSignalledBeforeSpin,
    Mark::BellSignalledBeforePark,
    Mark::BellLastTest,
    Mark::MailboxLastLook,
];

#[test]
fn what_comes_to_a_worker_that_falls_asleep_is_served() {
    let tally = try_all(&[ALONE, SPINNING], &[TO_ANY]);
    check_seen(&tally, PHASES, MARKS);
    assert!(tally.runs > 15_000, "{tally:?}");
}

#[test]
fn what_comes_to_a_worker_that_a_descriptor_has_woken_is_served() {
    let settings = [ALONE, SPINNING].map(|setting| Setting {
        woken: Woken::ByDescriptor,
        ..setting
    });
    let tally = try_all(&settings, &[TO_ANY]);
    check_seen(
        &tally,
        &PHASES[..3],
        &[Mark::BellMustRing, Mark::BellLastTest],
    );
    assert!(tally.runs > 5_000, "{tally:?}");
}

#[test]
fn what_comes_to_a_worker_of_a_scheduler_that_falls_asleep_is_served() {
    let settings = [ALONE, SPINNING].map(|setting| Setting {
        workers: 2,
        ..setting
    });
    let tally = try_all(&settings, &[TO_ANY, TO_SCHEDULER]);
    check_seen(&tally, PHASES, MARKS);
    check_seen(&tally, &[], &[Mark::IdleClaimedBeforePark]);
    assert!(tally.runs > 10_000, "{tally:?}");
}

#[test]
fn what_comes_to_a_worker_beside_other_classes_is_served() {
    let settings = [ALONE, SPINNING].map(|setting| Setting {
        classes: Classes::Each(Urgent::Fifo),
        ..setting
    });
    let tally = try_all(&settings, &[TO_ANY, BESIDE]);
    check_seen(&tally, PHASES, MARKS);
    assert!(tally.runs > 10_000, "{tally:?}");
}

#[test]
fn what_comes_to_an_urgent_worker_that_falls_asleep_is_served() {
    let urgent = Setting {
        classes: Classes::Each(Urgent::Fifo),
        worker: RT,
        ..SPINNING
    };
    let tally = try_all(&[urgent], &[TO_ANY, BESIDE, &[What::Fair]]);
    check_seen(&tally, &[], &[Mark::BellMustHelp]);
    assert!(tally.runs > 5_000, "{tally:?}");
}

/// Arrivals at a worker that already has a descriptor.
#[test]
fn what_comes_to_a_worker_that_falls_asleep_is_served_while_the_clock_stands_still() {
    for what in [
        What::Call,
        What::TimerSoon,
        What::TimerOfWaker,
        What::Ready,
        What::Register,
    ] {
        let paused = Setting {
            what,
            paused: true,
            ..ALONE
        };
        if let Err(why) = explore::<0>(paused) {
            panic!("{why}");
        }
    }
}

/// Whether an arrival that is lost with the mutant is noticed on each of these machines.
fn notices(bug: Bug, settings: &[Setting], what: What, first: First) -> bool {
    break_thread(bug);
    settings.iter().all(|setting| {
        let setting = Setting {
            what,
            first,
            ..*setting
        };
        explore::<CHOSEN>(setting).is_err_and(|why| why.starts_with("lost: "))
    })
}

#[test]
fn a_worker_that_wakes_and_does_not_leave_the_poller_is_noticed() {
    for what in [What::Register, What::Ready] {
        assert!(
            notices(Bug::IoNeverLeft, &[ALONE, SPINNING], what, First::Before),
            "{what:?}"
        );
    }
}

#[test]
fn who_does_not_look_for_an_event_again_is_noticed() {
    for first in [First::Before, First::Now] {
        assert!(
            notices(Bug::IoArmBlind, &[ALONE, SPINNING], What::Register, first),
            "{first:?}"
        );
    }
}

#[test]
fn a_worker_that_does_not_look_into_its_mailbox_again_is_noticed() {
    // No timer: posting one requests a pass, whatever the worker does.
    for what in [What::Call, What::Wake, What::WakePinned] {
        assert!(
            notices(Bug::BellNoRecheck, &[ALONE, SPINNING], what, First::Before),
            "{what:?}"
        );
    }
}

#[test]
fn a_worker_that_clears_its_bell_too_late_is_noticed() {
    assert!(notices(
        Bug::BellClearAfterTake,
        &[ALONE],
        What::Close,
        First::Before
    ));
}
