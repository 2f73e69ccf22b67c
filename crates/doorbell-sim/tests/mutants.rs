//! Every mutant that can show in the simulator is noticed there. On demand:
//! `cargo test --release -p doorbell-sim --features mutants --test mutants`.

use doorbell_machine::Bug;
use doorbell_machine::sim::Memory;
use doorbell_sim::fuzz::{MUTANTS, Mutant, Shown, hunt};
use doorbell_sim::scenario::{Shape, run};
use std::process::Command;

/// Set in the child process, in which a mutant may do anything.
const CHILD: &str = "DOORBELL_SIM_MUTANT";

fn is_killed(mutant: &Mutant, memory: Memory) -> bool {
    let (seeds, cores) = ("0..10000".parse().unwrap(), "2..=8".parse().unwrap());
    let hunted = hunt(mutant, memory, seeds, cores, |_| ());
    hunted.unwrap().killed.is_some()
}

#[test]
fn kills() {
    if let Ok(name) = std::env::var(CHILD) {
        let named = |mutant: &&Mutant| format!("{:?}", mutant.bug) == name;
        let mutant = MUTANTS.iter().find(named).unwrap();
        if let Shown::Under(memory) = mutant.shown {
            assert!(!is_killed(mutant, memory), "noticed");
        }
        return;
    }
    let can_show = |mutant: &&Mutant| matches!(mutant.shown, Shown::Under(_));
    let mut alive = Vec::new();
    for mutant in MUTANTS.iter().filter(can_show) {
        let name = format!("{:?}", mutant.bug);
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["kills", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, &name)
            .output()
            .unwrap();
        // What a mutant breaks may also be the process.
        if ended.status.success() {
            alive.push(name);
        }
    }
    assert!(alive.is_empty(), "nobody notices {alive:?}");
}

/// The first of so many seeds under which a worker that ends its idling by a plain store is noticed,
/// by what happens then: races are not looked for.
fn notices_a_plain_store(memory: Memory, seeds: u64) -> Option<u64> {
    let [two, conserving, storm, _] = Shape::usual();
    let shapes = [two, conserving, storm, Shape::ends()].map(|shape| Shape {
        memory,
        races: false,
        ..shape
    });
    let fails = |seed: &u64| {
        shapes.iter().any(|shape| {
            let report = run::<{ Bug::BellAnnounceBlind as u8 }>(*seed, shape);
            report.unwrap().outcome.failure.is_some()
        })
    };
    (0..seeds).find(fails)
}

/// The exchange with which a worker ends its idling is also the barrier that drains its stores. Under
/// `sc` there is nothing to drain.
#[test]
fn a_barrier_that_is_missing_shows_under_tso_only() {
    assert_eq!(notices_a_plain_store(Memory::Sc, 1_000), None);
    assert!(notices_a_plain_store(Memory::Tso, 1_000).is_some());
}
