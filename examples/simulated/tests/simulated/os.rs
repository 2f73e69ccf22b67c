//! What other crates offer a task, and what they and std ask the OS for: the time and random numbers. Each seed runs
//! twice, and both runs must have one hash.

use doorbell::time::{Duration, sleep};
use doorbell::{sim, spawn, yield_now};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

doorbell::simulate_std!();

#[doorbell::test(sim)]
async fn a_mutex_of_async_lock_under_contention() {
    let total = Arc::new(async_lock::Mutex::new(0));
    let tasks: Vec<_> = (0..30)
        .map(|_| {
            let total = Arc::clone(&total);
            spawn(async move {
                for _ in 0..20 {
                    let mut total = total.lock().await;
                    *total += 1;
                    yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*total.lock().await, 600);
}

#[doorbell::test(sim)]
async fn the_order_of_a_hash_map() {
    let map: HashMap<u64, u64> = (0..20).map(|number| (number, number)).collect();
    let tasks: Vec<_> = map
        .into_keys()
        .map(|key| spawn(async move { sim::work(Duration::from_micros(key)) }))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[doorbell::test(sim)]
async fn random_numbers_of_rand() {
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let time = Duration::from_nanos(rand::random_range(0..100_000));
            spawn(async move { sleep(time).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[doorbell::test(sim)]
async fn a_channel_of_async_channel() {
    let (to, from) = async_channel::bounded(2);
    for _ in 0..20 {
        let to = to.clone();
        spawn(async move {
            for number in 0..10 {
                to.send(number).await.unwrap();
            }
        });
    }
    drop(to);
    let mut sum = 0;
    while let Ok(number) = from.recv().await {
        sum += number;
    }
    assert_eq!(sum, 900);
}

#[doorbell::test(sim)]
async fn a_channel_of_flume() {
    let (to, from) = flume::bounded(2);
    for _ in 0..20 {
        let to = to.clone();
        spawn(async move {
            for number in 0..10 {
                to.send_async(number).await.unwrap();
            }
        });
    }
    drop(to);
    let mut sum = 0;
    while let Ok(number) = from.recv_async().await {
        sum += number;
    }
    assert_eq!(sum, 900);
}

#[doorbell::test(sim)]
async fn a_map_of_dashmap_that_is_iterated() {
    let map = Arc::new(dashmap::DashMap::new());
    let tasks: Vec<_> = (0..20_u64)
        .map(|task| {
            let map = Arc::clone(&map);
            spawn(async move {
                for number in 0..10 {
                    map.insert(task * 10 + number, number);
                    yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for entry in map.iter() {
        sim::work(Duration::from_nanos(*entry.value()));
    }
    assert_eq!(map.len(), 200);
}

/// Without `watch` and `Barrier`: with tokio's feature `rt` they choose by random numbers that come from a static.
#[doorbell::test(sim)]
async fn what_tokio_sync_has() {
    use tokio::sync::{Notify, RwLock, Semaphore, broadcast, oneshot};
    let total = Arc::new(RwLock::new(0));
    let (permits, all) = (Arc::new(Semaphore::new(3)), Arc::new(Notify::new()));
    let (to_all, _) = broadcast::channel(100);
    let mut answers = Vec::new();
    for number in 0..20 {
        let (total, permits, all) = (Arc::clone(&total), Arc::clone(&permits), Arc::clone(&all));
        let (mut from_others, to_all) = (to_all.subscribe(), to_all.clone());
        let (answer, answered) = oneshot::channel();
        answers.push(answered);
        spawn(async move {
            all.notified().await;
            let permit = permits.acquire().await.unwrap();
            *total.write().await += number;
            drop(permit);
            to_all.send(number).unwrap();
            let mut sum = 0;
            for _ in 0..20 {
                sum += from_others.recv().await.unwrap();
            }
            answer.send((sum, *total.read().await)).unwrap();
        });
    }
    sleep(Duration::from_millis(1)).await;
    all.notify_waiters();
    for answer in answers {
        assert_eq!(answer.await.unwrap(), (190, 190));
    }
}

#[doorbell::test(sim)]
async fn what_futures_has() {
    use futures::stream::{self, FuturesUnordered};
    use futures::{FutureExt, StreamExt, future};
    let total = Arc::new(futures::lock::Mutex::new(0));
    let tasks: FuturesUnordered<_> = (0..20_u64)
        .map(|number| {
            let total = Arc::clone(&total);
            spawn(async move {
                sleep(Duration::from_micros(number * 7 % 31)).await;
                *total.lock().await += number;
                number
            })
        })
        .collect();
    let mut order: Vec<_> = tasks.map(Result::unwrap).collect().await;
    for (at, number) in order.iter().enumerate() {
        sim::work(Duration::from_nanos(at as u64 * number));
    }
    order.sort_unstable();
    assert_eq!((order.len(), *total.lock().await), (20, 190));
    let numbers = stream::iter(0..20).map(|number| async move {
        yield_now().await;
        number
    });
    let sum = numbers
        .buffer_unordered(4)
        .fold(0, |sum, number| future::ready(sum + number));
    let sum = spawn(sum).map(Result::unwrap).shared();
    assert_eq!(future::join(sum.clone(), sum).await, (190, 190));
}

#[doorbell::test(sim)]
async fn the_clocks_of_std() {
    let (begun, day) = (Instant::now(), SystemTime::now());
    sleep(Duration::from_hours(1)).await;
    let (passed, by_day) = (begun.elapsed(), day.elapsed().unwrap());
    assert!(passed >= Duration::from_hours(1) && passed < Duration::from_secs(3_601));
    assert!(by_day.abs_diff(passed) < Duration::from_millis(1));
    // A loop that waits for a time ends.
    let until = Instant::now() + Duration::from_micros(50);
    while Instant::now() < until {}
    let same = doorbell::time::Instant::now().into_std();
    assert!(same.abs_diff_of(Instant::now()) < Duration::from_millis(1));
}

/// The time between two moments.
trait Between {
    fn abs_diff_of(self, other: Self) -> Duration;
}

impl Between for Instant {
    fn abs_diff_of(self, other: Instant) -> Duration {
        self.max(other) - self.min(other)
    }
}

#[test]
fn outside_of_a_simulation_the_time_is_that_of_the_os() {
    let day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let begun = Instant::now();
    std::thread::sleep(Duration::from_millis(2));
    assert!(begun.elapsed() >= Duration::from_millis(2));
    assert!(day.unwrap() > Duration::from_secs(1_700_000_000));
}
