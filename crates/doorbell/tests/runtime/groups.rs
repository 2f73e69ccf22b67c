//! Groups on real workers: which task is in which group, and that nothing is lost.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of threads, on threads of its own"
)]

use doorbell::{Builder, Class, Group, Runtime, SpawnError, yield_now};
use futures::channel::oneshot;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::time::Instant;

/// How many groups a runtime serves at the same time.
const ROOM: usize = 63;

fn runtime(cores: usize) -> Runtime {
    Builder::new().cores(cores).build().unwrap()
}

#[test]
fn nothing_is_lost_between_groups_and_thieves() {
    let runtime = runtime(3);
    let groups: Vec<Group> = [1, 20, 300, 10_000].map(Group::new).into();
    let polls = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..3_000)
        .map(|number| {
            let polls = Arc::clone(&polls);
            let mut task = runtime.task();
            if let Some(group) = groups.get(number % 5) {
                task = task.group(group);
            }
            if number % 7 == 0 {
                task = task.on(number % 3);
            }
            task.spawn(async move {
                for _ in 0..number % 11 {
                    polls.fetch_add(1, SeqCst);
                    yield_now().await;
                }
                let child = doorbell::spawn(async move { number });
                child.await.unwrap()
            })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(runtime.block_on(task).unwrap(), number);
    }
    let expected: usize = (0..3_000).map(|number| number % 11).sum();
    assert_eq!(polls.load(SeqCst), expected);
}

#[test]
fn nothing_is_lost_while_cores_go_off_and_on() {
    let runtime = runtime(3);
    let groups = [5, 500].map(Group::new);
    let tasks: Vec<_> = (0..600)
        .map(|number| {
            let task = runtime.task().group(&groups[number % 2]);
            task.spawn(async move {
                for _ in 0..200 {
                    yield_now().await;
                }
                number
            })
        })
        .collect();
    for core in [1, 2, 1] {
        runtime.block_on(runtime.core_offline(core)).unwrap();
        runtime.block_on(runtime.core_online(core)).unwrap();
    }
    runtime.block_on(runtime.core_offline(2)).unwrap();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(runtime.block_on(task).unwrap(), number);
    }
}

#[test]
fn a_runtime_that_ends_ends_tasks_of_groups() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let runtime = runtime(2);
    let dropped = Arc::new(AtomicUsize::new(0));
    let group = Group::new(7);
    for number in 0..100 {
        let held = Dropped(Arc::clone(&dropped));
        let mut task = runtime.task().group(&group);
        if number % 2 == 0 {
            task = task.on(number % 4 / 2);
        }
        drop(task.spawn(async move {
            let _held = held;
            loop {
                yield_now().await;
            }
        }));
    }
    drop(runtime);
    assert_eq!(dropped.load(SeqCst), 100);
}

#[test]
fn a_group_on_another_class_is_refused() {
    let runtime = runtime(1);
    let group = Group::new(7);
    for class in [Class::BATCH, Class::rt(5)] {
        let refused = runtime
            .task()
            .class(class)
            .group(&group)
            .try_spawn(async {});
        assert_eq!(refused.unwrap_err(), SpawnError::GroupNeedsFair { class });
        // Children of a group's task may have any class.
        let parent = runtime.task().group(&group).spawn(async move {
            let child = doorbell::task().class(class);
            child.spawn(async { doorbell::current_class() }).await
        });
        assert_eq!(runtime.block_on(parent).unwrap().unwrap(), Some(class));
    }
}

/// Spawns a task in a new group and returns after it has spawned a child, which ends when told to.
fn child_of_a_group_alone(runtime: &Runtime, leaves: bool) -> oneshot::Sender<()> {
    let (end, ended) = oneshot::channel::<()>();
    let group = Group::new(10);
    let parent = runtime.task().group(&group).spawn(async move {
        let mut child = doorbell::task();
        if leaves {
            child = child.no_group();
        }
        drop(child.spawn(async move { ended.await.ok() }));
    });
    runtime.block_on(parent).unwrap();
    end
}

/// How many more groups the runtime can serve now.
fn room(runtime: &Runtime) -> usize {
    let mut groups = Vec::new();
    loop {
        let group = Group::new(1);
        match runtime.task().group(&group).try_spawn(async {}) {
            Ok(task) => runtime.block_on(task).unwrap(),
            Err(error) => {
                assert_eq!(error, SpawnError::TooManyGroups { max: ROOM });
                return groups.len();
            }
        }
        groups.push(group);
    }
}

/// A task leaves its group a moment after its join.
fn wait_for_room(runtime: &Runtime, expected: usize) {
    let start = Instant::now();
    while room(runtime) < expected {
        assert!(start.elapsed().as_secs() < 60, "too many groups are served");
        std::thread::yield_now();
    }
    assert_eq!(room(runtime), expected);
}

#[test]
fn d24_a_task_that_has_ended_leaves_its_group_although_a_waker_is_kept() {
    for cores in [1, 2] {
        let runtime = runtime(cores);
        let ended = |_| {
            let group = Group::new(1);
            let waits = poll_fn(|cx| Poll::Ready(cx.waker().clone()));
            runtime.block_on(runtime.task().group(&group).spawn(waits))
        };
        let kept: Vec<_> = (0..ROOM).map(ended).collect();
        wait_for_room(&runtime, ROOM);
        assert!(kept.into_iter().all(|waker| waker.is_ok()));
    }
}

#[test]
fn children_keep_the_group_of_their_parent_unless_told() {
    let runtime = runtime(2);
    let end = child_of_a_group_alone(&runtime, false);
    let another = child_of_a_group_alone(&runtime, true);
    // The second child is in no group, so its parent's group is gone.
    wait_for_room(&runtime, ROOM - 1);
    end.send(()).unwrap();
    wait_for_room(&runtime, ROOM);
    another.send(()).unwrap();
}

#[test]
fn a_task_of_a_low_weight_runs_beside_busy_ones() {
    let runtime = runtime(2);
    let (busy, rare) = (Group::new(10_000), Group::new(1));
    for _ in 0..6 {
        drop(runtime.task().group(&busy).spawn(async {
            loop {
                yield_now().await;
            }
        }));
    }
    let task = runtime.task().group(&rare).spawn(async {
        for _ in 0..20 {
            yield_now().await;
        }
    });
    runtime.block_on(task).unwrap();
    // A task in no group still runs as well.
    runtime.block_on(runtime.spawn(yield_now())).unwrap();
}
