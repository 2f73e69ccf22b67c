//! Timers of tokio-util and tokio-stream, and crates that try again.

use backon::{ConstantBuilder, Retryable};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio_retry::Retry;
use tokio_retry::strategy::{ExponentialBackoff, jitter};
use tokio_stream::StreamExt;
use tokio_util::task::TaskTracker;
use tokio_util::time::DelayQueue;

const STEP: Duration = Duration::from_millis(5);

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_delay_queue_gives_its_entries_in_the_order_of_their_deadlines() {
    let mut queue = DelayQueue::new();
    for number in [3, 1, 2] {
        queue.insert(number, number * 4 * STEP);
    }
    let removed = queue.insert(0, 10 * STEP);
    queue.remove(&removed);
    let all: Vec<u32> = queue.map(|entry| entry.into_inner()).collect().await;
    assert_eq!(all, [1, 2, 3]);
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn a_task_tracker_waits_for_tasks_of_both_runtimes() {
    let (tracker, ended) = (TaskTracker::new(), Arc::new(AtomicU32::new(0)));
    for _ in 0..4 {
        let ends = |ended: Arc<AtomicU32>| async move {
            tokio::time::sleep(STEP).await;
            ended.fetch_add(1, Ordering::SeqCst);
        };
        tracker.spawn(ends(Arc::clone(&ended)));
        drop(doorbell::spawn(
            tracker.track_future(ends(Arc::clone(&ended))),
        ));
    }
    tracker.close();
    tracker.wait().await;
    assert_eq!(ended.load(Ordering::SeqCst), 8);
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn streams_of_tokio_stream_keep_time() {
    let started = Instant::now();
    let interval = tokio_stream::wrappers::IntervalStream::new(tokio::time::interval(STEP));
    assert_eq!(interval.take(4).collect::<Vec<_>>().await.len(), 4);
    assert!(started.elapsed() >= 3 * STEP);
    let throttled = tokio_stream::iter(0..3).throttle(STEP);
    let all: Vec<i32> = throttled.collect().await;
    assert_eq!(all, [0, 1, 2]);
    let mut late = Box::pin(tokio_stream::pending::<()>().timeout(STEP));
    assert!(late.next().await.unwrap().is_err());
}

/// Fails twice.
async fn third_time_lucky(tries: &AtomicU32) -> io::Result<u32> {
    match tries.fetch_add(1, Ordering::SeqCst) + 1 {
        3 => Ok(3),
        _ => Err(io::ErrorKind::ConnectionRefused.into()),
    }
}

#[doorbell::test(builder = doorbell_tokio::builder)]
async fn tokio_retry_and_backon_try_again() {
    let (tries, started) = (AtomicU32::new(0), Instant::now());
    let strategy = ExponentialBackoff::from_millis(2).map(jitter).take(5);
    let tried = Retry::start(strategy, || third_time_lucky(&tries)).await;
    assert_eq!(tried.unwrap(), 3);

    let tries = AtomicU32::new(0);
    let tried = (|| third_time_lucky(&tries)).retry(ConstantBuilder::default().with_delay(STEP));
    assert_eq!(tried.await.unwrap(), 3);
    assert!(started.elapsed() >= 2 * STEP);
}
