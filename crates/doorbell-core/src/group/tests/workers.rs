//! Workers driven by hand on one thread: a task of a group is never lost, whichever way it takes.

// What a test counts with std's atomics is not part of what is tested.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::queue::Greed;
use crate::scheduler::{RemoteRef, Scheduler};
use crate::task::{About, Join, Kind};
use crate::testing::launch_about;
use crate::worker::Local;
use doorbell_machine::Host;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

struct Turns {
    left: usize,
    polls: Arc<AtomicUsize>,
}

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        if self.left == 0 {
            return Poll::Ready(());
        }
        self.left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

struct Bench {
    remotes: Vec<RemoteRef<Host>>,
    polls: Arc<AtomicUsize>,
}

impl Bench {
    /// Two workers, and groups 1 and 2.
    fn new() -> Self {
        let remotes = Scheduler::<Host>::new(2, &Arc::default(), |_, _| 0);
        for group in [1, 2] {
            // SAFETY: opened one after the other, and there are no tasks.
            unsafe { remotes[0].scheduler().groups().open(2, group, 100) };
        }
        Bench {
            remotes,
            polls: Arc::default(),
        }
    }

    fn local(&self, worker: usize) -> Local<Host> {
        Local::new(self.remotes[worker].clone())
    }

    fn spawn(&self, worker: usize, kind: Kind, group: Option<u8>, left: usize) -> Join<()> {
        if let Some(group) = group {
            self.remotes[0].scheduler().groups().reserve(group);
        }
        let polls = Arc::clone(&self.polls);
        let about = About {
            group,
            ..About::default()
        };
        launch_about(&self.remotes[worker], kind, about, Turns { left, polls })
    }

    fn polls(&self) -> usize {
        self.polls.load(Ordering::Relaxed)
    }

    fn assert_unused(&self) {
        let groups = self.remotes[0].scheduler().groups();
        assert!([1, 2].iter().all(|group| groups.is_unused(*group)));
    }
}

fn outcome(mut join: Join<()>) -> Poll<bool> {
    let mut cx = Context::from_waker(Waker::noop());
    Pin::new(&mut join)
        .poll(&mut cx)
        .map(|output| output.is_ok())
}

#[test]
fn miri_tasks_of_all_kinds_and_groups_run_to_their_ends() {
    let bench = Bench::new();
    let local = bench.local(0);
    let joins: Vec<_> = local.enter(|| {
        let kinds = [Kind::Task, Kind::Pinned].into_iter().cycle();
        let groups = [Some(1), None, Some(2)].into_iter().cycle();
        let each = kinds.zip(groups).take(12);
        each.map(|(kind, group)| bench.spawn(0, kind, group, 3))
            .collect()
    });
    assert!(!local.is_empty() && local.has_surplus());
    assert_eq!(local.queued(), 12);
    local.enter(|| while local.run_one() {});
    assert!(local.is_empty() && local.queued() == 0);
    assert_eq!(bench.polls(), 12 * 4);
    for join in joins {
        assert_eq!(outcome(join), Poll::Ready(true));
    }
    local.enter(|| local.close());
    bench.assert_unused();
}

#[test]
fn miri_a_thief_takes_of_each_group_and_leaves_some() {
    let bench = Bench::new();
    let (local, thief) = (bench.local(0), bench.local(1));
    local.enter(|| {
        for _ in 0..4 {
            drop(bench.spawn(0, Kind::Task, Some(1), 0));
            drop(bench.spawn(0, Kind::Task, Some(2), 0));
            drop(bench.spawn(0, Kind::Task, None, 0));
        }
    });
    let stolen = thief.enter(|| thief.steal(&bench.remotes[0], Greed::Half, true));
    assert_eq!(stolen, Some(6));
    assert_eq!((thief.queued(), local.queued()), (6, 6));
    thief.enter(|| while thief.run_one() {});
    local.enter(|| while local.run_one() {});
    assert_eq!(bench.polls(), 12);
    for worker in [&local, &thief] {
        worker.enter(|| worker.close());
    }
    bench.assert_unused();
}

#[test]
fn miri_one_of_two_groups_is_work_for_another_worker() {
    let bench = Bench::new();
    let (local, thief) = (bench.local(0), bench.local(1));
    local.enter(|| drop(bench.spawn(0, Kind::Task, Some(1), 0)));
    // One task is left to its own worker, which is about to run it.
    let steal = |greed| thief.enter(|| thief.steal(&bench.remotes[0], greed, true));
    assert_eq!(steal(Greed::Half), None);
    assert!(!local.has_surplus());
    local.enter(|| drop(bench.spawn(0, Kind::Task, Some(2), 0)));
    assert!(local.has_surplus());
    assert_eq!(steal(Greed::Half), Some(1));
    assert_eq!(steal(Greed::Single), None, "one is in the hand already");
    thief.enter(|| while thief.run_one() {});
    assert_eq!(steal(Greed::One), Some(1));
    thief.enter(|| while thief.run_one() {});
    assert_eq!(bench.polls(), 2);
    for worker in [&local, &thief] {
        worker.enter(|| worker.close());
    }
    bench.assert_unused();
}

#[test]
fn miri_a_worker_that_goes_off_hands_on_and_keeps_what_is_pinned() {
    let bench = Bench::new();
    let (local, other) = (bench.local(0), bench.local(1));
    local.enter(|| {
        for group in [Some(1), None, Some(2)] {
            drop(bench.spawn(0, Kind::Task, group, 1));
        }
        drop(bench.spawn(0, Kind::Pinned, Some(1), 1));
        let _ = bench.remotes[0].scheduler().take_off(0);
        local.follow();
    });
    assert_eq!(local.queued(), 1);
    assert_eq!(other.enter(|| other.gather()), 3);
    assert_eq!(other.queued(), 3);
    other.enter(|| while other.run_one() {});
    local.enter(|| while local.run_one() {});
    assert_eq!(bench.polls(), 4 * 2);
    for worker in [&local, &other] {
        worker.enter(|| worker.close());
    }
    bench.assert_unused();
}

#[test]
fn miri_a_worker_that_closes_ends_the_tasks_of_groups() {
    let bench = Bench::new();
    let local = bench.local(0);
    let joins = local.enter(|| {
        let task = bench.spawn(0, Kind::Task, Some(1), 9);
        let pinned = bench.spawn(0, Kind::Pinned, Some(2), 9);
        assert!(local.run_one());
        [task, pinned, bench.spawn(0, Kind::Task, Some(2), 9)]
    });
    local.enter(|| local.close());
    for join in joins {
        assert_eq!(outcome(join), Poll::Ready(false));
    }
    assert!(local.is_empty());
    bench.assert_unused();
}

#[test]
fn miri_children_are_in_the_group_of_the_task_that_spawns_them() {
    struct Parent {
        bench: Arc<Bench>,
    }

    impl Future for Parent {
        type Output = Join<()>;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Join<()>> {
            Poll::Ready(self.bench.spawn(0, Kind::Task, None, 0))
        }
    }

    let bench = Arc::new(Bench::new());
    let local = bench.local(0);
    let (remote, groups) = (&bench.remotes[0], bench.remotes[0].scheduler().groups());
    local.enter(|| {
        groups.reserve(2);
        let about = About {
            group: Some(2),
            ..About::default()
        };
        let bench = Arc::clone(&bench);
        let parent = launch_about(remote, Kind::Task, about, Parent { bench });
        assert!(local.run_one());
        drop(parent);
    });
    assert!(remote.queue().is_empty() && remote.has_queued());
    assert!(!groups.is_unused(2) && groups.is_unused(1));
    local.enter(|| assert!(local.run_one()));
    assert!(groups.is_unused(2));
    // A task that is spawned between two polls is in no group.
    local.enter(|| drop(bench.spawn(0, Kind::Task, None, 0)));
    assert!(!remote.queue().is_empty());
    local.enter(|| local.close());
}
