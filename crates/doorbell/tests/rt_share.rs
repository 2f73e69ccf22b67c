//! What [`Builder::rt_budget`] leaves to other programs.
//!
//! A test binary of its own: it uses all CPUs. `cargo test -p doorbell --test rt_share -- --nocapture` prints what it
//! measures, and `DOORBELL_SHARE_SECONDS=10` makes it measure for longer.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{Builder, Class, ClassKind, Runtime, metrics::Policy};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

const SHARE: f64 = 0.5;
const PERIOD: Duration = Duration::from_millis(20);
const POLL: Duration = Duration::from_micros(100);

fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

/// CPU time in seconds.
fn used(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Another program: computes on each CPU for that time. Returns how much CPU time it got, in
/// seconds.
fn other_program(time: Duration) -> f64 {
    let compute = move |cpu: usize| {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).unwrap();
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
        used(ClockId::ThreadCPUTime)
    };
    let threads = cpus()
        .into_iter()
        .map(|cpu| std::thread::spawn(move || compute(cpu)));
    let threads: Vec<_> = threads.collect();
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum()
}

/// A task on each core that never ends and never waits, in polls of 100 µs.
fn fill(rt: &Runtime, cores: usize) {
    for core in 0..cores {
        drop(rt.task().class(Class::rt(50)).on(core).spawn(async {
            loop {
                let poll = Instant::now();
                while poll.elapsed() < POLL {
                    std::hint::spin_loop();
                }
                doorbell::yield_now().await;
            }
        }));
    }
}

/// Which part of all CPU time urgent workers leave to other programs. `None` if they have no real-time priority here.
fn left_to_others(cores: usize, time: Duration) -> Option<f64> {
    let rt = Builder::new().cores(cores).rt_budget(SHARE, PERIOD).build();
    let rt = rt.unwrap();
    fill(&rt, cores);
    let policies = rt.policies();
    let mut urgent = policies.iter().filter(|it| it.class() == ClassKind::Rt);
    if !urgent.all(|it| matches!(it.got(), Some(Policy::Fifo { .. }))) {
        return None;
    }
    let (start, before) = (Instant::now(), used(ClockId::ProcessCPUTime));
    let others = other_program(time);
    let urgent = used(ClockId::ProcessCPUTime) - before - others;
    let all = start.elapsed().as_secs_f64() * cpus().len() as f64;
    let left = 1.0 - urgent / all;
    println!(
        "{cores} cores leave {left:.2}; another program got {:.2}",
        others / all
    );
    Some(left)
}

#[test]
fn r13_urgent_workers_that_always_compute_leave_each_cpu_to_others_for_a_part() {
    let seconds = std::env::var("DOORBELL_SHARE_SECONDS").ok();
    let seconds = seconds.map_or(1, |asked| asked.parse().expect("a number"));
    let cpus = cpus().len() as f64;
    for cores in [1, 2, 4, 8] {
        let Some(left) = left_to_others(cores, Duration::from_secs(seconds)) else {
            eprintln!("not tested here: SCHED_FIFO is not allowed");
            return;
        };
        let by_the_budget = 1.0 - SHARE * (cores as f64).min(cpus) / cpus;
        assert!(left >= 0.6 * by_the_budget, "{cores} cores leave {left:.2}");
    }
}
