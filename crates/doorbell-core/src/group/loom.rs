//! Models of groups while tasks move between workers: the groups' numbers, queues and counts of tasks.

// What a model counts with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::queue::Greed;
use crate::scheduler::{RemoteRef, Scheduler};
use crate::task::{About, Join, Kind};
use crate::testing::launch_about;
use crate::testing::model::{check, check_large, check_largest};
use crate::worker::Local;
use ::loom::thread;
use doorbell_machine::Loom;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

type M = Loom;

/// A future that is ready at the first poll if `woken`, else at the second, and counts itself then.
struct Twice {
    woken: bool,
    ended: Arc<AtomicUsize>,
}

impl Future for Twice {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut self.woken, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(())
    }
}

fn spawn_in(remote: &RemoteRef<M>, woken: bool, ended: &Arc<AtomicUsize>) -> Join<()> {
    let group = 1;
    remote.scheduler().groups().reserve(group);
    let about = About {
        group: Some(group),
        ..About::default()
    };
    let ended = Arc::clone(ended);
    launch_about(remote, Kind::Task, about, Twice { woken, ended })
}

fn outcome(join: &mut Join<()>) -> Poll<bool> {
    let mut cx = Context::from_waker(Waker::noop());
    Pin::new(join).poll(&mut cx).map(|output| output.is_ok())
}

/// Worker 0 has two tasks of a group and runs those that it keeps. Worker 1 steals once.
fn two_tasks_and_a_thief() {
    let remotes = Scheduler::<M>::new(2, &Arc::default(), |_, _| 0);
    // SAFETY: no other thread opens a group, and there are no tasks.
    unsafe { remotes[0].scheduler().groups().open(2, 1, 100) };
    let ended = Arc::default();
    let local = Local::new(remotes[0].clone());
    let mut joins = local.enter(|| [(); 2].map(|()| spawn_in(&remotes[0], true, &ended)));
    let [here, there] = [0, 1].map(|worker| remotes[worker].clone());
    let thief = thread::spawn(move || {
        let local = Local::new(there);
        local.enter(|| {
            let _ = local.steal(&here, Greed::Half, false);
            while local.run_one() {}
        });
    });
    local.enter(|| while local.run_one() {});
    thief.join().unwrap();
    local.enter(|| local.close());
    assert_eq!(ended.load(Ordering::Relaxed), 2);
    for join in &mut joins {
        assert_eq!(outcome(join), Poll::Ready(true));
    }
    drop(joins);
    drop(local);
    assert!(remotes[0].scheduler().groups().is_unused(1));
    assert_eq!(remotes[0].shares(), 2, "a task was not freed");
}

/// A group is opened and gets its first task while another worker looks for work.
fn opened_beside_a_thief() {
    let remotes = Scheduler::<M>::new(2, &Arc::default(), |_, _| 0);
    let [here, there] = [0, 1].map(|worker| remotes[worker].clone());
    let thief = thread::spawn(move || {
        let local = Local::new(there);
        local.enter(|| {
            if here.has_queued() {
                let _ = local.steal(&here, Greed::One, false);
            }
            while local.run_one() {}
            local.close();
        });
    });
    let ended = Arc::default();
    let local = Local::new(remotes[0].clone());
    let mut join = local.enter(|| {
        // SAFETY: no other thread opens a group, and there are no tasks.
        unsafe { remotes[0].scheduler().groups().open(2, 1, 100) };
        let join = spawn_in(&remotes[0], false, &ended);
        while local.run_one() {}
        join
    });
    thief.join().unwrap();
    local.enter(|| local.close());
    assert_eq!(outcome(&mut join), Poll::Ready(true));
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    drop((join, local));
    assert!(remotes[0].scheduler().groups().is_unused(1));
}

/// A worker polls a group's last task, which ends, while another thread gives the group's number to a new group. The new
/// group must not be charged for that poll.
fn a_number_is_given_on() {
    let remotes = Scheduler::<M>::new(2, &Arc::default(), |_, _| 0);
    let groups = remotes[0].scheduler().groups();
    // SAFETY: no other thread opens a group, and there are no tasks.
    unsafe { groups.open(2, 1, 100) };
    let theirs = remotes[1].clone();
    let ended = Arc::default();
    drop(spawn_in(&theirs, true, &ended));
    let last = thread::spawn(move || {
        let local = Local::new(theirs);
        local.enter(|| {
            let _ = local.gather();
            local.look_at_groups();
            assert!(local.times_polls() && local.run_one());
            local.close();
        });
    });
    let was_unused = groups.is_unused(1);
    if was_unused {
        // SAFETY: as above; the group's last task has left it.
        unsafe { groups.open(2, 1, 100) };
    }
    last.join().unwrap();
    let table = groups.table().unwrap();
    let charged = table.slot(1).unwrap().account().time != table.present();
    assert_eq!(charged, !was_unused, "charged for what others took");
}

/// A worker looks for work while another thread opens a group.
fn found_while_it_is_opened() {
    let remotes = Scheduler::<M>::new(2, &Arc::default(), |_, _| 0);
    let theirs = remotes[1].clone();
    let looks = thread::spawn(move || {
        let groups = theirs.scheduler().groups();
        assert!(!groups.has_queued(0) && groups.is_unused(1));
    });
    // SAFETY: no other thread opens a group, and there are no tasks.
    unsafe { remotes[0].scheduler().groups().open(2, 1, 100) };
    looks.join().unwrap();
}

#[test]
fn a_group_that_is_found_is_written() {
    check(found_while_it_is_opened);
}

#[test]
fn a_number_that_is_given_on_has_no_past() {
    check(a_number_is_given_on);
}

#[test]
fn tasks_of_a_group_run_once_beside_a_thief() {
    check_large(two_tasks_and_a_thief);
}

#[test]
fn a_group_is_opened_beside_a_thief() {
    check_largest(opened_beside_a_thief);
}
