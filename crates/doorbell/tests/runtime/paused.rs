//! A paused clock: it advances only when nothing is left to do on any core.

// The tests use threads and counters of their own.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use doorbell::net::{AsyncFd, Direction};
use doorbell::time::{self, Duration, Instant, MissedTicks, advance, interval, sleep, timeout};
use doorbell::{Builder, IdlePolicy, Runtime};
use std::future::poll_fn;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::task::Poll;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn paused(cores: usize) -> Runtime {
    Builder::new()
        .cores(cores)
        .start_paused(true)
        .build()
        .unwrap()
}

#[doorbell::test(start_paused = true, cores = 3)]
async fn hours_take_no_time_and_are_exact() {
    let wall = std::time::Instant::now();
    let start = Instant::now();
    let sleepers: Vec<_> = (1..=50u32)
        .map(|n| {
            doorbell::spawn(async move {
                sleep(n * HOUR).await;
                start.elapsed()
            })
        })
        .collect();
    for (n, sleeper) in (1..=50u32).zip(sleepers) {
        assert_eq!(sleeper.await.unwrap(), n * HOUR);
    }
    assert_eq!(start.elapsed(), 50 * HOUR);
    assert!(wall.elapsed() < Duration::from_secs(3_600));
}

#[test]
fn what_a_timer_wakes_runs_on_all_cores_before_the_next_one() {
    let rt = paused(3);
    rt.block_on(async {
        let start = Instant::now();
        let done = Arc::new(AtomicU64::new(0));
        for round in 1..=50u64 {
            sleep(SECOND).await;
            for _ in 0..20 {
                let done = Arc::clone(&done);
                doorbell::spawn(async move {
                    doorbell::yield_now().await;
                    // Another hop, to another core.
                    let core = doorbell::current_core().unwrap().index();
                    let next = (core + 1) % doorbell::Handle::current().cores();
                    doorbell::call_on(next, || ()).await.unwrap();
                    done.fetch_add(1, Relaxed);
                });
            }
            // One nanosecond later everything has run: the clock waited for it.
            time::sleep_until(start + SECOND * u32::try_from(round).unwrap()).await;
            sleep(Duration::from_nanos(1)).await;
            assert_eq!(done.load(Relaxed), 20 * round);
            time::sleep_until(start + SECOND * u32::try_from(round).unwrap()).await;
        }
    });
}

#[test]
fn timers_fire_in_order_whatever_core_they_are_on() {
    let rt = paused(4);
    let (fired, order) = mpsc::channel();
    rt.block_on(async {
        let start = Instant::now();
        let tasks: Vec<_> = (0..200u64)
            .map(|n| {
                let fired = fired.clone();
                let after = Duration::from_micros(n * 7_919 % 200 * 1_000 + 1);
                let core = (n % 4) as usize;
                doorbell::task().on(core).spawn(async move {
                    sleep(after).await;
                    assert_eq!(start.elapsed(), after);
                    fired.send(after).unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let order: Vec<_> = order.try_iter().collect();
    assert_eq!(order.len(), 200);
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_closure_that_blocks_holds_the_clock() {
    let rt = paused(2);
    rt.block_on(async {
        let start = Instant::now();
        let (go, gone) = mpsc::channel();
        let closure = doorbell::spawn_blocking(move || gone.recv().unwrap());
        let sleeper = doorbell::spawn(sleep(HOUR));
        // Wall time, which the runtime's clock does not see.
        let release = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            go.send(()).unwrap();
        });
        closure.await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        sleeper.await.unwrap();
        assert_eq!(start.elapsed(), HOUR);
        release.join().unwrap();
        // A closure that waits for the clock does not stop it.
        let handle = doorbell::Handle::current();
        let inner = doorbell::spawn_blocking(move || handle.try_block_on(sleep(HOUR)).unwrap());
        inner.await.unwrap();
        assert_eq!(start.elapsed(), 2 * HOUR);
    });
}

#[test]
fn it_stands_between_two_block_ons() {
    let rt = paused(2);
    let ticks = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ticks);
    let start = rt.block_on(async { Instant::now() });
    rt.spawn(async move {
        let mut every = interval(SECOND);
        loop {
            every.tick().await;
            count.fetch_add(1, Relaxed);
        }
    });
    rt.block_on(async { sleep(10 * SECOND).await });
    // Its task may not have run yet for the tick at this very moment.
    while ticks.load(Relaxed) < 11 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(20));
    rt.block_on(async move { assert_eq!(start.elapsed(), 10 * SECOND) });
    assert_eq!(ticks.load(Relaxed), 11);
}

#[test]
fn timeouts_and_cancelled_timers() {
    let rt = paused(2);
    rt.block_on(async {
        let start = Instant::now();
        let never = std::future::pending::<()>();
        assert!(timeout(HOUR, never).await.is_err());
        assert_eq!(start.elapsed(), HOUR);
        // A dropped timer does not fire.
        timeout(HOUR, sleep(SECOND)).await.unwrap();
        assert_eq!(start.elapsed(), HOUR + SECOND);
        sleep(2 * HOUR).await;
        assert_eq!(start.elapsed(), 3 * HOUR + SECOND);
    });
}

#[test]
fn advance_is_one_step_and_what_was_due_has_run() {
    let rt = paused(3);
    rt.block_on(async {
        let start = Instant::now();
        let seen: Vec<_> = (1..=30u32)
            .map(|n| {
                doorbell::spawn(async move {
                    sleep(n * SECOND).await;
                    start.elapsed()
                })
            })
            .collect();
        // Until all have armed their timers.
        advance(Duration::ZERO).await;
        advance(10 * SECOND).await;
        assert_eq!(start.elapsed(), 10 * SECOND);
        let due = seen.iter().filter(|task| task.is_finished()).count();
        assert_eq!(due, 10);
        advance(30 * SECOND).await;
        assert!(seen.iter().all(doorbell::JoinHandle::is_finished));
        assert_eq!(start.elapsed(), 40 * SECOND);
        for task in seen {
            let seen = task.await.unwrap();
            assert!(seen == 10 * SECOND || seen == 40 * SECOND, "{seen:?}");
        }
        // Without a due timer; and by zero.
        advance(SECOND).await;
        advance(Duration::ZERO).await;
        assert_eq!(start.elapsed(), 41 * SECOND);
        // To the end of time, which never comes.
        let never = doorbell::spawn(sleep(Duration::MAX));
        advance(Duration::MAX).await;
        assert_eq!(Instant::MAX - Instant::now(), Duration::from_nanos(1));
        assert!(!never.is_finished());
    });
}

/// More timers than one look at the wheel reads: the wheel then uses the start of their slot.
#[test]
fn many_timers_at_one_time() {
    for (cores, timers) in [(1, 32), (1, 33), (1, 100), (3, 1_000)] {
        let rt = paused(cores);
        rt.block_on(async {
            let start = Instant::now();
            let tasks: Vec<_> = (0..timers).map(|_| doorbell::spawn(sleep(HOUR))).collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(start.elapsed(), HOUR);
            // From a foreign thread, on a worker that has not fired a timer for hours.
            let sleeps = (0..timers).map(|_| sleep(HOUR));
            futures::future::join_all(sleeps).await;
            assert_eq!(start.elapsed(), 2 * HOUR);
        });
    }
}

#[test]
fn advances_add_up_and_one_that_is_not_awaited_keeps_no_other_from_ending() {
    let rt = paused(2);
    rt.block_on(async {
        let start = Instant::now();
        let tasks: Vec<_> = (0..20).map(|_| doorbell::spawn(advance(SECOND))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(start.elapsed(), 20 * SECOND);
        let mut kept = Box::pin(advance(SECOND));
        assert!(futures::poll!(&mut kept).is_pending());
        advance(SECOND).await;
        advance(SECOND).await;
        assert_eq!(start.elapsed(), 23 * SECOND);
        kept.await;
        assert_eq!(start.elapsed(), 23 * SECOND);
    });
}

#[test]
fn a_sleep_goes_by_the_clock_of_its_runtime_on_the_workers_of_another() {
    let (stopped, running) = (paused(1), Builder::new().cores(1).build().unwrap());
    let handle = running.handle().clone();
    stopped.block_on(async move {
        let start = Instant::now();
        // By the real clock: the paused one would have to advance.
        let began = std::time::Instant::now();
        let mut pause = None;
        let pause = std::future::poll_fn(move |cx| {
            let _entered = handle.enter();
            let pause = pause.get_or_insert_with(|| Box::pin(sleep(Duration::from_millis(5))));
            pause.as_mut().poll(cx)
        });
        doorbell::spawn(pause).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(5));
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn an_interval_that_was_suspended() {
    let rt = paused(1);
    rt.block_on(async {
        let mut every = interval(SECOND).missed_ticks(MissedTicks::Skip);
        let first = every.tick().await;
        advance(Duration::from_millis(3_500)).await;
        assert_eq!(every.tick().await, first + SECOND);
        assert_eq!(every.tick().await, first + 4 * SECOND);
        assert_eq!(Instant::now(), first + 4 * SECOND);
    });
}

#[test]
fn two_threads_inside_and_a_worker_that_spins() {
    let rt = Builder::new()
        .cores(2)
        .idle(IdlePolicy::NeverPark)
        .start_paused(true)
        .build()
        .unwrap();
    let start = rt.block_on(async { Instant::now() });
    let (to_other, from_one) = futures::channel::oneshot::channel();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            rt.block_on(async {
                let told: Instant = from_one.await.unwrap();
                sleep(HOUR).await;
                told.elapsed()
            })
        });
        rt.block_on(async {
            sleep(HOUR).await;
            to_other.send(Instant::now()).unwrap();
        });
        assert_eq!(other.join().unwrap(), HOUR);
    });
    rt.block_on(async move { assert_eq!(start.elapsed(), 2 * HOUR) });
}

#[test]
fn a_core_that_is_off_keeps_its_timers() {
    let rt = paused(2);
    rt.block_on(async {
        let start = Instant::now();
        let pinned = doorbell::task().on(1).spawn(sleep(HOUR));
        doorbell::task().on(1).spawn(async {}).await.unwrap();
        doorbell::Handle::current().core_offline(1).await.unwrap();
        pinned.await.unwrap();
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
#[should_panic(expected = "start_paused(true)")]
fn a_clock_that_runs_cannot_be_advanced() {
    let rt = Builder::new().cores(1).build().unwrap();
    rt.block_on(advance(SECOND));
}

#[doorbell::test(start_paused = true, cores = 1)]
async fn a_delayed_tick_comes_a_period_after_the_late_one_was_taken() {
    const MS: Duration = Duration::from_millis(1);
    let start = Instant::now();
    let mut ticks = interval(100 * MS).missed_ticks(MissedTicks::Delay);
    assert_eq!(ticks.tick().await, start);
    sleep(150 * MS).await;
    assert_eq!(ticks.tick().await, start + 100 * MS);
    assert_eq!(ticks.tick().await, start + 250 * MS);
    // A tick taken in time, or hardly late, is followed by the next due moment: ticks do not drift.
    sleep(105 * MS).await;
    assert_eq!(ticks.tick().await, start + 350 * MS);
    assert_eq!(ticks.tick().await, start + 450 * MS);
    assert_eq!(start.elapsed(), 450 * MS);

    // With a period shorter than that delay, a missed tick counts as late.
    let start = Instant::now();
    let mut ticks = interval(2 * MS).missed_ticks(MissedTicks::Delay);
    assert_eq!(ticks.tick().await, start);
    sleep(5 * MS).await;
    assert_eq!(ticks.tick().await, start + 2 * MS);
    assert_eq!(ticks.tick().await, start + 7 * MS);

    // A delay within the slack does not count as late.
    let start = Instant::now();
    let ticks = interval(100 * MS).missed_ticks(MissedTicks::Delay);
    let mut ticks = ticks.slack(60 * MS);
    ticks.tick().await;
    sleep(150 * MS).await;
    assert_eq!(ticks.tick().await, start + 100 * MS);
    assert_eq!(ticks.tick().await, start + 200 * MS);
}

/// The thread of the test arms its timers on the same worker.
#[doorbell::test(start_paused = true, cores = 1)]
async fn a_sleep_with_slack_is_ready_with_the_next_look_from_its_deadline_on() {
    let start = Instant::now();
    let deferred = doorbell::spawn(async {
        sleep(SECOND).slack(Duration::MAX).await;
        Instant::now()
    });
    sleep(SECOND / 2).await;
    assert!(!deferred.is_finished());
    sleep(SECOND).await;
    let ready = deferred.await.unwrap();
    assert_eq!(ready, start + SECOND + SECOND / 2);

    // Where nothing else wakes the worker, the slack ends the sleep.
    let start = Instant::now();
    sleep(SECOND).slack(SECOND).await;
    assert!((SECOND..2 * SECOND).contains(&start.elapsed()));
}

#[doorbell::test(start_paused = true, cores = 1)]
async fn a_sleep_that_waits_is_given_another_slack() {
    let start = Instant::now();
    let later = doorbell::spawn(sleep(3 * SECOND));
    let mut waits = sleep(SECOND).slack(Duration::MAX);
    assert!(futures::poll!(&mut waits).is_pending());
    waits.slack(Duration::ZERO).await;
    assert_eq!(start.elapsed(), SECOND);
    later.await.unwrap();
}

#[test]
fn an_advance_fires_a_sleep_within_its_slack_also_on_a_worker_that_has_nothing_else_to_do() {
    paused(2).block_on(async {
        for slack in [HOUR, Duration::MAX] {
            let waits = doorbell::task()
                .on(1)
                .spawn(async move { sleep(SECOND).slack(slack).await });
            // Armed before the clock moves.
            doorbell::task().on(1).spawn(async {}).await.unwrap();
            advance(SECOND / 2).await;
            assert!(!waits.is_finished());
            advance(SECOND / 2).await;
            assert!(waits.is_finished(), "{slack:?}");
        }
    });
}

/// A worker gets its first descriptor from another thread while it falls asleep, again and again.
#[test]
fn the_clock_stands_while_a_worker_that_falls_asleep_gets_a_descriptor() {
    let builder = Builder::new().cores(1).idle(IdlePolicy::Park);
    let rt = builder.start_paused(true).build().unwrap();
    let far = rt.task().on(0).spawn(sleep(HOUR));
    rt.block_on(async {
        let start = Instant::now();
        for round in 0..3_000 {
            let (own, _theirs) = UnixStream::pair().unwrap();
            own.set_nonblocking(true).unwrap();
            let own = AsyncFd::new(own);
            let has_run = Arc::new(AtomicBool::new(false));
            let runs = Arc::clone(&has_run);
            let task = async move { runs.store(true, Relaxed) };
            drop(doorbell::task().on(0).spawn(task));
            while !has_run.load(Relaxed) {
                std::hint::spin_loop();
            }
            (0..round % 64 * 32).for_each(|_| std::hint::spin_loop());
            poll_fn(|cx| Poll::Ready(own.poll_ready(cx, Direction::Read).is_pending())).await;
            assert_eq!(start.elapsed(), Duration::ZERO, "round {round}");
        }
    });
    drop(far);
}
