//! The count of a scheduler's shares in every interleaving: the last holder frees the scheduler, and sees what
//! all others did with it.

// What a model counts with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{RemoteRef, Scheduler, SchedulerSpec};
use crate::scheduler::Member;
use crate::scheduler::telemetry::{Hooks, TaskEvent, TaskHook, Telemetry, TelemetryPlan};
use crate::testing::model::check;
use crate::worker::Local;
use ::loom::cell::UnsafeCell;
use ::loom::thread;
use doorbell_machine::Loom;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Part of a scheduler, and freed with it: a hook has the only one. The checker sees who reads it and who
/// frees it.
struct Part {
    content: UnsafeCell<u64>,
    freed: Arc<AtomicUsize>,
}

// SAFETY: it is written by who frees the scheduler alone; the checker spins that.
unsafe impl Sync for Part {}

impl Drop for Part {
    fn drop(&mut self) {
        self.content.with_mut(|content| {
            // SAFETY: nobody refers to it any more.
            unsafe { *content = 0 };
        });
        self.freed.fetch_add(1, Relaxed);
    }
}

/// A scheduler of two, and how often it was freed.
fn scheduler() -> ([RemoteRef<Loom>; 2], Arc<AtomicUsize>) {
    let freed = Arc::default();
    let part = Part {
        content: UnsafeCell::new(7),
        freed: Arc::clone(&freed),
    };
    let hook: TaskHook = Arc::new(move |_: &TaskEvent<'_>| {
        // The whole of it is the hook's, not a field alone.
        let part = &part;
        // SAFETY: the scheduler is there, and nobody writes before it is freed.
        part.content
            .with(|content| assert_eq!(unsafe { *content }, 7));
    });
    let hooks = Hooks {
        task_spawn: vec![hook],
        ..Hooks::default()
    };
    let plan = TelemetryPlan {
        hooks,
        ..TelemetryPlan::default()
    };
    let spec = SchedulerSpec {
        telemetry: Some(Arc::new(Telemetry::new(plan, 2, None))),
        ..SchedulerSpec::default()
    };
    let remotes = Scheduler::described(2, &Arc::default(), spec, |_, _| 0);
    let remotes = remotes
        .try_into()
        .expect("a scheduler of two has two remotes");
    (remotes, freed)
}

/// A holder reads what is part of the scheduler.
fn read(remote: &Member<Loom>) {
    let telemetry = remote
        .scheduler()
        .telemetry()
        .expect("it was made with some");
    telemetry.task_spawned(&TaskEvent {
        id: 1,
        name: None,
        worker: None,
        spawned_at: std::panic::Location::caller(),
    });
    assert_eq!(telemetry.hook_panics(), 0, "it was read after it was freed");
}

fn assert_freed_once(freed: &AtomicUsize) {
    assert_eq!(freed.load(Relaxed), 1, "freed so often");
}

/// Three holders, none of them on a worker.
fn three_holders() {
    let ([one, two], freed) = scheduler();
    let three = one.clone();
    let holders = [two, three].map(|remote| {
        thread::spawn(move || {
            read(&remote);
            drop(remote);
        })
    });
    read(&one);
    drop(one);
    crate::testing::model::join_all(holders);
    assert_freed_once(&freed);
}

/// A worker ends that gave a share out of its stock, while the holder of that share lets it go.
fn a_stock_ends() {
    let ([one, two], freed) = scheduler();
    drop(two);
    let local = Local::new(one);
    let given = local.enter(|| local.remote().clone());
    let holder = thread::spawn(move || {
        read(&given);
        drop(given);
    });
    read(local.remote());
    drop(local);
    holder.join().unwrap();
    assert_freed_once(&freed);
}

/// Two workers end, one with a share in its stock that the other has drawn.
fn two_stocks_end() {
    let ([one, two], freed) = scheduler();
    let local = Local::new(one);
    let given = local.enter(|| local.remote().clone());
    let other = thread::spawn(move || {
        let local = Local::new(two);
        local.enter(|| {
            read(&given);
            drop(given);
        });
        assert_eq!(local.stock().len(), 1);
        drop(local);
    });
    read(local.remote());
    drop(local);
    other.join().unwrap();
    assert_freed_once(&freed);
}

#[test]
fn the_last_holder_frees_the_scheduler() {
    check(three_holders);
}

#[test]
fn a_share_of_a_stock_outlives_its_worker() {
    check(a_stock_ends);
    check(two_stocks_end);
}
