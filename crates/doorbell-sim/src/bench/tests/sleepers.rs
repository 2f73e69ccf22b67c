//! Timers on many workers, some of which are awake; any worker may fire them.

use super::{US, bench_with, extremes};
use crate::bench::sleepers::{Figures, Shape, run};
use doorbell_core::switches::TimerPull;

const WORKERS: usize = 16;
const TIMERS: usize = 200;
/// How late a timer may be: eight short polls, or a wake, and what is due at about the same time.
const LATE_NS: u64 = 50 * US;

fn pulled(timer_pull: TimerPull, awake: usize, seed: u64) -> Figures {
    let shape = Shape {
        workers: WORKERS,
        awake,
        timers: TIMERS,
        span_ns: 40_000 * US,
    };
    let it = run(&bench_with(timer_pull, seed), shape).unwrap();
    let (_, latest_ns) = extremes(&it.late_ns);
    assert_eq!(it.late_ns.len(), TIMERS, "each fires once");
    assert!(latest_ns <= LATE_NS, "{timer_pull:?}, {awake}: {latest_ns}");
    it
}

#[test]
fn sleepers_are_woken_for_their_own_timers_without_the_switch() {
    for awake in [0, 1, 8] {
        let it = pulled(TimerPull::Off, awake, 1);
        let own = (TIMERS * (WORKERS - awake) / WORKERS) as u64;
        // Two timers of one worker may be due at about the same time.
        assert!(
            (own * 9 / 10..=own + 1).contains(&it.wakes),
            "{awake}: {it:?}"
        );
        assert_eq!((it.pulled, it.exchanges), (0, 0));
        assert!(it.ran_ns.iter().all(|ns| *ns > 0), "{it:?}");
    }
}

#[test]
fn sleepers_are_woken_for_no_timer_while_one_is_awake() {
    for awake in [1, 8] {
        for seed in 0..3 {
            let it = pulled(TimerPull::On, awake, seed);
            // While they armed their timers, a few had the duty, each for an earlier timer than the one before.
            assert!(it.wakes <= 6 && it.wakes == it.duties_ended, "{it:?}");
            let (sleepers, of) = ((WORKERS - awake) as u64, WORKERS as u64);
            let theirs = TIMERS as u64 * sleepers / of;
            assert!(it.pulled >= theirs * 9 / 10, "{awake}: {it:?}");
            assert_eq!(it.fenced, 0, "a sleeper needs no membarrier");
            let ran = it.ran_ns.iter().filter(|ns| **ns > 0);
            assert!(ran.count() as u64 <= it.wakes, "the others slept: {it:?}");
            // Of two levels: behind each visit, and where a worker had the duty.
            assert!(it.exchanges <= 2 * it.pulled + 6 * it.parks, "{it:?}");
        }
    }
}

#[test]
fn where_all_sleep_there_is_one_wake_for_each_timer() {
    for seed in 0..3 {
        let it = pulled(TimerPull::On, 0, seed);
        // Some are due at about the same time.
        let timers = TIMERS as u64;
        assert!(
            (timers * 8 / 10..=timers * 11 / 10).contains(&it.wakes),
            "{it:?}"
        );
        assert_eq!(it.fenced, 0, "a sleeper needs no membarrier");
        // To park, to wake, and behind a visit; on two levels each.
        assert!((1..=6).contains(&(it.exchanges / it.parks)), "{it:?}");
    }
}
