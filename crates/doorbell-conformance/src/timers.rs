//! Sleeps.

use crate::{Ended, Runtime, Spawner, Task};
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

/// By the clock of the OS.
pub fn a_sleep_is_never_early<R: Runtime>() {
    let runtime = R::start();
    for micros in [0, 1, 100, 999, 1_000, 1_001, 5_500] {
        let time = Duration::from_micros(micros);
        let task = runtime.spawner().spawn(async move {
            let started = Instant::now();
            R::sleep(time).await;
            started.elapsed()
        });
        match runtime.block_on(task.join()) {
            Ended::Done(slept) => assert!(slept >= time, "{slept:?} for {time:?}"),
            ended => panic!("{ended:?}"),
        }
    }
}

/// Of two sleeps that a task polls, the short one ends.
pub fn a_short_sleep_ends_before_a_long_one<R: Runtime>() {
    let runtime = R::start();
    let task = runtime.spawner().spawn(async {
        let mut long = Box::pin(R::sleep(Duration::from_mins(10)));
        let mut short = Box::pin(R::sleep(Duration::from_millis(5)));
        poll_fn(|cx| {
            let has_ended =
                [long.as_mut().poll(cx), short.as_mut().poll(cx)].map(|it| it.is_ready());
            if has_ended == [false, false] {
                return Poll::Pending;
            }
            Poll::Ready(has_ended)
        })
        .await
    });
    assert_eq!(runtime.block_on(task.join()), Ended::Done([false, true]));
}

/// A loser of a race is forgotten.
pub fn a_sleep_that_is_dropped_wakes_nothing<R: Runtime>() {
    let runtime = R::start();
    let task = runtime.spawner().spawn(async {
        for _ in 0..100 {
            let mut sleep = Box::pin(R::sleep(Duration::from_mins(10)));
            let polled = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_ready()));
            assert!(!polled.await);
        }
        R::sleep(Duration::from_millis(1)).await;
    });
    assert_eq!(runtime.block_on(task.join()), Ended::Done(()));
}
