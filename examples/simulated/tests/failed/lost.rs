//! A fault that both tests of failures look for.

use doorbell::sim;
use doorbell::time::{Duration, sleep};
use std::sync::{Arc, Mutex};

/// Four tasks read, await and write back. Returns how many of the four updates are there.
pub(crate) async fn updates_of_four() -> u64 {
    let total = Arc::new(Mutex::new(0));
    let add = |total: Arc<Mutex<u64>>| async move {
        let seen = *total.lock().unwrap();
        sleep(Duration::from_micros(sim::random() % 50)).await;
        *total.lock().unwrap() = seen + 1;
    };
    let tasks: Vec<_> = (0..4)
        .map(|_| doorbell::spawn(add(Arc::clone(&total))))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    *total.lock().unwrap()
}
