//! Programs that use what doorbell, `futures` and `tokio::sync` offer, on simulated cores. Each seed runs twice, and both
//! runs must be the same, step by step.

use doorbell::time::{Duration, Instant, sleep};
use doorbell::{Class, call_on, current_core, sim, spawn, task, yield_now};
use doorbell_simulated::many_parts;
use futures::{SinkExt, StreamExt};
use std::sync::{Arc, Mutex};

#[doorbell::test(sim, cores = 64, seeds = 0..3)]
async fn a_program_runs_on_64_cores() {
    many_parts().await;
}

#[doorbell::test(sim, cores = 2)]
async fn a_program_runs_on_2_cores() {
    many_parts().await;
}

#[doorbell::test(sim, cores = 8, faults(deschedule, slow_core, clock_jump, late_wakes))]
async fn a_program_runs_while_cores_are_slow_and_wakes_come_late() {
    many_parts().await;
}

#[doorbell::test(sim)]
async fn a_lock_of_std_may_be_held_over_a_spawn() {
    let all = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let all = Arc::clone(&all);
            spawn(async move {
                for _ in 0..20 {
                    all.lock().unwrap().push((spawn(async {}), Instant::now()));
                    yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(all.lock().unwrap().len(), 1_000);
}

#[doorbell::test(sim)]
async fn bounded_channels_of_futures_and_tokio() {
    let (to, mut from) = futures::channel::mpsc::channel(2);
    let (to_other, mut from_other) = tokio::sync::mpsc::channel(2);
    for _ in 0..20 {
        let (mut to, to_other) = (to.clone(), to_other.clone());
        spawn(async move {
            for number in 0..10 {
                to.send(number).await.unwrap();
                to_other.send(number).await.unwrap();
            }
        });
    }
    drop((to, to_other));
    let (mut some, mut others) = (0, 0);
    loop {
        match futures::join!(from.next(), from_other.recv()) {
            (Some(_), Some(_)) => (some, others) = (some + 1, others + 1),
            (None, None) => break,
            _ => panic!("one has more than the other"),
        }
    }
    assert_eq!((some, others), (200, 200));
}

#[doorbell::test(sim)]
async fn a_mutex_of_doorbell() {
    let total = Arc::new(doorbell::sync::Mutex::new(0));
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
async fn blocking_closures_and_the_class_batch() {
    let blocking = doorbell::spawn_blocking(|| {
        sim::work(Duration::from_millis(5));
        doorbell::Handle::current().call_blocking(1, current_core)
    });
    let batch = task().class(Class::BATCH).spawn(async {
        sim::work(Duration::from_millis(1));
        doorbell::spawn_blocking(|| 1).await
    });
    let begun = Instant::now();
    assert_eq!(batch.await.unwrap().unwrap(), 1);
    assert_eq!(blocking.await.unwrap().unwrap().unwrap().index(), 1);
    assert!(begun.elapsed() >= Duration::from_millis(4));
}

#[doorbell::test(sim)]
async fn sets_calls_to_all_cores_and_the_policies() {
    let mut set = doorbell::JoinSet::new();
    for number in 0..10 {
        set.spawn(async move { number });
    }
    let mut sum = 0;
    while let Some(number) = set.join_next().await {
        sum += number.unwrap();
    }
    assert_eq!(sum, 45);
    let cores = doorbell::call_all(doorbell::CoreId::index).await.unwrap();
    assert!(cores.into_iter().map(Result::unwrap).eq(0..8));
    assert_eq!(doorbell::Handle::current().policies().len(), 8);
}

#[doorbell::test(sim)]
async fn a_task_that_panics_drops_what_others_wait_for() {
    let (to, mut from) = tokio::sync::mpsc::channel::<u8>(1);
    let task = spawn(async move {
        let _to = to;
        sleep(Duration::from_micros(100)).await;
        panic!("on purpose");
    });
    assert_eq!(from.recv().await, None);
    assert!(matches!(task.await, Err(doorbell::JoinError::Panicked(_))));
}

#[doorbell::test(sim, seeds = 0..2)]
async fn what_is_not_simulated_says_so() {
    let refused = |error: std::io::Error| {
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("inside a simulation"), "{error}");
    };
    refused(doorbell::net::TcpListener::bind("127.0.0.1:0").unwrap_err());
    refused(
        doorbell::net::TcpStream::connect("127.0.0.1:1")
            .await
            .unwrap_err(),
    );
    refused(
        doorbell::net::TcpStream::connect("localhost:1")
            .await
            .unwrap_err(),
    );
    refused(doorbell::net::UdpSocket::bind("127.0.0.1:0").unwrap_err());
    refused(doorbell::net::UnixStream::pair().unwrap_err());
    refused(doorbell::net::pipe::pipe().unwrap_err());
    refused(doorbell::signal::ctrl_c().await.unwrap_err());
    let built = doorbell::Builder::new().build();
    assert!(matches!(built, Err(doorbell::BuildError::InsideSimulation)));
}

#[doorbell::test(sim, cores = 1)]
async fn a_runtime_with_the_bridge_to_tokio_is_refused() {
    let built = doorbell_tokio::builder().build();
    assert!(matches!(built, Err(doorbell::BuildError::InsideSimulation)));
}

#[doorbell::test(sim, cores = 1)]
async fn the_holder_of_a_mutex_inherits_the_class_of_a_task_that_waits() {
    let mutex = Arc::new(doorbell::sync::Mutex::new(()));
    let (theirs, (locked, is_locked)) = (Arc::clone(&mutex), futures::channel::oneshot::channel());
    let holder = task().class(Class::BATCH).spawn(async move {
        let _guard = theirs.lock().await;
        locked.send(()).unwrap();
        for _ in 0..1_000 {
            sim::work(Duration::from_micros(2));
            yield_now().await;
        }
    });
    is_locked.await.unwrap();
    // The holder's own worker gets next to no CPU from here on.
    let computes = spawn(async { sim::work(Duration::from_millis(50)) });
    let urgent = task().class(Class::rt(50)).spawn(async move {
        sleep(Duration::from_micros(100)).await;
        let begun = Instant::now();
        drop(mutex.lock().await);
        begun.elapsed()
    });
    assert!(urgent.await.unwrap() < Duration::from_millis(20));
    holder.await.unwrap();
    computes.await.unwrap();
}

/// Its drop makes steps, and no other drop of one may run meanwhile.
struct DropsAlone;

impl Drop for DropsAlone {
    fn drop(&mut self) {
        thread_local! {
            static DROPS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
        }
        let meets = DROPS.replace(true);
        sim::check(!meets, "another thread ran inside a drop");
        for _ in 0..50 {
            let _ = Instant::now();
        }
        DROPS.set(false);
    }
}

doorbell::worker_local!(static KEPT: DropsAlone = DropsAlone);

#[doorbell::test(sim, cores = 8)]
async fn destructors_of_worker_locals_are_whole() {
    for core in 0..8 {
        call_on(core, || KEPT.with(|_| ())).await.unwrap();
    }
}
