//! Wakers: from other threads, during polls, several of them, and late ones.

use crate::support::Flag;
use crate::{Ended, Runtime, Spawner, Task};
use std::future::poll_fn;
use std::sync::mpsc;
use std::task::{Poll, Waker};

/// A thread that no runtime knows wakes a task.
pub fn a_wake_from_another_thread_is_heard<R: Runtime>() {
    let runtime = R::start();
    let (says, hears) = mpsc::channel::<(Waker, Flag)>();
    let thread = std::thread::spawn(move || {
        for (waker, flag) in hears {
            flag.set();
            waker.wake();
        }
    });
    let task = runtime.spawner().spawn(async move {
        for _ in 0..1_000 {
            let flag = Flag::default();
            let mut is_told = false;
            poll_fn(|cx| {
                if flag.is_set() {
                    return Poll::Ready(());
                }
                if !std::mem::replace(&mut is_told, true) {
                    says.send((cx.waker().clone(), flag.clone()))
                        .expect("it listens");
                }
                Poll::Pending
            })
            .await;
        }
    });
    assert_eq!(runtime.block_on(task.join()), Ended::Done(()));
    thread.join().expect("it ends");
}

/// It is polled once more.
pub fn a_wake_during_a_poll_is_heard<R: Runtime>() {
    let runtime = R::start();
    let task = runtime.spawner().spawn(async {
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            if polls == 100 {
                return Poll::Ready(polls);
            }
            cx.waker().wake_by_ref();
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    });
    assert_eq!(runtime.block_on(task.join()), Ended::Done(100));
}

/// A task that is polled again gives another waker, of the same task; clones of each wake it.
pub fn the_last_waker_of_several_counts<R: Runtime>() {
    let runtime = R::start();
    let (says, hears) = mpsc::channel::<Waker>();
    let go = Flag::default();
    let waits = go.clone();
    let task = runtime.spawner().spawn(poll_fn(move |cx| {
        if waits.is_set() {
            return Poll::Ready(());
        }
        says.send(cx.waker().clone()).expect("it listens");
        Poll::Pending
    }));
    let first = hears.recv().expect("it is polled");
    first.wake_by_ref();
    let second = hears.recv().expect("it is polled again");
    assert!(first.will_wake(&second) && first.clone().will_wake(&first));
    go.set();
    second.wake();
    assert_eq!(runtime.block_on(task.join()), Ended::Done(()));
    first.wake();
}

/// It wakes nothing then.
pub fn a_waker_may_outlive_its_task_and_its_runtime<R: Runtime>() {
    let runtime = R::start();
    let spawner = runtime.spawner();
    let waker = || {
        let task = spawner.spawn(poll_fn(|cx| Poll::Ready(cx.waker().clone())));
        match runtime.block_on(task.join()) {
            Ended::Done(waker) => waker,
            ended => panic!("{ended:?}"),
        }
    };
    let (first, second) = (waker(), waker());
    first.wake_by_ref();
    drop(spawner);
    drop(runtime);
    first.wake_by_ref();
    drop(first);
    second.wake();
}
