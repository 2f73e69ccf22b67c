//! Tests of the host backend against the contracts of the trait.

use super::{CacheLine, Host, HostParker};
use crate::{
    Counter, Line, Machine, Ordering, ParkEnd, Parker, Spun, ThreadError, ThreadHandle, ThreadSpec,
};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

#[test]
fn the_clock_is_never_ahead_of_instant_nor_backwards() {
    // std's clock is read first here and last below, so the time by std's clock is never the shorter one.
    let start = Instant::now();
    let start_ns = Host::now_ns();
    let mut last = start_ns;
    while start.elapsed() < Duration::from_millis(30) {
        let now = Host::now_ns();
        assert!(now >= last, "{now} after {last}");
        last = now;
        let elapsed = start.elapsed().as_nanos() as u64;
        assert!(now - start_ns <= elapsed + super::LAG_NS_MAX);
    }
    assert!(
        Host::now_ns() - start_ns >= 25_000_000,
        "the clock stands still"
    );
}

#[test]
fn the_clock_is_the_kernels_monotonic_clock() {
    // Sleep past the first stretch, so that the clock extrapolates.
    std::thread::sleep(Duration::from_millis(5));
    let _ = Host::now_ns();
    for _ in 0..10_000 {
        let ours = Host::now_ns();
        let kernel = super::clock::kernel_now_ns();
        assert!(ours <= kernel, "{ours} is ahead of {kernel}");
        let ours = Host::now_ns();
        assert!(
            ours + super::LAG_NS_MAX >= kernel,
            "{ours} is far behind {kernel}"
        );
    }
}

#[test]
fn the_clock_agrees_between_threads() {
    let threads: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(|| (0..2_000).map(|_| Host::now_ns()).max().unwrap()))
        .collect();
    let latest = threads
        .into_iter()
        .map(|t| t.join().unwrap())
        .max()
        .unwrap();
    assert!(Host::now_ns() >= latest);
}

#[test]
fn a_changed_word_is_never_slept_on() {
    let word = AtomicU32::new(1);
    assert_eq!(HostParker::new().park(&word, 0, None), ParkEnd::Changed);
}

#[test]
fn a_past_deadline_comes_back_at_once_and_a_far_one_is_accepted() {
    let word = Arc::new(AtomicU32::new(0));
    assert_eq!(HostParker::new().park(&word, 0, Some(0)), ParkEnd::Deadline);
    let ringer = Arc::clone(&word);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        ringer.store(1, Ordering::Release);
        HostParker::new().ring(&ringer);
    });
    while word.load(Ordering::Acquire) == 0 {
        let ended = HostParker::new().park(&word, 0, Some(u64::MAX));
        assert_ne!(ended, ParkEnd::Deadline);
    }
    thread.join().unwrap();
}

#[test]
fn spinning_sees_a_change_and_knows_its_deadline() {
    let line = CacheLine::new(|| AtomicU32::new(7));
    let is = |value| move |word: &AtomicU32| word.load(Ordering::Acquire) == value;
    assert_eq!(Host::spin(&line, 0, is(7)), Spun::Changed);
    assert_eq!(Host::spin(&line, 0, is(8)), Spun::Deadline);
    let start = Instant::now();
    assert_eq!(Host::spin(&line, 1_000_000, is(8)), Spun::Deadline);
    let spun = start.elapsed() + Duration::from_nanos(super::LAG_NS_MAX);
    assert!(spun >= Duration::from_millis(1), "it gave up early");
}

#[test]
fn a_thread_is_bound_before_its_body_runs() {
    let cpu = Host::topology().cpus.last().unwrap().os_id;
    let spec = ThreadSpec {
        name: "bound".into(),
        cpu: Some(cpu),
        stack_size: None,
    };
    let (tx, rx) = std::sync::mpsc::channel();
    let thread = Host::spawn(
        spec,
        Box::new(move || {
            tx.send(super::thread::allowed_cpus()).unwrap();
        }),
    )
    .unwrap();
    assert_eq!(rx.recv().unwrap(), vec![cpu]);
    assert!(!thread.is_current());
    thread.join().unwrap();
}

#[test]
fn a_cpu_that_is_not_there_is_an_error_with_a_remedy() {
    let spec = ThreadSpec {
        name: "lost".into(),
        cpu: Some(1_000),
        stack_size: None,
    };
    let error = Host::spawn(spec, Box::new(|| unreachable!("must not run"))).unwrap_err();
    assert!(matches!(error, ThreadError::Bind { cpu: 1_000, .. }));
    assert!(error.to_string().contains("affinity mask"), "{error}");
}

#[test]
fn a_panicking_thread_is_an_error_at_join() {
    let spec = ThreadSpec {
        name: "panics".into(),
        cpu: None,
        stack_size: None,
    };
    let thread = Host::spawn(spec, Box::new(|| panic!("on purpose"))).unwrap();
    assert!(matches!(thread.join(), Err(ThreadError::Panicked)));
}

#[test]
fn counters_count_and_random_numbers_differ() {
    let counter = <Host as Machine>::Counter::default();
    counter.add_owned(2);
    assert_eq!(counter.add_shared(3), 2);
    assert_eq!(counter.get(), 5);
    assert_ne!(Host::random(), Host::random());
}

#[test]
fn a_thread_runs_on_the_cpu_that_it_is_bound_to() {
    let cpu = Host::topology().cpus[0].os_id;
    let bound = move || {
        Host::bind_thread(&[cpu]).unwrap();
        Host::cpu()
    };
    assert_eq!(std::thread::spawn(bound).join().unwrap(), cpu);
}
