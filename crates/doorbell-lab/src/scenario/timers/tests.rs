//! Every host runs its jobs, on two threads. No test here asserts a time.

use std::sync::{Arc, mpsc};
use std::thread;

use super::super::contestant::Stage;
use super::*;
use crate::measure::Placement;

fn two_tasks_meet<T: Timers>(timers: &T, placement: Placement) {
    let host = T::Host::start(placement).expect("it starts");
    let (done, results) = mpsc::channel();
    let meeting = Arc::new(Meeting::of(2));
    for core in 0..WORKERS {
        let (own, meeting, done) = (timers.clone(), Arc::clone(&meeting), done.clone());
        let job: Job = Box::pin(async move {
            own.sleep(Duration::from_millis(1)).await;
            meeting.arrive().await;
            done.send(thread::current().id()).expect("the test waits");
        });
        timers.run(&host, core, vec![job]).expect("it runs");
    }
    let threads = gather(&results, WORKERS).expect("both end");
    assert_ne!(threads[0], threads[1], "{}", T::NAME);
    host.stop().expect("it stops");
}

fn ticks_are_not_early<T: Timers>(timers: &T, placement: Placement) {
    let host = T::Host::start(placement).expect("it starts");
    let (done, results) = mpsc::channel();
    let timers = timers.clone();
    let job: Job = Box::pin(async move {
        let period = Duration::from_millis(2);
        let start = Instant::now() + period;
        let mut ticks = timers.ticks(start, period);
        for turn in 0..3 {
            ticks.tick().await;
            let due = start + period * turn;
            done.send(Instant::now() >= due).expect("the test waits");
        }
    });
    host.run(0, vec![job]).expect("it runs");
    assert_eq!(gather(&results, 3).expect("three ticks"), [true; 3]);
    host.stop().expect("it stops");
}

fn what_is_kept_is_polled_and_dropped<T: Timers>(placement: Placement) {
    let host = T::Host::start(placement).expect("it starts");
    let (polled, polls) = mpsc::channel();
    let job: Job = Box::pin(async move {
        polled.send(()).expect("the test waits");
        std::future::pending::<()>().await;
        drop(polled);
    });
    host.keep(0, job).expect("it is kept");
    polls.recv().expect("it is polled");
    assert_eq!(polls.try_recv(), Err(mpsc::TryRecvError::Empty));
    host.stop().expect("it stops");
    assert_eq!(polls.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

fn test_all<T: Timers>(timers: &T) {
    let Some(Stage { placement, .. }) = Stage::for_tests() else {
        return;
    };
    two_tasks_meet(timers, placement);
    ticks_are_not_early(timers, placement);
    what_is_kept_is_polled_and_dropped::<T>(placement);
}

#[test]
fn doorbell_hosts() {
    test_all(&Doorbell::default());
    test_all(&Doorbell {
        slack: Duration::from_millis(1),
        is_pinned: true,
        ..Doorbell::default()
    });
}

#[test]
fn tokio_hosts() {
    test_all(&Tokio);
}

#[test]
fn async_io_hosts() {
    test_all(&AsyncIo);
}
