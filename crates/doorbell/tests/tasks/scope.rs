//! Scopes: children end before their scope, whatever ends it.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::hostile;
use crate::shuffled::Builder;
use doorbell::{CoreId, Runtime, current_core, scope, yield_now};
use std::future::{pending, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

use futures::FutureExt;

fn runtime() -> Runtime {
    Builder::new().cores(2).build().unwrap()
}

/// Counts its drops, and those on another core than `home` as a thousand.
struct Guard {
    drops: Arc<AtomicUsize>,
    home: Option<CoreId>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let at_home = self.home.is_none() || self.home == current_core();
        self.drops
            .fetch_add(if at_home { 1 } else { 1_000 }, SeqCst);
    }
}

fn guard(drops: &Arc<AtomicUsize>) -> Guard {
    Guard {
        drops: Arc::clone(drops),
        home: None,
    }
}

/// Waits forever and holds a guard.
async fn hold(guard: Guard) {
    pending::<()>().await;
    drop(guard);
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic.downcast_ref::<&str>().unwrap()
}

#[test]
fn children_end_before_the_scope_awaited_or_not() {
    let ended = Arc::new(AtomicUsize::new(0));
    let rt = runtime();
    // In a task: the future of a scope is Send.
    let task = rt.spawn({
        let ended = Arc::clone(&ended);
        async move {
            let output = scope(async |s| {
                for i in 0..50 {
                    let ended = Arc::clone(&ended);
                    let child = s.spawn(async move {
                        for _ in 0..i {
                            yield_now().await;
                        }
                        ended.fetch_add(1, SeqCst);
                    });
                    if i % 10 == 0 {
                        child.await.unwrap();
                    }
                }
                s.spawn_on(1, async { current_core() }).await.unwrap()
            })
            .await;
            assert_eq!(ended.load(SeqCst), 50);
            output
        }
    });
    assert_eq!(rt.block_on(task).unwrap(), Some(CoreId::new(1)));
}

#[test]
fn an_empty_scope_and_scopes_in_scopes() {
    let total = runtime().block_on(async {
        assert_eq!(scope(async |_| 5).await, 5);
        scope(async |outer| {
            let inner = outer.spawn(async {
                scope(async |s| {
                    let (a, b) = (s.spawn(async { 1 }), s.spawn(async { 2 }));
                    a.await.unwrap() + b.await.unwrap()
                })
                .await
            });
            inner.await.unwrap() + 4
        })
        .await
    });
    assert_eq!(total, 7);
}

#[test]
fn a_childs_panic_cancels_the_others_and_goes_on_when_they_have_ended() {
    let drops = Arc::new(AtomicUsize::new(0));
    runtime().block_on(async {
        for body_waits in [true, false] {
            let before = drops.load(SeqCst);
            let body_guard = guard(&drops);
            let run = scope(async |s| {
                for _ in 0..10 {
                    s.spawn(hold(guard(&drops)));
                }
                s.spawn(async {
                    yield_now().await;
                    panic!("a child, on purpose");
                });
                if body_waits {
                    hold(body_guard).await;
                }
            });
            let panic = AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
            assert_eq!(message(&*panic), "a child, on purpose");
            assert_eq!(drops.load(SeqCst) - before, 11);
        }
    });
}

#[test]
fn a_bodys_panic_cancels_the_children_and_goes_on_when_they_have_ended() {
    let drops = Arc::new(AtomicUsize::new(0));
    runtime().block_on(async {
        let run = scope(async |s| {
            for core in [0, 1] {
                s.spawn_on(
                    core,
                    hold(Guard {
                        drops: Arc::clone(&drops),
                        home: Some(CoreId::new(core)),
                    }),
                );
            }
            yield_now().await;
            panic!("the body, on purpose");
        });
        let run = AssertUnwindSafe(run).catch_unwind().await;
        let panic = run.map(|(): ()| ()).unwrap_err();
        assert_eq!(message(&*panic), "the body, on purpose");
        assert_eq!(drops.load(SeqCst), 2, "on their own workers");
    });
}

#[test]
fn who_awaits_a_child_that_panics_learns_why_and_the_childs_panic_goes_on() {
    runtime().block_on(async {
        let run = scope(async |s| {
            let child = s.spawn(async { panic!("the first") });
            let error = child.await.unwrap_err();
            assert!(error.to_string().contains("the first"), "{error}");
            panic!("the second");
        });
        let run = AssertUnwindSafe(run).catch_unwind().await;
        let panic = run.map(|(): ()| ()).unwrap_err();
        assert_eq!(message(&*panic), "the first");
    });
}

#[test]
fn a_panic_in_the_bodys_destructor_leaves_no_child_behind() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in a destructor, on purpose");
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    runtime().block_on(async {
        let run = scope(async |s| {
            let _panics = Panics;
            s.spawn(hold(guard(&drops)));
            s.spawn(async { panic!("a child, on purpose") });
            pending::<()>().await;
        });
        let panic = AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
        assert_eq!(message(&*panic), "a child, on purpose");
        assert_eq!(drops.load(SeqCst), 1);
    });
}

#[test]
fn an_aborted_child_ends_alone() {
    let drops = Arc::new(AtomicUsize::new(0));
    runtime().block_on(scope(async |s| {
        let held = guard(&drops);
        let child = s.spawn(hold(held));
        let other = s.spawn(async { 3 });
        child.abort();
        assert!(child.await.unwrap_err().is_cancelled());
        assert_eq!(drops.load(SeqCst), 1);
        assert_eq!(other.await.unwrap(), 3);
    }));
}

#[test]
fn dropping_the_future_of_a_scope_aborts_its_children() {
    let drops = Arc::new(AtomicUsize::new(0));
    runtime().block_on(async {
        {
            let mut run = pin!(scope(async |s| {
                for _ in 0..10 {
                    s.spawn(hold(guard(&drops)));
                }
                pending::<()>().await;
            }));
            assert!(futures::poll!(&mut run).is_pending());
        }
        while drops.load(SeqCst) < 10 {
            yield_now().await;
        }
    });
    assert_eq!(drops.load(SeqCst), 10);
}

#[test]
fn the_end_of_the_runtime_ends_its_scopes() {
    let drops = Arc::new(AtomicUsize::new(0));
    let rt = runtime();
    let (begun_tx, begun_rx) = tokio::sync::oneshot::channel();
    let task = rt.spawn({
        let drops = Arc::clone(&drops);
        async move {
            scope(async |s| {
                for core in [0, 1, 0, 1] {
                    s.spawn_on(core, hold(guard(&drops)));
                }
                begun_tx.send(()).unwrap();
            })
            .await;
        }
    });
    rt.block_on(begun_rx).unwrap();
    drop(rt);
    assert_eq!(drops.load(SeqCst), 4);
    let end = runtime().block_on(task);
    assert!(end.is_ok() || end.unwrap_err().is_cancelled());
}

/// The scope's poll panics and drops its children there. A second panic would end the process.
#[test]
fn a_scope_that_is_polled_with_a_waker_that_panics_goes_on() {
    runtime().block_on(async {
        let mut is_first = true;
        let mut run = pin!(scope(async |s| {
            let child = s.spawn(pending::<()>());
            poll_fn(|_| {
                if std::mem::take(&mut is_first) {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
            .await;
            child.abort();
            7
        }));
        let counts = Arc::default();
        assert!(hostile::poll(&counts, |cx| run.as_mut().poll(cx)).is_pending());
        assert!(counts.woken() > 0);
        assert_eq!(run.await, 7);
        assert!(counts.dropped() > 0);
    });
}

/// The handle of a child may have another poller than the body of its scope.
#[test]
fn a_handle_that_was_polled_with_a_waker_that_panics_ends_no_scope() {
    runtime().block_on(async {
        let (go, wait) = tokio::sync::oneshot::channel();
        let (go_other, wait_other) = tokio::sync::oneshot::channel();
        let output = scope(async |s| {
            let (mut child, other) = (s.spawn(wait), s.spawn(wait_other));
            let counts = Arc::default();
            assert!(hostile::poll(&counts, |cx| child.poll_unpin(cx)).is_pending());
            go.send(7).unwrap();
            while counts.woken() == 0 {
                yield_now().await;
            }
            go_other.send(8).unwrap();
            (child.await.unwrap(), other.await.unwrap())
        });
        assert_eq!(output.await, (Ok(7), Ok(8)));
    });
}
