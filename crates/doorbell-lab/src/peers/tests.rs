//! What the scenarios rely on.

use std::sync::{Arc, mpsc};
use std::thread;

use super::*;
use crate::frame::testing;
use crate::tools::{Crew, Meeting};

fn cpus() -> Vec<usize> {
    let stage = testing::stage(&crate::scenario::Options::default());
    stage.map_or_else(Vec::new, |stage| stage.cpus().to_vec())
}

fn test_all<P: Timers>() {
    let cpus = cpus();
    if cpus.is_empty() {
        return;
    }
    let mut peer = P::start(&Workers::on(cpus)).expect("it starts");
    two_tasks_meet(&mut peer);
    ticks_are_not_early(&mut peer);
    let (polled, polls) = mpsc::channel();
    let job = async move {
        polled.send(()).expect("the test waits");
        std::future::pending::<()>().await;
        drop(polled);
    };
    peer.spawn_as(Role::on(0), job).expect("it is spawned");
    polls.recv().expect("it is polled");
    assert_eq!(polls.try_recv(), Err(mpsc::TryRecvError::Empty));
    peer.stop().expect("it stops");
    assert_eq!(polls.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

fn two_tasks_meet<P: Timers>(peer: &mut P) {
    let (meeting, mut crew) = (Arc::new(Meeting::of(2)), Crew::new());
    for core in 0..2 {
        let meeting = Arc::clone(&meeting);
        let task = crew.member(async move {
            P::sleep(Duration::from_millis(1)).await;
            meeting.arrive().await;
            thread::current().id()
        });
        peer.spawn_as(Role::from(core), task).expect("it runs");
    }
    let threads = crew.gather().expect("both end");
    assert_ne!(threads[0], threads[1], "{}", P::NAME);
}

fn ticks_are_not_early<P: Timers>(peer: &mut P) {
    let mut crew = Crew::new();
    let task = crew.member(async move {
        let period = Duration::from_millis(2);
        let start = Instant::now() + period;
        let mut ticks = P::ticks(start, period, Duration::ZERO);
        let mut are_late = Vec::new();
        for turn in 0..3 {
            P::tick(&mut ticks).await;
            are_late.push(Instant::now() >= start + period * turn);
        }
        are_late
    });
    peer.spawn_as(Role::from(0), task).expect("it runs");
    assert_eq!(crew.gather().expect("three ticks")[0], [true; 3]);
}

#[test]
fn timers_of_doorbell() {
    test_all::<Doorbell>();
}

#[test]
fn timers_of_tokio() {
    test_all::<Tokio>();
}

#[test]
fn timers_of_smol() {
    test_all::<Smol>();
}

#[test]
fn threads_of_contestants_have_the_shortest_slack() {
    let slack = || rustix::thread::current_timer_slack().expect("it can be read");
    let runtime = Tokio::start(&Workers::on([0, 0])).expect("it starts").0;
    let of_task = runtime.block_on(runtime.spawn(async move { slack() }));
    assert_eq!(of_task.expect("it does not panic"), 1);
    for cpu in [None, Some(0)] {
        // A machine may lack CPU 0.
        if let Ok(thread) = thread_on("slack", cpu, slack) {
            assert_eq!(join(thread).expect("it does not panic"), 1);
        }
    }
}

/// The status and the timer slack of async-io's thread. A thread gets its name when it first runs.
fn thread_of_async_io() -> Option<(String, String)> {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc is there");
    let mut numbers = tasks.filter_map(|task| task.ok()?.file_name().into_string().ok());
    numbers.find_map(|number| {
        let status = read(format!("/proc/self/task/{number}/status"));
        let is_it = status.starts_with("Name:\tasync-io\n");
        is_it.then(|| (status, read(format!("/proc/{number}/timerslack_ns"))))
    })
}

#[test]
fn the_thread_of_async_io_has_the_shortest_slack_and_all_cpus() {
    smol::start_async_io().expect("it starts");
    let began = Instant::now();
    let (status, slack) = loop {
        if let Some(found) = thread_of_async_io() {
            break found;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "there is none");
        thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(slack.trim(), "1");
    let cpus = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("Cpus_allowed:"));
        line.map(str::to_owned)
    };
    let own = std::fs::read_to_string("/proc/self/status").expect("proc is there");
    assert_eq!(cpus(&status), cpus(&own));
}

#[test]
fn threads_take_turns_on_the_cpus_they_are_bound_to() {
    let cpus = |workers: &Workers| [0, 1, 2].map(|place| workers.cpu(place));
    let bound = Workers::on([3, 5]);
    assert_eq!(
        (bound.count(), cpus(&bound)),
        (2, [Some(3), Some(5), Some(3)])
    );
    let free = Workers::Free(4);
    assert_eq!((free.count(), cpus(&free)), (4, [None; 3]));
}

#[test]
fn what_needs_no_privilege_is_given() {
    for want in [Want::AsIs, Want::Idle] {
        assert!(want.is_given(), "{want:?}");
    }
}

#[test]
fn a_setting_is_that_of_the_runtime() {
    let peer = Doorbell::switched(&Workers::Free(1), "idle_claim=off").expect("it starts");
    let switches = peer.0.handle().switches().to_string();
    assert!(switches.contains("idle_claim=off"), "{switches}");
    peer.stop().expect("it stops");
}
