//! Times of polls and waits, and long polls, from a user's view.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{Builder, Class, ClassKind, Runtime, yield_now};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longer than any test runs.
const NEVER: Duration = Duration::from_secs(3_600);

fn runtime(cores: usize, long_poll: Duration) -> Runtime {
    Builder::new()
        .cores(cores)
        .poll_times(true)
        .long_poll(long_poll)
        .build()
        .unwrap()
}

fn busy(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {}
}

async fn ten_polls() {
    for _ in 0..9 {
        yield_now().await;
    }
}

#[test]
fn off_unless_told() {
    let rt = Builder::new().cores(1).build().unwrap();
    rt.block_on(rt.task().name("named").spawn(ten_polls()))
        .unwrap();
    let metrics = rt.metrics();
    assert!(metrics.poll_times().is_empty() && metrics.wake_times().is_empty());
    assert_eq!(metrics.poll_times_on(0), None);
    assert!(metrics.long_polls().is_empty());
    assert_eq!(metrics.workers[0].current_poll(), None);
}

#[test]
fn every_poll_is_counted_once_on_its_core() {
    let rt = runtime(2, NEVER);
    let tasks: Vec<_> = (0..20)
        .map(|i| rt.task().on(i % 2).spawn(ten_polls()))
        .collect();
    for task in tasks {
        rt.block_on(task).unwrap();
    }
    let metrics = rt.metrics();
    for core in 0..2 {
        assert_eq!(metrics.poll_times_on(core).unwrap().count(), 100);
        // One for each spawn or wake.
        assert_eq!(metrics.wake_times_on(core).unwrap().count(), 100);
    }
    assert_eq!(metrics.poll_times().count(), 200);
    assert!(metrics.long_polls().is_empty());
    assert_eq!(metrics.poll_times_on(2), None);
}

#[test]
fn calls_are_not_polls() {
    let rt = runtime(1, Duration::ZERO);
    rt.call_blocking(0, || busy(Duration::from_millis(1)))
        .unwrap();
    assert!(rt.metrics().poll_times().is_empty());
    assert_eq!(rt.metrics().workers[0].long_polls(), 0);
}

#[test]
fn a_task_that_waits_behind_a_long_poll_shows_in_the_wake_times() {
    let wait = Duration::from_millis(20);
    let rt = runtime(1, NEVER);
    rt.block_on(rt.spawn(async move {
        let behind = doorbell::spawn(async {});
        busy(wait);
        behind.await.unwrap();
    }))
    .unwrap();
    let metrics = rt.metrics();
    assert!(metrics.wake_times().max() >= wait, "{metrics:?}");
    assert!(metrics.poll_times().max() >= wait, "{metrics:?}");
}

#[test]
fn long_polls_are_counted_and_the_last_are_kept_with_their_names() {
    let long = Duration::from_millis(1);
    let rt = runtime(2, long);
    for i in 0..10 {
        let task = rt.task().on(1).name(format!("hog {i}"));
        rt.block_on(task.spawn(async move { busy(2 * long) }))
            .unwrap();
    }
    rt.block_on(rt.task().on(0).spawn(async move { busy(2 * long) }))
        .unwrap();
    let metrics = rt.metrics();
    assert!(metrics.workers[0].long_polls() >= 1 && metrics.workers[1].long_polls() >= 10);
    let on = |core: usize| {
        let polls = metrics.long_polls().iter();
        polls.filter(move |poll| poll.core().index() == core)
    };
    assert!(on(0).any(|poll| poll.name() == "unnamed"));
    let names: Vec<&str> = on(1).map(doorbell::metrics::LongPoll::name).collect();
    assert_eq!(names.len(), 8);
    assert_eq!(names.last(), Some(&"hog 9"));
    assert!(
        metrics
            .long_polls()
            .iter()
            .all(|poll| poll.duration() >= long)
    );
}

#[test]
fn the_age_of_a_poll_shows_while_it_goes_on() {
    let rt = runtime(1, NEVER);
    let (go, wait) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel();
    let task = rt.spawn(async move {
        began.send(()).unwrap();
        wait.recv().unwrap();
    });
    begun.recv().unwrap();
    let first = rt.metrics().workers[0].current_poll().unwrap();
    busy(Duration::from_millis(5));
    let second = rt.metrics().workers[0].current_poll().unwrap();
    assert!(
        second >= first + Duration::from_millis(4),
        "{first:?}, {second:?}"
    );
    go.send(()).unwrap();
    rt.block_on(task).unwrap();
    // The poll is over when the worker has run something else.
    rt.call_blocking(0, || {}).unwrap();
    assert_eq!(rt.metrics().workers[0].current_poll(), None);
}

#[test]
fn each_class_has_times_and_long_polls_of_its_own() {
    let long = Duration::from_millis(1);
    let rt = runtime(2, long);
    assert!(rt.metrics().poll_times_of(ClassKind::Batch).is_none());
    for (class, polls) in [(Class::rt(9), 3), (Class::BATCH, 2), (Class::FAIR, 4)] {
        for _ in 0..polls {
            let task = rt.task().class(class).on(1).name(class.to_string());
            let task = task.spawn(async move { busy(2 * long) });
            rt.block_on(task).unwrap();
        }
    }
    let metrics = rt.metrics();
    let kinds = [
        (ClassKind::Rt, 3, "Rt 9"),
        (ClassKind::Batch, 2, "Batch"),
        (ClassKind::Fair, 4, "Fair"),
    ];
    for (kind, polls, name) in kinds {
        let times = metrics.poll_times_of(kind).unwrap();
        assert_eq!(times.count(), polls, "{kind}");
        assert!(times.max() >= 2 * long, "{kind}");
        assert_eq!(metrics.wake_times_of(kind).unwrap().count(), polls);
        let of_kind = metrics.long_polls().iter();
        let of_kind = of_kind.filter(|poll| poll.class() == kind);
        let names: Vec<_> = of_kind.map(doorbell::metrics::LongPoll::name).collect();
        assert_eq!(names, vec![name; polls as usize]);
        let workers = metrics.workers.iter().filter(|worker| worker.class == kind);
        let long: Vec<_> = workers
            .map(doorbell::metrics::WorkerMetrics::long_polls)
            .collect();
        assert_eq!(long, [0, polls], "{kind}");
    }
    assert_eq!(metrics.poll_times().count(), 9);
    assert_eq!(metrics.poll_times_on(1).unwrap().count(), 9);
    assert_eq!(metrics.poll_times_on(0).unwrap().count(), 0);
}

#[test]
fn the_age_of_a_batch_poll_shows_too() {
    let rt = runtime(1, NEVER);
    let (go, wait) = mpsc::channel::<()>();
    let (began, begun) = mpsc::channel();
    let task = rt.task().class(Class::BATCH).spawn(async move {
        began.send(()).unwrap();
        wait.recv().unwrap();
    });
    begun.recv().unwrap();
    let metrics = rt.metrics();
    let ages = |kind| {
        let workers = metrics
            .workers
            .iter()
            .filter(move |worker| worker.class == kind);
        workers.filter_map(doorbell::metrics::WorkerMetrics::current_poll)
    };
    assert_eq!(ages(ClassKind::Batch).count(), 1);
    assert_eq!(ages(ClassKind::Fair).count(), 0);
    go.send(()).unwrap();
    rt.block_on(task).unwrap();
}

#[test]
fn a_task_that_never_gives_way_is_shown_while_it_lasts_and_named_behind() {
    let long = Duration::from_millis(1);
    let rt = runtime(1, long);
    let (go, wait) = mpsc::channel::<()>();
    // Outside of tokio's runtime its budget does not apply: all of this is one poll.
    let task = rt.task().name("greedy").spawn(async move {
        let permits = tokio::sync::Semaphore::new(1);
        while wait.try_recv().is_err() {
            drop(permits.acquire().await.unwrap());
        }
    });
    let shown = || {
        let metrics = rt.metrics();
        let worker = metrics.workers[0];
        assert_eq!((worker.core.index(), worker.class), (0, ClassKind::Fair));
        worker.current_poll().is_some_and(|age| age > 5 * long)
    };
    while !shown() {
        std::thread::yield_now();
    }
    assert!(!task.is_finished());
    go.send(()).unwrap();
    rt.block_on(task).unwrap();
    rt.call_blocking(0, || {}).unwrap();
    let metrics = rt.metrics();
    let last = metrics.long_polls().last().unwrap();
    assert_eq!((last.name(), last.core().index()), ("greedy", 0));
    assert!(last.duration() > 5 * long);
}
