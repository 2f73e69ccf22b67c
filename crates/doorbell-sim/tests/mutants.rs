//! Which mutants the simulator kills, by which shape, and which it cannot. On demand:
//! `cargo test --release -p doorbell-sim --features mutants --test mutants`.

use doorbell_machine::Bug;
use doorbell_machine::sim::RunError;
use doorbell_sim::scenario::{Report, Shape, run};
use std::process::Command;

/// How many seeds a mutant may survive.
const SEEDS: u64 = 10_000;

/// Set in the child process, in which a mutant may do anything.
const CHILD: &str = "DOORBELL_SIM_MUTANT";

type Run = fn(u64, &Shape) -> Result<Report, RunError>;

macro_rules! runs {
    ($($bug:ident),+ $(,)?) => {
        /// The runs of all mutants.
        const RUNS: &[(Bug, Run)] = &[$((Bug::$bug, run::<{ Bug::$bug as u8 }>),)+];
    };
}

runs!(
    BellClearAfterTake,
    BellNoRecheck,
    BellAnnounceBlind,
    BellNoAnnounceFence,
    BellNoRing,
    BellNotifyRelaxed,
    MailboxNoRecheckFence,
    MailboxNoStalledRule,
    MailboxPushRelaxed,
    MailboxTakeRelaxed,
    MailboxPushBlind,
    TaskForgetWake,
    TaskWakeRelaxed,
    TaskSubmitWhileRunning,
    TaskCompleteRelaxed,
    TaskDropRelaxed,
    TaskJoinWakerBlind,
    TaskSeizeRunning,
    TaskLeaveForgotten,
    CallSleepSilently,
    CallDoneRelaxed,
    CallTouchAfterDone,
    ParcelReturnRelaxed,
    PoolLeaveRelaxed,
    ManyEndRelaxed,
    ManyTouchAfterEnd,
    WheelFireBlind,
    RestWithoutALook,
    RestNoEpoch,
    QueuePushRelaxed,
    QueueClaimBlind,
    IdleNoAnnounceFence,
    IdleClaimBlind,
    IdleSentinelBlind,
    IdleUnlistBlind,
    IdleNoUnlistFence,
);

/// What some seed kills, mostly one of the first hundred.
const KILLED: &[Bug] = &[
    Bug::BellNoRecheck,
    Bug::BellNoRing,
    Bug::MailboxNoStalledRule,
    Bug::MailboxPushBlind,
    Bug::TaskForgetWake,
    Bug::TaskSubmitWhileRunning,
    Bug::CallSleepSilently,
    Bug::CallTouchAfterDone,
    Bug::ManyTouchAfterEnd,
    Bug::QueueClaimBlind,
    Bug::IdleClaimBlind,
];

#[test]
fn kills() {
    if let Ok(name) = std::env::var(CHILD) {
        return child(&name);
    }
    let mut alive = Vec::new();
    for bug in KILLED {
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["kills", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{bug:?}"))
            .output()
            .unwrap();
        // What a mutant breaks may also be the process.
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        println!(
            "{bug:?}: {}",
            said.lines()
                .find(|line| line.contains("killed"))
                .unwrap_or("crashed")
        );
        if said.contains("lives") {
            alive.push(bug);
        }
    }
    assert!(alive.is_empty(), "{alive:?} live through {SEEDS} seeds");
}

/// Runs the mutant of that name until it is noticed.
fn child(name: &str) {
    let run = RUNS.iter().find(|(bug, _)| format!("{bug:?}") == name);
    let run = run.expect("all mutants are in the table").1;
    let [two, conserving, storm, storm_tso] = Shape::usual();
    let shapes = [
        two,
        conserving,
        storm,
        storm_tso,
        Shape::leaps(),
        Shape::ends(),
    ];
    for seed in 0..SEEDS {
        for shape in &shapes {
            if let Some(failure) = run(seed, shape).unwrap().outcome.failure {
                println!("killed by {} under seed {seed}: {failure}", shape.name);
                return;
            }
        }
    }
    println!("lives");
}

#[test]
fn every_mutant_is_in_the_table() {
    let listed: Vec<Bug> = RUNS.iter().map(|(bug, _)| *bug).collect();
    assert_eq!(listed, Bug::ALL);
}
