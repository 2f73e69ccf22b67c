//! Schbench with its own times: where wakers want the same workers, and where they do not.

use super::{US, bench, extremes};
use crate::bench::Bench;
use crate::bench::schbench::{Shape, WORK_NS, run};
use crate::bench::wake::{Figures, Phase};
use doorbell_core::switches::{IdleClaim, Switches};

const WOKEN: usize = 8;

fn woken(idle_claim: IdleClaim, workers_each: usize, seed: u64) -> Figures {
    let shape = Shape {
        messengers: 2,
        woken_each: WOKEN,
        workers_each,
        phase: Phase::Together,
        rounds: 12,
    };
    let bench = Bench {
        switches: Switches {
            idle_claim,
            ..Switches::default()
        },
        ..bench("smt-20", seed)
    };
    run(&bench, shape).unwrap()
}

/// How many of 1,000 tasks were late by a millisecond: they waited behind another one that computes.
fn waited(it: &Figures) -> usize {
    let late = it.late_ns.iter().filter(|ns| **ns > 1_000 * US);
    1_000 * late.count() / it.late_ns.len()
}

#[test]
fn no_more_tasks_than_workers_find_their_own_ones_idle() {
    for idle_claim in [IdleClaim::On, IdleClaim::Base] {
        let it = woken(idle_claim, WOKEN, 1);
        let (least_ns, most_ns) = extremes(&it.late_ns);
        assert!(
            least_ns >= 10 * US && most_ns <= 30 * US,
            "{idle_claim:?}: {least_ns}..{most_ns} ns"
        );
        let wakes = it.late_ns.len();
        assert_eq!(wakes, 2 * WOKEN * 12, "{idle_claim:?}");
        // A busy SMT sibling makes the work longer by 64 per cent at most.
        let work_ns = wakes as u64 * WORK_NS;
        assert!(
            (work_ns..=work_ns * 7 / 4).contains(&it.cpu_ns),
            "{idle_claim:?}, CPU {} ns of {work_ns}",
            it.cpu_ns
        );
    }
}

/// Of twice as many tasks half find their worker busy, and their wakers choose. Those that only look choose alike.
#[test]
fn more_tasks_than_workers_wait_behind_each_other_where_wakers_only_look() {
    for seed in 0..2 {
        let [on, base] =
            [IdleClaim::On, IdleClaim::Base].map(|claim| woken(claim, 2 * WOKEN, seed));
        assert!(
            extremes(&on.late_ns).1 <= 100 * US,
            "{:?}",
            extremes(&on.late_ns)
        );
        assert!(waited(&base) >= 100, "{} of 1,000", waited(&base));
        assert!(base.stacked > on.stacked, "{} {}", base.stacked, on.stacked);
    }
}
