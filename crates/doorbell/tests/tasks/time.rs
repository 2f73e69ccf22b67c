//! Sleeps, timeouts and intervals on the real clock. Lower bounds are exact; upper bounds are so wide that
//! a loaded machine passes.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::async_yields_async,
    reason = "tests play the outside world, and hand sleeps from one to another"
)]

use crate::runtime;
use crate::shuffled::Builder;
use doorbell::time::{
    Instant, MissedTicks, interval, interval_at, sleep, sleep_until, timeout, timeout_at,
};
use doorbell::{Class, metrics::WorkerState};
use futures::poll;
use std::future::{pending, ready};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[test]
fn sleeps_are_never_early() {
    let rt = runtime(2);
    rt.block_on(async {
        let tasks: Vec<_> = (0..200u64)
            .map(|i| {
                doorbell::spawn(async move {
                    let length = Duration::from_micros(i * 53);
                    let (std_start, start) = (std::time::Instant::now(), Instant::now());
                    sleep(length).await;
                    assert!(start.elapsed() >= length);
                    assert!(std_start.elapsed() >= length, "early by std's clock");
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let counts: Vec<_> = rt
        .metrics()
        .workers
        .iter()
        .map(|worker| worker.counts.timers_fired)
        .collect();
    // One of them was ready at once. So was each whose deadline had passed before its first poll, because
    // the OS took the CPU away in between.
    let fired = counts.iter().sum::<u64>();
    assert!((100..=199).contains(&fired), "{counts:?}");
}

#[test]
fn a_sleep_of_an_outside_thread_wakes_it() {
    let rt = runtime(1);
    let start = Instant::now();
    rt.block_on(async {
        sleep(5 * MS).await;
        // Meanwhile polled by another task, and cancelled.
        assert!(
            timeout(MS, sleep(Duration::from_secs(3_600)))
                .await
                .is_err()
        );
    });
    assert!(start.elapsed() >= 6 * MS);
}

#[test]
fn the_ends_of_time_are_no_panic() {
    let rt = runtime(1);
    rt.block_on(rt.spawn(async {
        sleep(Duration::ZERO).await;
        sleep_until(Instant::now() - MS).await;
        assert!(timeout(MS, sleep(Duration::MAX)).await.is_err());
        assert!(timeout(MS, sleep_until(Instant::MAX)).await.is_err());
        assert!(
            timeout(MS, sleep(MS * 1_000).slack(Duration::MAX))
                .await
                .is_err()
        );
        assert_eq!(timeout(Duration::MAX, async { 1 }).await, Ok(1));
        assert_eq!(timeout_at(Instant::now() - MS, async { 2 }).await, Ok(2));
    }))
    .unwrap();
    assert!(Instant::MAX.into_std() > std::time::Instant::now());
    let now = std::time::Instant::now();
    let there_and_back = Instant::from_std(now).into_std();
    let off = there_and_back
        .max(now)
        .duration_since(there_and_back.min(now));
    assert!(off < Duration::from_secs(30), "{off:?}");
}

#[test]
fn a_dropped_sleep_is_gone_wherever_it_is_dropped() {
    let rt = runtime(2);
    rt.block_on(async {
        for (armed_on, dropped_on) in [(0, 0), (0, 1), (1, 0)] {
            let armed = doorbell::task().on(armed_on).spawn(async {
                let mut sleep = Box::pin(sleep(Duration::from_secs(3_600)));
                assert!(futures::poll!(sleep.as_mut()).is_pending());
                sleep
            });
            let sleep = armed.await.unwrap();
            doorbell::task()
                .on(dropped_on)
                .spawn(async move { drop(sleep) })
                .await
                .unwrap();
        }
        // Armed by this thread, and dropped on a worker.
        let mut sleep = Box::pin(sleep(Duration::from_secs(3_600)));
        assert!(futures::poll!(sleep.as_mut()).is_pending());
        doorbell::spawn(async move { drop(sleep) }).await.unwrap();
    });
}

#[test]
fn a_sleep_polled_on_another_core_wakes_there() {
    let rt = runtime(2);
    rt.block_on(async {
        let armed = doorbell::task().on(0).spawn(async {
            let mut sleep = Box::pin(sleep(10 * MS));
            assert!(futures::poll!(sleep.as_mut()).is_pending());
            sleep
        });
        let sleep = armed.await.unwrap();
        doorbell::task().on(1).spawn(sleep).await.unwrap();
    });
}

#[test]
fn reset_goes_earlier_and_later_and_after_the_end() {
    let rt = runtime(1);
    rt.block_on(rt.spawn(async {
        let start = Instant::now();
        let mut sleep = Box::pin(sleep(Duration::from_secs(3_600)));
        assert!(futures::poll!(sleep.as_mut()).is_pending());
        sleep.reset(start + 3 * MS);
        sleep.as_mut().await;
        assert!(start.elapsed() >= 3 * MS && sleep.is_elapsed());
        sleep.reset(start + 6 * MS);
        assert!(!sleep.is_elapsed());
        sleep.as_mut().await;
        assert!(start.elapsed() >= 6 * MS);
        sleep.reset(start + 7 * MS);
        sleep.reset(start + 9 * MS);
        sleep.await;
        assert!(start.elapsed() >= 9 * MS);
    }))
    .unwrap();
}

/// A task of that class waits for the sleep, which the test resets from its own thread meanwhile.
fn reset_from_elsewhere(class: Class, first: Duration, then: Duration) {
    let rt = runtime(2);
    let start = Instant::now();
    let shared = Arc::new(Mutex::new(Box::pin(sleep_until(start + first))));
    let waits = Arc::clone(&shared);
    let (polled, is_polled) = std::sync::mpsc::channel();
    let task = rt
        .task()
        .class(class)
        .spawn(std::future::poll_fn(move |cx| {
            let ready = waits.lock().unwrap().as_mut().poll(cx);
            // The test listens to the first one only.
            let _ = polled.send(());
            ready
        }));
    is_polled.recv().unwrap();
    shared.lock().unwrap().as_mut().reset(start + then);
    drop(is_polled);
    let ended = rt.block_on(timeout(Duration::from_secs(60), task));
    ended.expect("the task is woken").unwrap();
    assert!(start.elapsed() >= then, "{class}, {first:?}, {then:?}");
}

#[test]
fn t19_a_sleep_that_is_reset_on_another_thread_wakes_its_task() {
    for class in [Class::FAIR, Class::BATCH, Class::rt(9)] {
        reset_from_elsewhere(class, Duration::from_secs(3_600), 20 * MS);
        reset_from_elsewhere(class, Duration::from_secs(3_600), Duration::ZERO);
        reset_from_elsewhere(class, 60 * MS, 120 * MS);
    }
}

#[test]
fn t19_a_sleep_that_is_reset_into_the_past_is_ready_at_the_next_poll() {
    let resets = || async {
        let mut sleep = Box::pin(sleep(Duration::from_secs(3_600)));
        assert!(futures::poll!(sleep.as_mut()).is_pending());
        sleep.reset(Instant::now());
        assert!(futures::poll!(sleep.as_mut()).is_ready());
        sleep.reset(Instant::now() + Duration::from_secs(3_600));
        assert!(futures::poll!(sleep.as_mut()).is_pending());
    };
    let rt = runtime(1);
    rt.block_on(resets());
    rt.block_on(rt.spawn(resets())).unwrap();
    rt.block_on(rt.task().on(0).spawn(resets())).unwrap();
}

#[test]
fn intervals_burst_delay_or_skip() {
    let rt = runtime(1);
    rt.block_on(rt.spawn(async {
        for (missed, third_at) in [(MissedTicks::Burst, 2), (MissedTicks::Skip, 4)] {
            let start = Instant::now();
            let mut ticks = interval_at(start, 20 * MS).missed_ticks(missed);
            assert_eq!(ticks.tick().await, start);
            // Late for the second tick, and for those up to the fourth.
            std::thread::sleep(70 * MS);
            assert_eq!(ticks.tick().await, start + 20 * MS);
            let third = ticks.tick().await;
            assert!(third >= start + third_at * 20 * MS, "{missed:?}");
            if missed == MissedTicks::Burst {
                assert_eq!(third, start + 40 * MS);
            }
        }
        let mut ticks = interval(20 * MS).missed_ticks(MissedTicks::Delay);
        ticks.tick().await;
        std::thread::sleep(70 * MS);
        ticks.tick().await;
        let late = Instant::now();
        assert!(
            ticks.tick().await >= late,
            "a whole period after the late one"
        );
    }))
    .unwrap();
}

/// By hand, so that only the first poll can make it ready.
#[test]
fn a_moment_that_has_passed_is_ready_at_the_first_poll() {
    async fn first_polls() {
        let past = Instant::now() - MS;
        assert!(poll!(sleep_until(past)).is_ready());
        assert!(poll!(sleep_until(past).slack(3_600_000 * MS)).is_ready());
        let mut again = sleep_until(past + 3_600_000 * MS);
        assert!(poll!(&mut again).is_pending());
        let mut ticks = interval_at(past, 20 * MS);
        assert_eq!(poll!(pin!(ticks.tick())), Poll::Ready(past));

        let elapsed = poll!(pin!(timeout_at(past, pending::<()>())));
        assert!(matches!(elapsed, Poll::Ready(Err(_))), "{elapsed:?}");
        // The future is polled first.
        let output = poll!(pin!(timeout_at(past, ready(7))));
        assert_eq!(output, Poll::Ready(Ok(7)));
    }
    let rt = runtime(1);
    rt.block_on(first_polls());
    rt.block_on(rt.spawn(first_polls())).unwrap();
    rt.block_on(rt.task().class(Class::rt(1)).spawn(first_polls()))
        .unwrap();
}

/// A task that never has to wait gives way by its budget. A timeout still ends although its future has used
/// up the budget.
#[test]
fn moments_that_have_passed_do_not_starve_the_others() {
    let rt = runtime(1);
    let past = Instant::now() - MS;
    let endless = rt.spawn(async move {
        loop {
            sleep_until(past).await;
        }
    });
    rt.block_on(rt.spawn(async {})).unwrap();
    endless.abort();

    let eats_all = async {
        loop {
            doorbell::coop::consume_budget().await;
        }
    };
    let timed = rt.spawn(timeout_at(past, eats_all));
    assert!(rt.block_on(timed).unwrap().is_err());
}

#[test]
#[should_panic(expected = "longer than zero")]
fn an_interval_of_nothing_is_refused() {
    drop(interval(Duration::ZERO));
}

#[test]
fn slack_makes_timers_share_their_wake_ups() {
    let rt = Builder::new()
        .cores(1)
        .spin(Duration::ZERO)
        .build()
        .unwrap();
    let fires = |slack: Duration| {
        let before = rt.metrics().workers[0].raw();
        rt.block_on(async {
            // So far away that a loaded machine has polled all of them before.
            let start = Instant::now() + 200 * MS;
            let tasks: Vec<_> = (0..40u32)
                .map(|i| doorbell::spawn(sleep_until(start + i * (MS / 2)).slack(slack)))
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        rt.metrics().workers[0].raw().since(&before)
    };
    let shared = fires(20 * MS);
    assert_eq!(shared.timers_fired, 40);
    // Deadlines within 20 ms, rounded up to multiples of 20 ms, are at most three moments. Twice as many, because a
    // loaded machine may wake the thread without need.
    assert!((1..=6).contains(&shared.unparks_deadline), "{shared:?}");
}

#[test]
fn t2_an_earlier_timer_from_outside_rings_a_parked_worker_once() {
    let rt = Builder::new()
        .cores(1)
        .spin(Duration::ZERO)
        .build()
        .unwrap();
    let later = rt.spawn(sleep(Duration::from_secs(3_600)));
    let is_armed = || rt.metrics().workers[0].counts.polls > 0;
    let await_parked = || {
        while rt.worker_state(0) != Some(WorkerState::Parked) {
            std::thread::yield_now();
        }
    };
    while !is_armed() {
        std::thread::yield_now();
    }
    await_parked();
    let before = rt.metrics().workers[0].raw();
    rt.block_on(sleep(2 * MS));
    // It counts a timer after the wake.
    await_parked();
    let counts = rt.metrics().workers[0].raw().since(&before);
    assert_eq!((counts.rings, counts.timers_fired), (1, 1), "{counts:?}");
    assert!(!later.is_finished());
}

#[test]
fn a_runtime_that_ends_tells_those_who_wait_for_its_timers() {
    let rt = runtime(1);
    let handle = rt.handle().clone();
    let waiting =
        std::thread::spawn(move || handle.try_block_on(sleep(Duration::from_secs(3_600))));
    while rt.metrics().workers[0].counts.delivered == 0 {
        std::thread::yield_now();
    }
    drop(rt);
    assert!(waiting.join().is_err(), "it must panic, not hang");
}

/// The same for a task polled on a worker that still exists while its runtime ends.
#[test]
fn a_sleep_whose_worker_has_ended_goes_on_where_it_is_polled() {
    let ends = runtime(1);
    let start = Instant::now();
    let mut nap = Box::pin(sleep(20 * MS));
    assert!(ends.block_on(async { poll!(nap.as_mut()) }).is_pending());
    drop(ends);
    runtime(1).block_on(nap);
    assert!(start.elapsed() >= 20 * MS);
}
