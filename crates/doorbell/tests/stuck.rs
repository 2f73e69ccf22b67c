//! A lane inside a long poll: what waits behind it is done elsewhere.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of lanes that are kept from going on, by threads of its own"
)]

use doorbell::time::sleep;
use doorbell::{Builder, CoreId, Runtime};
use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Far beyond all that should happen, so that a loaded machine passes.
const LONG: Duration = Duration::from_secs(30);
const TIMER: Duration = Duration::from_millis(20);

/// What one side waits for, and the other says.
fn signal() -> (Sender<()>, Receiver<()>) {
    channel()
}

fn runtime() -> Runtime {
    Builder::new().cores(2).build().unwrap()
}

fn on(core: usize, rt: &Runtime, future: impl Future<Output = ()> + Send + 'static) {
    drop(rt.task().on(CoreId::new(core)).spawn(future));
}

/// A task that may run anywhere has a timer on core 0, while core 1 is kept from taking it.
fn timer_on_core_0(rt: &Runtime) -> Receiver<()> {
    let ((fired, is_fired), (armed, is_armed)) = (signal(), signal());
    let ((kept, is_kept), (release, released)) = (signal(), signal());
    on(1, rt, async move {
        kept.send(()).unwrap();
        released.recv_timeout(LONG).unwrap();
    });
    is_kept.recv_timeout(LONG).unwrap();
    on(0, rt, async move {
        doorbell::spawn(async move {
            let timer = sleep(TIMER);
            armed.send(()).unwrap();
            timer.await;
            fired.send(()).unwrap();
        });
    });
    is_armed.recv_timeout(LONG).unwrap();
    // Behind the poll that has armed it.
    let (over, is_over) = signal();
    on(0, rt, async move { over.send(()).unwrap() });
    is_over.recv_timeout(LONG).unwrap();
    release.send(()).unwrap();
    is_fired
}

/// Core 0 is stuck until the timer has fired: so another one has expired it.
fn stuck_until(rt: &Runtime, fired: Receiver<()>) {
    let (done, is_done) = channel();
    on(0, rt, async move {
        let outcome = fired.recv_timeout(LONG);
        done.send(outcome.is_ok()).unwrap();
    });
    assert!(is_done.recv_timeout(2 * LONG).unwrap(), "nobody did");
}

fn timers_for_stuck(rt: &Runtime) -> u64 {
    let lanes = rt.metrics().lanes;
    lanes.iter().map(|lane| lane.counts.timers_for_stuck).sum()
}

#[test]
fn a_core_that_falls_asleep_expires_the_timers_of_one_that_is_stuck() {
    let rt = runtime();
    let fired = timer_on_core_0(&rt);
    stuck_until(&rt, fired);
    assert_eq!(timers_for_stuck(&rt), 1);
}

#[test]
fn a_core_that_works_expires_the_timers_of_one_that_is_stuck() {
    let rt = runtime();
    let (end, is_end) = signal();
    let fired = timer_on_core_0(&rt);
    on(1, &rt, async move {
        while is_end.try_recv().is_err() {
            doorbell::yield_now().await;
        }
    });
    stuck_until(&rt, fired);
    end.send(()).unwrap();
    assert_eq!(timers_for_stuck(&rt), 1);
}

#[test]
fn a_core_that_sleeps_already_is_woken_for_the_timers_of_one_that_gets_stuck() {
    let rt = runtime();
    let fired = timer_on_core_0(&rt);
    // Both are asleep well before the timer is due, mostly; else this is the first test again.
    std::thread::sleep(TIMER / 4);
    stuck_until(&rt, fired);
    assert_eq!(timers_for_stuck(&rt), 1);
}

#[test]
fn a_core_that_works_takes_what_waits_behind_a_long_poll() {
    let rt = runtime();
    let ((end, is_end), (ran, has_run)) = (signal(), signal());
    on(1, &rt, async move {
        while is_end.try_recv().is_err() {
            doorbell::yield_now().await;
        }
    });
    let (done, is_done) = channel();
    on(0, &rt, async move {
        doorbell::spawn(async move { ran.send(()).unwrap() });
        done.send(has_run.recv_timeout(LONG).is_ok()).unwrap();
    });
    assert!(is_done.recv_timeout(2 * LONG).unwrap(), "nobody did");
    end.send(()).unwrap();
}

/// Timers of pinned tasks are their core's alone.
#[test]
fn the_timers_of_pinned_tasks_wait() {
    let rt = runtime();
    let ((armed, is_armed), (fired, is_fired)) = (signal(), signal());
    on(0, &rt, async move {
        let timer = sleep(TIMER);
        armed.send(()).unwrap();
        timer.await;
        fired.send(()).unwrap();
    });
    is_armed.recv_timeout(LONG).unwrap();
    let (done, is_done) = channel();
    on(0, &rt, async move {
        done.send(is_fired.recv_timeout(5 * TIMER)).unwrap();
    });
    is_done.recv_timeout(LONG).unwrap().unwrap_err();
    assert_eq!(timers_for_stuck(&rt), 0);
}
