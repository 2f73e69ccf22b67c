//! Tasks of a lower scheduler on a worker above, on one thread.

use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec};
use crate::task::{About, BodyVtable, Join, Kind, Name, write_body};
use crate::testing::spawn;
use crate::worker::{Local, launch_described};
use doorbell_machine::Host;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};

/// A worker each of two schedulers: the upper and the lower one.
fn two_schedulers() -> [(RemoteRef<Host>, Local<Host>); 2] {
    let one = |above| {
        Scheduler::described(1, &Arc::default(), SchedulerSpec::below(above), |_, _| 0).remove(0)
    };
    let above: RemoteRef<Host> = one(Vec::new());
    let below = one(vec![above.clone()]);
    [above, below].map(|remote| (remote.clone(), Local::new(remote)))
}

fn poll<T>(join: &mut Join<T>) -> Poll<Option<T>> {
    let polled = Pin::new(join).poll(&mut Context::from_waker(Waker::noop()));
    polled.map(Result::ok)
}

/// Waits for one wake, and tells its rank as the worker sees it.
async fn once() -> Option<u8> {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    Local::<Host>::with_current(|local| local?.raised_rank())
}

#[test]
fn miri_a_task_is_polled_by_the_worker_above_that_awaits_it() {
    let [(_, above), (remote, below)] = two_schedulers();
    let mut join = below.enter(|| spawn(&remote, once()));
    above.enter(|| {
        assert!(poll(&mut join).is_pending());
        assert_eq!(above.queued(), 1);
        // It wakes itself, and comes again.
        assert!(above.run_one() && poll(&mut join).is_pending() && above.run_one());
        assert!(!above.run_one());
        assert_eq!(poll(&mut join), Poll::Ready(Some(Some(0))));
        assert_eq!(above.raised_rank(), None);
    });
    drop(join);
    assert_eq!((below.queued(), below.live()), (1, 0));
    below.enter(|| {
        assert!(below.run_one() && !below.run_one());
        below.close();
    });
    above.enter(|| above.close());
    drop(below);
    assert_eq!(remote.shares(), 1, "a task was not freed");
}

/// Tells in its drop the rank that a task of a scheduler below has on this worker.
struct Tells(mpsc::Sender<Option<u8>>);

impl Drop for Tells {
    fn drop(&mut self) {
        let rank = Local::<Host>::with_current(|local| local.and_then(Local::raised_rank));
        self.0.send(rank).unwrap();
    }
}

#[test]
fn what_is_dropped_on_a_worker_above_is_of_its_own_class() {
    let [(_, above), (remote, below)] = two_schedulers();
    let (tell, told) = mpsc::channel();
    let tells = Tells(tell);
    let mut join = below.enter(|| {
        spawn(&remote, async move {
            let _tells = tells;
            std::future::pending::<()>().await;
        })
    });
    above.enter(|| {
        assert!(poll(&mut join).is_pending());
        join.cancel();
        while above.run_one() {}
        assert_eq!(told.try_recv(), Ok(Some(0)));
        above.close();
    });
    drop(join);
    below.enter(|| below.close());
    drop(below);
    assert_eq!(remote.shares(), 1, "a task was not freed");
}

#[test]
fn miri_a_second_node_lies_behind_any_body() {
    #[repr(align(64))]
    struct Wide([u8; 3]);

    let [(_, above), (remote, below)] = two_schedulers();
    let body = async {
        let wide = Wide([1, 2, 3]);
        let _ = once().await;
        wide.0[2]
    };
    // SAFETY: the body is of the table's type and Send, and the handle is typed with its output.
    let mut join: Join<u8> = below.enter(|| unsafe { named(&remote, body) });
    above.enter(|| {
        assert!(poll(&mut join).is_pending());
        assert_eq!(join.name(), Some("a name behind it"));
        while above.run_one() {}
        assert_eq!(poll(&mut join), Poll::Ready(Some(3)));
        above.close();
    });
    drop(join);
    below.enter(|| below.close());
    drop(below);
    assert_eq!(remote.shares(), 1, "a task was not freed");
}

/// # Safety
/// The future and its output are Send, and own what they refer to.
unsafe fn named<F: Future>(remote: &RemoteRef<Host>, future: F) -> Join<F::Output> {
    let name = Name::from("a name behind it");
    let (table, remote) = (BodyVtable::of::<F>(), remote.clone());
    let about = About {
        name: Some(&name),
        ..About::default()
    };
    // SAFETY: the body is of the table's type; the rest is the caller's promise.
    let raw = unsafe {
        launch_described(remote, Kind::Task, about, table, |body| {
            write_body(body, future);
        })
    };
    // SAFETY: the body's output is the future's.
    unsafe { raw.typed() }
}

#[test]
fn a_pinned_task_and_one_below_nobody_are_not_raised() {
    let [(high, above), (remote, below)] = two_schedulers();
    let pinned = crate::testing::launch_as(&remote, Kind::Pinned, async {});
    let own = spawn(&high, async {});
    for mut join in [pinned, own] {
        below.enter(|| assert!(poll(&mut join).is_pending()));
    }
    let mut again = spawn(&remote, async {});
    // Of the same scheduler, and of none.
    below.enter(|| assert!(poll(&mut again).is_pending()));
    assert!(poll(&mut again).is_pending());
    assert_eq!(above.queued(), 0, "nothing was raised");
    drop(again);
    above.enter(|| above.close());
    below.enter(|| below.close());
}

#[test]
fn what_is_raised_to_a_worker_that_has_ended_stays_with_its_own() {
    let [(_, above), (remote, below)] = two_schedulers();
    above.enter(|| above.close());
    let mut join = below.enter(|| spawn(&remote, once()));
    above.enter(|| assert!(poll(&mut join).is_pending()));
    below.enter(|| while below.run_one() {});
    assert_eq!(poll(&mut join), Poll::Ready(Some(None)));
    drop(join);
    below.enter(|| below.close());
    drop(below);
    assert_eq!(remote.shares(), 1, "a task was not freed");
}

#[test]
fn what_a_worker_above_has_when_it_ends_stays_with_its_own() {
    let [(_, above), (remote, below)] = two_schedulers();
    let mut join = below.enter(|| spawn(&remote, once()));
    above.enter(|| {
        assert!(poll(&mut join).is_pending());
        assert_eq!(above.queued(), 1);
        above.close();
    });
    below.enter(|| while below.run_one() {});
    assert_eq!(poll(&mut join), Poll::Ready(Some(None)));
    drop(join);
    below.enter(|| below.close());
    drop(below);
    assert_eq!(remote.shares(), 1, "a task was not freed");
}
