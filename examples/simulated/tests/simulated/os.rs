//! Programs that ask std, and crates that do, for the time and for random numbers; and channels and maps with locks of
//! their own.

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
async fn async_channel_flume_and_dashmap() {
    let map = Arc::new(dashmap::DashMap::new());
    let (to, from) = async_channel::bounded(2);
    let (to_other, from_other) = flume::bounded(2);
    let tasks: Vec<_> = (0..20_u64)
        .map(|task| {
            let (map, to, to_other) = (Arc::clone(&map), to.clone(), to_other.clone());
            spawn(async move {
                for number in 0..10 {
                    map.insert(task * 10 + number, number);
                    to.send(number).await.unwrap();
                    to_other.send_async(number).await.unwrap();
                }
            })
        })
        .collect();
    drop((to, to_other));
    let others = spawn(async move {
        let mut sum = 0;
        while let Ok(number) = from_other.recv_async().await {
            sum += number;
        }
        sum
    });
    let mut sum = 0;
    while let Ok(number) = from.recv().await {
        sum += number;
    }
    assert_eq!((sum, others.await.unwrap()), (900, 900));
    for task in tasks {
        task.await.unwrap();
    }
    for entry in map.iter() {
        sim::work(Duration::from_nanos(*entry.value()));
    }
    assert_eq!(map.len(), 200);
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
