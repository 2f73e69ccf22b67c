//! Clients and servers under timeouts.

use super::bench_with;
use crate::bench::requests::{CLIENT_NS, Figures, SERVER_NS, Shape, run};
use doorbell_core::switches::TimerPull;

const WORKERS: usize = 8;
const SPAN_NS: u64 = 10_000_000;

fn requests(timer_pull: TimerPull, pairs: usize) -> Figures {
    let shape = Shape {
        pairs,
        workers: WORKERS,
        span_ns: SPAN_NS,
    };
    run(&bench_with(timer_pull, 1), shape).unwrap()
}

/// Operations of so many pairs on all CPUs, of two seeds.
fn ended_on_all(timer_pull: TimerPull, pairs: usize) -> u64 {
    let shape = Shape {
        pairs,
        workers: 256,
        span_ns: 3_000_000,
    };
    let ended = |seed| run(&bench_with(timer_pull, seed), shape).unwrap().ended;
    (0..2).flat_map(ended).sum()
}

/// A client that thinks leaves its timer to a worker that runs another pair. There it would be in the way for long.
#[test]
fn the_tasks_whose_timers_a_busy_worker_fires_do_not_crowd_there() {
    let [on, base] = [TimerPull::On, TimerPull::Base].map(|it| ended_on_all(it, 128));
    assert!(on * 100 >= base * 97, "on {on}, base {base}");
}

#[test]
fn all_operations_are_made_with_each_setting() {
    for timer_pull in TimerPull::ALL {
        for pairs in [1, 32] {
            let it = requests(timer_pull, pairs);
            let ended: u64 = it.ended.iter().sum();
            // One pair waits for its own work and two wakes; many have all workers, and little is lost beside their
            // work.
            let busy = pairs.min(WORKERS) as u64;
            let most = busy * SPAN_NS / (CLIENT_NS + SERVER_NS);
            assert!(
                (most / 4..=most).contains(&ended),
                "{timer_pull:?}, {pairs} pairs: {ended} of {most}"
            );
            // One in 256 is lost.
            assert!(it.timeouts <= 4 + ended / 100, "{it:?}");
            assert!(pairs == 1 || it.timeouts > 0, "{it:?}");
            assert!(timer_pull == TimerPull::On || it.pulled == 0, "{it:?}");
        }
    }
}
