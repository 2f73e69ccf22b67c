//! Models: a small program of two to four threads, run in every interleaving of a few
//! preemptions. `LOOM_MAX_PREEMPTIONS` asks for another number than these.

use doorbell_machine::Bug;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Preemptions explored of most models, of those that would take too long, and of those of
/// several workers in their real loops.
const PREEMPTIONS: usize = 3;
const PREEMPTIONS_OF_LARGE: usize = 2;
const PREEMPTIONS_OF_LARGEST: usize = 1;

/// More executions than this are not a model but a search without an end.
const EXECUTIONS_MAX: usize = 2_000_000;

/// Names the test that a child process is to run with its mutant.
const CHILD: &str = "DOORBELL_MUTANT_CHILD";

/// Runs `model` in every interleaving of at most three preemptions.
pub(crate) fn check(model: fn()) {
    check_up_to(PREEMPTIONS, model);
}

/// Runs `model` in every interleaving of at most two preemptions.
pub(crate) fn check_large(model: fn()) {
    check_up_to(PREEMPTIONS_OF_LARGE, model);
}

/// Runs `model` in every interleaving of at most one preemption: two real workers, or a model that HACKING.md has a
/// command for with two. What a thread may see
/// of the others' words is not bounded by that, and neither is where a thread that blocks goes on.
pub(crate) fn check_largest(model: fn()) {
    check_up_to(PREEMPTIONS_OF_LARGEST, model);
}

/// # Panics
/// If one execution fails, or if there are so many that they were not all run.
fn check_up_to(preemptions: usize, model: fn()) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 20_000;
    builder.checkpoint_interval = 1_000;
    builder.max_permutations = Some(EXECUTIONS_MAX);
    let executions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&executions);
    builder.check(move || {
        // ORDER: Relaxed; a count that is read after the last execution.
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    // ORDER: Relaxed; all executions are over.
    let executions = executions.load(Ordering::Relaxed);
    eprintln!("{executions} executions");
    assert!(executions > 1, "a model of one execution checks nothing");
    assert!(executions < EXECUTIONS_MAX - 1_000, "not all were run");
}

/// Waits for the threads of a model.
pub(crate) fn join_all(threads: impl IntoIterator<Item = ::loom::thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("a thread of the model panicked");
    }
}

/// How a mutant shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// A worker or a caller sleeps for ever.
    Deadlock,
    /// Two threads use the same memory without an order between them.
    Race,
    /// An assertion with this text fails.
    Assertion(&'static str),
}

impl Shows {
    const fn text(self) -> &'static str {
        match self {
            Shows::Deadlock => "deadlock; threads =",
            Shows::Race => "Causality violation",
            Shows::Assertion(text) => text,
        }
    }
}

/// A task lies where no worker that looks for work would look.
const NOT_LISTED: Shows = Shows::Assertion("nobody would find the task");

/// Two have one task.
const TAKEN_TWICE: Shows = Shows::Assertion("taken twice");

/// What waits at a worker is known to that worker alone.
const NOBODY_TOLD: Shows = Shows::Assertion("nobody was told");

/// Nobody took it.
const NODE_LOST: Shows = Shows::Assertion("a node was lost");

/// The test that shows that a model notices the mutant, and how it shows.
fn killer(bug: Bug) -> (&'static str, Shows) {
    use Shows::{Assertion as Says, Deadlock, Race};
    match bug {
        Bug::None => unreachable!("nothing is broken"),
        Bug::BellNoRing => ("bell::loom::mutant_no_ring", Deadlock),
        Bug::BellTrustsBelow => ("bell::loom::mutant_trusts_below", Deadlock),
        Bug::BellHelpBlind => (
            "bell::loom::mutant_help_blind",
            Says("two rang in place of one"),
        ),
        Bug::BellAnnounceBlind => ("bell::loom::mutant_announce_blind", Deadlock),
        Bug::BellNoRecheck => ("mailbox::loom::mutant_no_recheck", Deadlock),
        Bug::BellNoAnnounceFence => ("mailbox::loom::mutant_no_announce_fence", Deadlock),
        Bug::MailboxNoRecheckFence => ("mailbox::loom::mutant_no_recheck_fence", Deadlock),
        Bug::MailboxNoStalledRule => ("mailbox::loom::mutant_no_stalled_rule", Deadlock),
        Bug::MailboxPushRelaxed => ("mailbox::loom::mutant_push_relaxed", Race),
        Bug::MailboxPushBlind => ("mailbox::loom::mutant_push_blind", Deadlock),
        Bug::BellClearAfterTake => ("worker::loom::mutant_clear_after_take", Deadlock),
        Bug::CallSleepSilently => ("call::loom::mutant_sleep_silently", Deadlock),
        Bug::CallDoneRelaxed => ("call::loom::mutant_done_relaxed", Race),
        Bug::CallTouchAfterDone => ("call::loom::mutant_touch_after_done", Race),
        Bug::QueuePushRelaxed => ("queue::loom::mutant_push_relaxed", NODE_LOST),
        Bug::QueueClaimBlind => ("queue::loom::mutant_claim_blind", TAKEN_TWICE),
        Bug::QueueSortBlind => ("queue::loom::mutant_sort_blind", TAKEN_TWICE),
        Bug::ManyTouchAfterEnd => ("call::loom_many::mutant_touch_after_end", Race),
        Bug::WheelFireBlind => (
            "wheel::loom::mutant_fire_blind",
            Says("fired after its drop"),
        ),
        Bug::WheelGateNoFence => ("wheel::loom_gate::mutant_no_fence", Race),
        Bug::WheelTakeBackNoFence => ("wheel::loom_lent::mutant_take_back_no_fence", Race),
        Bug::WheelVisitNoFence => ("wheel::loom_lent::mutant_visit_no_fence", Race),
        Bug::QuiescenceNoEpoch => (
            "wheel::loom_quiescence::mutant_quiescence_no_epoch",
            Says("told of more to do"),
        ),
        Bug::QuiescenceNoWait => (
            "wheel::loom_quiescence::mutant_quiescence_no_wait",
            Says("the clock went on while it was held"),
        ),
        Bug::QuiescenceWithoutALook => (
            "wheel::loom_quiescence::mutant_quiescence_without_a_look",
            Says("the clock went on too early"),
        ),
        _ => killer_of_schedulers(bug),
    }
}

/// Of those of schedulers: who is idle, who has work, who keeps them in memory.
fn killer_of_schedulers(bug: Bug) -> (&'static str, Shows) {
    use Shows::{Assertion as Says, Deadlock};
    match bug {
        Bug::IdleNoAnnounceFence => ("scheduler::idle::loom::mutant_no_announce_fence", Deadlock),
        Bug::IdleNoSurplusFence => ("worker::loom::pair::mutant_no_surplus_fence", Deadlock),
        Bug::IdleClaimBlind => (
            "scheduler::idle::loom::mutant_claim_blind",
            Says("two wakers won"),
        ),
        Bug::IdleTakeBlind => (
            "scheduler::placement::loom::mutant_take_blind",
            Says("two took one worker"),
        ),
        Bug::PlacePushesBehind => (
            "scheduler::placement::loom::mutant_pushes_behind",
            Says("two tasks at one worker"),
        ),
        Bug::SchedulerPushUnoffered => (
            "scheduler::idle::loom::mutant_scheduler_push_unoffered",
            Says("the task waits for a poll"),
        ),
        Bug::IdleWatchdogBlind => (
            "scheduler::idle::loom::mutant_watchdog_blind",
            Says("two watchdogs"),
        ),
        Bug::IdleUnlistBlind => ("scheduler::idle::loom::mutant_unlist_blind", NOT_LISTED),
        Bug::IdleNoUnlistFence => ("scheduler::idle::loom::mutant_no_unlist_fence", NOT_LISTED),
        _ => killer_of_push(bug),
    }
}

/// Of those of push among urgent workers.
fn killer_of_push(bug: Bug) -> (&'static str, Shows) {
    use Shows::Assertion as Says;
    const WAITS: Shows = Shows::Assertion("the task waits for a poll");
    const TELL_LOST: Shows = Shows::Assertion("a tell was lost");
    match bug {
        Bug::PushClearBlind => (
            "scheduler::push::loom::mutant_clear_blind",
            Says("nobody would look at the worker"),
        ),
        Bug::PushCountsLate => ("scheduler::push::loom::mutant_counts_late", WAITS),
        Bug::PushNoPostFence => ("scheduler::push::loom::mutant_no_post_fence", WAITS),
        Bug::PushNoLowerFence => ("scheduler::push::loom::mutant_no_lower_fence", WAITS),
        Bug::PushNoSecondLook => ("scheduler::push::loom::mutant_no_second_look", WAITS),
        Bug::PushEndBlind => ("scheduler::push::loom_token::mutant_end_blind", TELL_LOST),
        Bug::PushGivesUpBlind => (
            "scheduler::push::loom_token::mutant_gives_up_blind",
            TELL_LOST,
        ),
        Bug::PushWatchdogRelies => (
            "worker::loom::push::mutant_watchdog_relies",
            Says("the task waits for a holder without a CPU"),
        ),
        _ => killer_of_workers(bug),
    }
}

/// Of those of workers in their loops.
fn killer_of_workers(bug: Bug) -> (&'static str, Shows) {
    use Shows::Deadlock;
    match bug {
        Bug::PullLeavesNoFence => ("worker::loom::pull::mutant_leaves_no_fence", NOBODY_TOLD),
        Bug::PullEndsEarly => (
            "worker::loom::pull::mutant_ends_early",
            Shows::Assertion("a next wake was left behind"),
        ),
        Bug::TimerRefusedByOther => (
            "worker::loom::placed::mutant_refused_by_other",
            Shows::Assertion("a timer was refused"),
        ),
        Bug::TaskListNoFence => ("worker::loom::relieve::mutant_list_no_fence", Shows::Race),
        Bug::SchedulerPostUnoffered => ("worker::loom::behind::mutant_post_unoffered", Deadlock),
        Bug::WorkerStallNoFence => ("worker::loom::stalls::mutant_no_stall_fence", Deadlock),
        _ => killer_of_tasks(bug),
    }
}

/// Of those of tasks, and of locks between them.
fn killer_of_tasks(bug: Bug) -> (&'static str, Shows) {
    use Shows::{Deadlock, Race};
    const QUEUED_TWICE: Shows = Shows::Assertion("a task was queued twice");
    match bug {
        Bug::TaskForgetWake => ("task::loom::mutant_forget_wake", Deadlock),
        Bug::TaskNotedFromBelow => ("task::loom_below::mutant_noted_from_below", Deadlock),
        Bug::TaskSubmitWhileRunning => ("task::loom::mutant_submit_while_running", QUEUED_TWICE),
        Bug::TaskJoinWakerBlind => ("task::loom::mutant_join_waker_blind", Race),
        Bug::TaskSeizeRunning => ("task::loom_workers::mutant_seize_running", Race),
        Bug::TaskLeaveForgotten => (
            "task::loom_workers::mutant_leave_forgotten",
            Shows::Assertion("a task was not freed"),
        ),
        Bug::TaskRaiseForgotten => ("task::loom_above::mutant_raise_forgotten", Deadlock),
        Bug::TaskPauseBlind => (
            "task::loom_above::mutant_pause_blind",
            Shows::Assertion("a task was not freed"),
        ),
        Bug::TaskRaisedTwice => ("task::loom_above::mutant_raised_twice", QUEUED_TWICE),
        Bug::LockLeaveBlind => (
            "lock::loom::mutant_leave_blind",
            Shows::Assertion("it is free"),
        ),
        _ => killer_of_io(bug),
    }
}

/// Of those of descriptors.
fn killer_of_io(bug: Bug) -> (&'static str, Shows) {
    use Shows::{Deadlock, Race};
    const LOST: Shows = Shows::Assertion("a wake-up was lost");
    match bug {
        Bug::IoClearBlind => ("io::loom::mutant_clear_blind", LOST),
        Bug::IoArmBlind => ("io::loom::mutant_arm_blind", LOST),
        Bug::IoNoArmFence => ("io::loom::mutant_no_arm_fence", LOST),
        Bug::IoNoEventFence => ("io::loom::mutant_no_event_fence", LOST),
        Bug::IoHeldBlind => ("io::loom::mutant_held_blind", LOST),
        Bug::IoSweepBlind => ("io::loom::mutant_sweep_blind", Race),
        Bug::IoNoNoteFence => ("io::loom::mutant_no_note_fence", Deadlock),
        Bug::IoNeverLeft => ("io::loom::mutant_never_left", Deadlock),
        Bug::IoSleepsUnkept => ("worker::loom::keeper::mutant_sleeps_unkept", Deadlock),
        Bug::IoMuteBlind => ("io::loom::mutant_mute_blind", LOST),
        _ => killer_of_the_tree(bug),
    }
}

/// Of those of the timer tree.
fn killer_of_the_tree(bug: Bug) -> (&'static str, Shows) {
    const TWO: Shows = Shows::Assertion("two sentries for one time");
    const LATE: Shows = Shows::Assertion("nobody wakes in time");
    const NOT_SHOWN: Shows = Shows::Assertion("an active branch is not shown");
    const SET_ASIDE: Shows = Shows::Assertion("a report set a worker aside");
    match bug {
        Bug::TreeNoSequence => ("tree::loom::mutant_no_sequence", NOT_SHOWN),
        Bug::TreeClimbBlind => ("tree::loom::mutant_climb_blind", NOT_SHOWN),
        Bug::TreeStopsEarly => ("tree::loom::mutant_stops_early", LATE),
        Bug::TreeReportBlind => ("tree::loom::mutant_report_blind", SET_ASIDE),
        Bug::TreeSentryBlind => ("tree::loom::mutant_sentry_blind", TWO),
        Bug::TreeSentryStays => ("tree::loom::mutant_sentry_stays", LATE),
        _ => unreachable!("{bug:?} has no killer"),
    }
}

/// Shows that `model` fails with `bug` in it, and in the way that is expected.
///
/// The model runs in a process of its own: a thread that is unwound in the middle of a model
/// drops wakers and handles there, whose steps panic again once the model is over, and a
/// panic in a drop while unwinding ends the process.
#[track_caller]
pub(crate) fn must_be_noticed(bug: Bug, model: fn()) {
    let (test, shows) = killer(bug);
    must_be_noticed_by(test, shows, bug, model);
}

/// The same by another test than the one that is named for the mutant.
#[track_caller]
pub(crate) fn must_be_noticed_by(test: &'static str, shows: Shows, bug: Bug, model: fn()) {
    must_be_noticed_within(PREEMPTIONS_OF_LARGE, test, shows, bug, model);
}

/// The same with one preemption.
#[track_caller]
pub(crate) fn must_be_noticed_by_largest(test: &'static str, shows: Shows, bug: Bug, model: fn()) {
    must_be_noticed_within(PREEMPTIONS_OF_LARGEST, test, shows, bug, model);
}

#[track_caller]
fn must_be_noticed_within(
    preemptions: usize,
    test: &'static str,
    shows: Shows,
    bug: Bug,
    model: fn(),
) {
    if std::env::var(CHILD).is_ok_and(|name| name == test) {
        doorbell_machine::loom::break_thread(bug);
        check_up_to(preemptions, model);
        return;
    }
    let child = Command::new(std::env::current_exe().expect("the OS knows this program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("this program starts again");
    let said = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let said = said.join("");
    assert!(!child.status.success(), "{bug:?} went unnoticed:\n{said}");
    assert!(
        said.contains(shows.text()),
        "{bug:?} did not show as {shows:?}:\n{said}"
    );
}

/// Shows that the model of this name notices the mutant of that one.
macro_rules! mutant {
    ($bug:ident, $model:ident) => {
        $crate::testing::model::must_be_noticed(doorbell_machine::Bug::$bug, $model)
    };
}
pub(crate) use mutant;

/// The tests of this program, by their whole names.
fn tests() -> Vec<String> {
    let listed = Command::new(std::env::current_exe().expect("the OS knows this program"))
        .args(["--list", "--format=terse"])
        .output()
        .expect("this program starts again");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}

/// Mutants that need time, or more tasks than a model has: the simulator kills them.
const SIMULATED: [Bug; 19] = [
    Bug::SpinStealsFull,
    Bug::IdleClaimNeverLapses,
    Bug::IdleTakeNeverRevoked,
    Bug::PlaceClaimsFromBelow,
    Bug::PlaceKeepsLostLate,
    Bug::RtLeavesOneWaiting,
    Bug::WorkerStallOfAnyPoll,
    Bug::PushNoLook,
    Bug::PushPassTakesParcels,
    Bug::BusyLooksByCount,
    Bug::DeferredInLine,
    Bug::DeferredStarves,
    Bug::PullForgetsDuty,
    Bug::PullNeverLooks,
    Bug::PullReportsNothing,
    Bug::PullTrustsStuck,
    Bug::TimerWakesAtDeadline,
    Bug::IdleWorkerFiresEarly,
    Bug::WheelWakesForFirstSlot,
];

#[test]
fn every_mutant_has_its_killer() {
    let tests = tests();
    let modelled = || Bug::ALL.into_iter().filter(|bug| !SIMULATED.contains(bug));
    for bug in modelled() {
        let name = killer(bug).0;
        assert!(tests.iter().any(|test| test == name), "there is no {name}");
    }
    let killers: std::collections::BTreeSet<_> = modelled().map(|bug| killer(bug).0).collect();
    assert_eq!(
        killers.len(),
        modelled().count(),
        "one test kills two mutants"
    );
}

/// README and models of every protocol.
const PROTOCOLS: [(&str, &str, &str); 14] = [
    (
        "scheduler::placement",
        include_str!("scheduler/placement/README.md"),
        include_str!("scheduler/placement/loom.rs"),
    ),
    (
        "tree",
        include_str!("tree/README.md"),
        include_str!("tree/loom.rs"),
    ),
    (
        "lock",
        include_str!("lock/README.md"),
        include_str!("lock/loom.rs"),
    ),
    (
        "io",
        include_str!("io/README.md"),
        include_str!("io/loom.rs"),
    ),
    (
        "wheel",
        include_str!("wheel/README.md"),
        include_str!("wheel/loom.rs"),
    ),
    (
        "queue",
        include_str!("queue/README.md"),
        include_str!("queue/loom.rs"),
    ),
    (
        "scheduler::idle",
        include_str!("scheduler/README.md"),
        include_str!("scheduler/idle/loom.rs"),
    ),
    (
        "scheduler::push",
        include_str!("scheduler/push/README.md"),
        concat!(
            include_str!("scheduler/push/loom.rs"),
            include_str!("scheduler/push/loom_token.rs")
        ),
    ),
    (
        "bell",
        include_str!("bell/README.md"),
        include_str!("bell/loom.rs"),
    ),
    (
        "mailbox",
        include_str!("mailbox/README.md"),
        include_str!("mailbox/loom.rs"),
    ),
    (
        "task",
        include_str!("task/README.md"),
        concat!(
            include_str!("task/loom.rs"),
            include_str!("task/loom_workers.rs")
        ),
    ),
    (
        "call",
        include_str!("call/README.md"),
        include_str!("call/loom.rs"),
    ),
    (
        "group",
        include_str!("group/README.md"),
        include_str!("group/loom.rs"),
    ),
    (
        "worker",
        include_str!("worker/README.md"),
        include_str!("worker/loom.rs"),
    ),
];

#[test]
fn what_the_readmes_call_checked_is_checked() {
    let tests = tests();
    for (protocol, readme, models) in PROTOCOLS {
        let (_, checked) = readme.split_once("## What is checked").expect("a heading");
        let (checked, _) = checked.split_once("\nSources:").unwrap_or((checked, ""));
        // Names in backticks are every other piece; those of functions have underscores.
        let names = checked.split('`').skip(1).step_by(2);
        let is_name = |name: &&str| {
            let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            name.chars().all(word) && name.matches('_').count() > 1
        };
        let names: Vec<&str> = names.filter(is_name).collect();
        for name in &names {
            let is_test = tests
                .iter()
                .any(|test| test.ends_with(&format!("::{name}")));
            let is_model = models.contains(&format!("fn {name}("));
            assert!(is_test || is_model, "{protocol}: there is no {name}");
        }
        let prefix = format!("{protocol}::loom::");
        for test in tests.iter().filter_map(|test| test.strip_prefix(&prefix)) {
            // Some are in a file of their own beneath it.
            let name = test.rsplit_once("::").map_or(test, |(_, name)| name);
            assert!(names.contains(&name), "{protocol}: {test} is not named");
        }
    }
}
