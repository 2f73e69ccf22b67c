//! A program that uses much of what doorbell, `futures` and `tokio::sync` offer.

use doorbell::time::{Duration, Instant, sleep, timeout};
use doorbell::{Class, call_on, current_core, sim, spawn, task, yield_now};
use futures::StreamExt;
use std::sync::Arc;

/// Tasks that sleep, compute, yield, lock and send; a call, an urgent task and a timeout.
///
/// # Panics
/// If a part does not do what it should.
pub async fn many_parts() {
    let begun = Instant::now();
    let (sender, mut receiver) = futures::channel::mpsc::unbounded();
    let shared = Arc::new(tokio::sync::Mutex::new(0_u64));
    let mut tasks = Vec::new();
    for i in 0..200_u64 {
        let (sender, shared) = (sender.clone(), Arc::clone(&shared));
        tasks.push(spawn(async move {
            for k in 0..5 {
                sleep(Duration::from_micros(50 + i * 7 % 31)).await;
                sim::work(Duration::from_micros(3));
                yield_now().await;
                *shared.lock().await += k;
            }
            sender.unbounded_send(i).expect("it does not fail");
            i
        }));
    }
    drop(sender);
    let urgent = task().class(Class::rt(50)).spawn(async { current_core() });
    assert!(urgent.await.expect("it does not fail").is_some());
    assert_eq!(call_on(1, || 42).await.expect("it does not fail"), 42);
    let mut sum = 0;
    while let Some(i) = receiver.next().await {
        sum += i;
    }
    assert_eq!(sum, 199 * 200 / 2);
    for (i, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.expect("it does not fail"), i as u64);
    }
    assert_eq!(*shared.lock().await, 200 * 10);
    let late = timeout(Duration::from_millis(2), std::future::pending::<()>()).await;
    assert!(late.is_err());
    assert!(begun.elapsed() >= Duration::from_millis(2));
}
