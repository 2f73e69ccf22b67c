//! Spawn, join, abort, panics, and what is dropped when.

use crate::support::{Flag, SetsOnDrop};
use crate::{DroppedHandle, Ended, Runtime, Spawner, Task};
use std::future::pending;
use std::rc::Rc;

/// The handle of a task is a future of its output.
pub fn a_task_gives_its_output<R: Runtime>() {
    let runtime = R::start();
    let task = runtime.spawner().spawn(async { 7 });
    assert_eq!(runtime.block_on(task.join()), Ended::Done(7));
}

/// A tree of tasks.
pub fn tasks_spawn_and_await_tasks<R: Runtime>() {
    let runtime = R::start();
    let spawner = runtime.spawner();
    let root = spawner.clone().spawn(async move {
        let leaves: Vec<_> = (0..100_u32)
            .map(|it| spawner.spawn(async move { it }))
            .collect();
        let mut sum = 0;
        for leaf in leaves {
            match leaf.join().await {
                Ended::Done(number) => sum += number,
                ended => panic!("{ended:?}"),
            }
        }
        sum
    });
    assert_eq!(runtime.block_on(root.join()), Ended::Done(4_950));
}

/// The future of `block_on` stays on its thread.
pub fn block_on_takes_what_is_not_send<R: Runtime>() {
    let runtime = R::start();
    let local = Rc::new(7);
    let task = runtime.spawner().spawn(async { 1 });
    let sum = runtime.block_on(async {
        let mine = Rc::clone(&local);
        match task.join().await {
            Ended::Done(one) => *mine + one,
            ended => panic!("{ended:?}"),
        }
    });
    assert_eq!(sum, 8);
}

/// It goes on or is cancelled, as [`Runtime::DROPPED_HANDLE`] says.
pub fn a_task_whose_handle_is_dropped<R: Runtime>() {
    let runtime = R::start();
    let (ended, dropped) = (Flag::default(), Flag::default());
    let (ends, drops) = (ended.clone(), SetsOnDrop(dropped.clone()));
    let (go, gone) = (Flag::default(), Flag::default());
    let (waits, begun) = (go.clone(), gone.clone());
    let task = runtime.spawner().spawn(async move {
        let _drops = drops;
        begun.set();
        while !waits.is_set() {
            R::sleep(std::time::Duration::from_millis(1)).await;
        }
        ends.set();
    });
    gone.wait();
    drop(task);
    if R::DROPPED_HANDLE == DroppedHandle::Cancels {
        dropped.wait();
    }
    go.set();
    dropped.wait();
    assert_eq!(ended.is_set(), R::DROPPED_HANDLE == DroppedHandle::Detaches);
}

/// Who awaits an aborted task finds all that it had dropped.
pub fn an_aborted_task_is_dropped_before_its_end_is_seen<R: Runtime>() {
    let runtime = R::start();
    let (dropped, begun) = (Flag::default(), Flag::default());
    let (drops, begins) = (SetsOnDrop(dropped.clone()), begun.clone());
    let mut task = runtime.spawner().spawn(async move {
        let _drops = drops;
        begins.set();
        pending::<()>().await;
    });
    begun.wait();
    task.abort();
    assert_eq!(runtime.block_on(task.join()), Ended::Cancelled);
    assert!(dropped.is_set());
}

/// An abort that comes too late changes nothing.
pub fn the_abort_of_a_task_that_has_ended_leaves_its_output<R: Runtime>() {
    let runtime = R::start();
    let (ended, other) = (Flag::default(), Flag::default());
    let (ends, begins) = (SetsOnDrop(ended.clone()), other.clone());
    let spawner = runtime.spawner();
    let mut task = spawner.spawn(async move {
        drop(ends);
        7
    });
    ended.wait();
    // The rest of its end has time.
    let later = spawner.spawn(async move {
        R::sleep(std::time::Duration::from_millis(20)).await;
        begins.set();
    });
    runtime.block_on(later.join());
    assert!(other.is_set());
    task.abort();
    assert_eq!(runtime.block_on(task.join()), Ended::Done(7));
}

/// Who awaits a task finds its future dropped.
pub fn a_future_is_dropped_before_its_output_is_seen<R: Runtime>() {
    let runtime = R::start();
    for _ in 0..100 {
        let dropped = Flag::default();
        let drops = SetsOnDrop(dropped.clone());
        let task = runtime.spawner().spawn(async move {
            let _drops = &drops;
            7
        });
        let seen = runtime.block_on(async { (task.join().await, dropped.is_set()) });
        assert_eq!(seen, (Ended::Done(7), true));
    }
}

/// Other tasks go on.
pub fn a_panic_is_seen_by_who_waits_and_ends_nothing_else<R: Runtime>() {
    let runtime = R::start();
    let spawner = runtime.spawner();
    for _ in 0..8 {
        let failing = spawner.spawn(async { panic!("on purpose") });
        let ended: Ended<()> = runtime.block_on(failing.join());
        assert_eq!(ended, Ended::Panicked);
    }
    let tasks: Vec<_> = (0..8).map(|it| spawner.spawn(async move { it })).collect();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(runtime.block_on(task.join()), Ended::Done(number));
    }
}

/// Nothing of them is left when the drop of the runtime has returned.
pub fn tasks_that_wait_are_dropped_when_the_runtime_ends<R: Runtime>() {
    let runtime = R::start();
    let spawner = runtime.spawner();
    let (dropped, begun) = (Flag::default(), Flag::default());
    let (drops, begins) = (SetsOnDrop(dropped.clone()), begun.clone());
    let task = spawner.spawn(async move {
        let _drops = drops;
        begins.set();
        pending::<()>().await;
    });
    begun.wait();
    drop(spawner);
    drop(runtime);
    assert!(dropped.is_set());
    drop(task);
}
