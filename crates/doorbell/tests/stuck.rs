//! A worker inside a long poll: other workers do what waits behind it.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of workers that are kept from going on, by threads of its own"
)]

use doorbell::net::UnixStream;
use doorbell::time::{interval, sleep, timeout};
use doorbell::{Builder, CoreId, Runtime, metrics::WorkerState};
use std::future::Future;
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Far longer than anything should take, so that a loaded machine passes.
const LONG: Duration = Duration::from_secs(30);
const TIMER: Duration = Duration::from_millis(20);

/// A signal and its receiver.
fn signal() -> (Sender<()>, Receiver<()>) {
    channel()
}

fn runtime() -> Runtime {
    Builder::new().cores(2).build().unwrap()
}

fn on(core: usize, rt: &Runtime, future: impl Future<Output = ()> + Send + 'static) {
    drop(rt.task().on(CoreId::new(core)).spawn(future));
}

/// Arms a timer of a movable task on core 0, while core 1 is kept from taking the task.
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
    // Behind the poll that armed it.
    let (over, is_over) = signal();
    on(0, rt, async move { over.send(()).unwrap() });
    is_over.recv_timeout(LONG).unwrap();
    release.send(()).unwrap();
    is_fired
}

/// Blocks core 0 until the timer has fired: so another core has expired it. It is the second long poll of the task: others
/// look after its worker from the beginning.
fn stuck_until(rt: &Runtime, fired: Receiver<()>) {
    let (done, is_done) = channel();
    on(0, rt, async move {
        std::thread::sleep(TIMER / 10);
        doorbell::yield_now().await;
        let outcome = fired.recv_timeout(LONG);
        done.send(outcome.is_ok()).unwrap();
    });
    assert!(is_done.recv_timeout(2 * LONG).unwrap(), "nobody did");
}

fn timers_for_stuck(rt: &Runtime) -> u64 {
    let workers = rt.metrics().workers;
    workers
        .iter()
        .map(|worker| worker.raw().timers_for_stuck)
        .sum()
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
    // Mostly both are asleep well before the timer is due; if not, this repeats the first test.
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

/// Keeps core 0 inside a long poll until `wait` has returned, and core 1 inside one until `wait` ends that.
fn while_core_0_is_stuck(wait: impl FnOnce(&Runtime, &dyn Fn())) {
    let rt = runtime();
    let (done, is_done) = channel();
    let mut told = Vec::new();
    for core in 0..2 {
        let ((begun, has_begun), (tell, is_told)) = (signal(), signal());
        let done = done.clone();
        on(core, &rt, async move {
            begun.send(()).unwrap();
            done.send(is_told.recv_timeout(LONG).is_ok()).unwrap();
        });
        has_begun.recv_timeout(LONG).unwrap();
        told.push(tell);
    }
    wait(&rt, &|| told[1].send(()).unwrap());
    // After `LONG` the receiver is gone.
    let _ = told[0].send(());
    for _ in 0..2 {
        assert!(
            is_done.recv_timeout(2 * LONG).unwrap(),
            "they waited for the end of the poll"
        );
    }
}

/// Timers that a foreign thread armed while all cores were inside polls.
async fn timers_of_a_thread(free_core_1: &dyn Fn()) {
    let mut armed = Box::pin(sleep(TIMER));
    assert!(futures::poll!(armed.as_mut()).is_pending());
    free_core_1();
    armed.await;
    let mut ticks = interval(TIMER);
    for _ in 0..3 {
        ticks.tick().await;
    }
    let never = std::future::pending::<()>();
    timeout(TIMER, never).await.unwrap_err();
}

#[test]
fn the_timers_of_block_on_do_not_wait_for_a_core_that_is_stuck() {
    while_core_0_is_stuck(|rt, free_core_1| rt.block_on(timers_of_a_thread(free_core_1)));
}

#[test]
fn the_timers_of_another_executor_do_not_wait_for_a_core_that_is_stuck() {
    while_core_0_is_stuck(|rt, free_core_1| {
        let _entered = rt.enter();
        futures::executor::block_on(timers_of_a_thread(free_core_1));
    });
}

/// Only their own core expires the timers of pinned tasks.
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

/// Waits until all workers sleep, and none of them will look again by itself.
fn await_idle(rt: &Runtime) {
    let asleep = |core| rt.worker_state(core) == Some(WorkerState::Parked);
    while !(0..rt.cores()).all(asleep) {
        std::thread::yield_now();
    }
    // Longer than a watchdog stays one, also on a machine that is busy.
    std::thread::sleep(Duration::from_millis(60));
}

/// The call waits for the task. The calls go to different cores, so in some rounds a worker has taken the
/// task before.
#[test]
fn a_task_from_outside_does_not_wait_for_a_call_that_came_after_it() {
    for cores in [2, 4] {
        let rt = Builder::new().cores(cores).build().unwrap();
        for round in 0..20 {
            await_idle(&rt);
            let ((done, is_done), (over, is_over)) = (signal(), channel());
            drop(rt.spawn(async move { done.send(()).unwrap() }));
            let waits = move || over.send(is_done.recv_timeout(LONG).is_ok()).unwrap();
            rt.post_on(round % cores, waits).unwrap();
            let has_run = is_over.recv_timeout(2 * LONG).unwrap();
            assert!(has_run, "it waited for the call");
        }
    }
}

/// How often the workers have gone to sleep.
fn parks(rt: &Runtime) -> u64 {
    let workers = rt.metrics().workers;
    workers.iter().map(|worker| worker.counts.parks).sum()
}

const REQUESTS: u64 = 100;

#[derive(Clone, Copy)]
enum Task {
    Movable,
    Pinned,
}

/// Asserts how often workers are woken for so many requests to a service at rest, whatever timers and descriptors it has: at
/// first, just behind a long poll, and later.
fn assert_wakes_of_a_service(task: Task, may_be: RangeInclusive<u64>) {
    let rt = runtime();
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let entered = rt.enter();
    theirs.set_nonblocking(true).unwrap();
    let theirs = UnixStream::from_std(theirs).unwrap();
    drop(entered);
    let (answer, answered) = signal();
    let serves = async move {
        doorbell::spawn(sleep(LONG));
        // An answer over the socket would be one more event: it can be written to again.
        loop {
            let mut byte = [0];
            while theirs.try_read(&mut byte).is_err() {
                theirs.readable().await.unwrap();
            }
            if byte == [0] {
                return;
            }
            answer.send(()).unwrap();
        }
    };
    match task {
        Task::Movable => drop(rt.spawn(serves)),
        Task::Pinned => on(0, &rt, serves),
    }
    let mut answers = || {
        ours.write_all(&[1]).unwrap();
        answered.recv_timeout(LONG).unwrap();
    };
    answers();
    for when in ["at first", "behind a long poll", "later"] {
        if when == "behind a long poll" {
            let (over, is_over) = signal();
            on(0, &rt, async move {
                for _ in 0..3 {
                    std::thread::sleep(Duration::from_millis(2));
                    doorbell::yield_now().await;
                }
                over.send(()).unwrap();
            });
            is_over.recv_timeout(LONG).unwrap();
        }
        await_idle(&rt);
        let before = parks(&rt);
        for _ in 0..REQUESTS {
            answers();
            std::thread::sleep(Duration::from_millis(10));
        }
        await_idle(&rt);
        let parks = parks(&rt) - before;
        assert!(may_be.contains(&parks), "{when}: {parks}");
    }
    ours.write_all(&[0]).unwrap();
}

#[test]
fn w39_a_request_to_an_idle_service_wakes_one_worker_once_also_just_behind_a_long_poll() {
    // On a loaded machine a poll that loses its CPU looks long, and the next one is watched.
    assert_wakes_of_a_service(Task::Movable, REQUESTS * 9 / 10..=REQUESTS * 3 / 2);
}

/// The one that sleeps in the poller may be another worker.
#[test]
fn a_request_to_a_pinned_task_wakes_two_workers_at_most() {
    assert_wakes_of_a_service(Task::Pinned, REQUESTS * 9 / 10..=REQUESTS * 5 / 2);
}
