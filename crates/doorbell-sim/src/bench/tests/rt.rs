//! Periodic urgent tasks, alone and beside others.

use super::{US, bench, extremes};
use crate::bench::rt::{Figures, Load, POLL_NS, Shape, run};

fn periodic(workers: usize, load: Load, seed: u64) -> Figures {
    let shape = Shape {
        workers,
        load,
        periods: 30,
    };
    run(&bench("xeon-40", seed), shape).unwrap()
}

/// A timer that fires on a sleeping worker is 3.3 µs late on this machine.
#[test]
fn periodic_urgent_tasks_are_late_by_their_wake_and_by_crowded_lines() {
    for (workers, most_us) in [(8, 5), (24, 6)] {
        for seed in 0..3 {
            let it = periodic(workers, Load::Alone, seed);
            let (least_ns, most_ns) = extremes(&it.late_ns);
            let so = format!("{workers} workers, seed {seed}: {least_ns}..{most_ns} ns");
            assert_eq!(it.late_ns.len(), 30 * workers, "{so}");
            assert!(least_ns >= 3 * US && most_ns <= most_us * US, "{so}");
            assert_eq!((it.rings, it.extra_ns.len()), (0, 0), "{so}");
        }
    }
}

/// A task that waits behind a periodic one is taken by another worker whose own poll is over, or runs there.
#[test]
fn movable_urgent_tasks_wait_for_a_poll_and_disturb_periodic_ones() {
    for ranks in [&[50][..], &[60, 40]] {
        for seed in 0..3 {
            let it = periodic(24, Load::Extra(ranks.to_vec()), seed);
            let (_, most_ns) = extremes(&it.late_ns);
            let (least_ns, longest_ns) = extremes(&it.extra_ns);
            let so = format!(
                "{ranks:?}, seed {seed}: {most_ns} ns at most, others {least_ns}..{longest_ns} ns, {} rings, {} taken",
                it.rings, it.taken
            );
            assert_eq!(it.extra_ns.len(), 30 * ranks.len(), "{so}");
            assert!((3 * US..=10 * US).contains(&most_ns), "{so}");
            assert!(least_ns >= 3 * US && longest_ns <= 15 * US, "{so}");
            let extras = it.extra_ns.len() as u64;
            assert!((extras / 4..=2 * extras).contains(&it.taken), "{so}");
            assert!(it.rings <= 10 && it.rings_most <= it.rings, "{so}");
        }
    }
}

/// Nobody may take what waits at the two overloaded workers, and nobody rings for it.
#[test]
fn pinned_urgent_tasks_of_overloaded_workers_disturb_nobody() {
    for seed in 0..3 {
        let it = periodic(24, Load::Storm, seed);
        let (_, most_ns) = extremes(&it.late_ns);
        let (least_ns, longest_ns) = extremes(&it.extra_ns);
        let so = format!("seed {seed}: {most_ns} ns at most, pinned {least_ns}..{longest_ns} ns");
        assert_eq!(it.late_ns.len(), 30 * 22, "{so}");
        assert!(most_ns <= 9 * US, "{so}");
        assert!(
            least_ns >= POLL_NS * 9 / 10 && longest_ns <= 3 * POLL_NS,
            "{so}"
        );
        assert!(
            it.extra_ns.len() >= 3_000 && it.rings == 0,
            "{so}, {} rings",
            it.rings
        );
    }
}
