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
    QueuePushRelaxed,
    QueueClaimBlind,
    IdleNoAnnounceFence,
    IdleClaimBlind,
);

#[test]
fn kills() {
    if let Ok(name) = std::env::var(CHILD) {
        return child(&name);
    }
    for (bug, _) in RUNS {
        let said = Command::new(std::env::current_exe().unwrap())
            .args(["kills", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{bug:?}"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let line = text
            .lines()
            .find(|line| line.contains("MUTANT"))
            .unwrap_or("crash");
        println!("{bug:?} {} {}", said.status, line);
    }
}

fn child(name: &str) {
    let (_, run) = RUNS
        .iter()
        .find(|(bug, _)| format!("{bug:?}") == name)
        .unwrap();
    let most = std::env::var("SEEDS").map_or(SEEDS, |s| s.parse().unwrap());
    let shapes = [
        Shape::two_lanes(),
        Shape::storm(),
        Shape::storm_tso(),
        Shape::conserving(),
        Shape::leaps(),
    ];
    for seed in 0..most {
        for shape in &shapes {
            if let Some(failure) = run(seed, shape).unwrap().outcome.failure {
                println!("MUTANT killed by {} {seed}: {failure}", shape.name);
                return;
            }
        }
    }
    println!("MUTANT lives");
}
