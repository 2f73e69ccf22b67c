//! Quiescence in the model checker: a paused clock goes on when nothing is left to do, and not before.

// Counters that the checker is not to see.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Clock, Ended, Holds, Quiescent};
use crate::bell::Announced;
use crate::scheduler::{RemoteRef, Scheduler};
use crate::switches::SwitchWord;
use crate::testing::model::{check_large, check_largest, mutant};
use crate::testing::spawn;
use crate::wait::block_on_inside;
use crate::worker::timer::Polled;
use crate::worker::timer::RawTimer;
use crate::worker::{IdlePolicy, Worker, WorkerConfig, WorkerShared};
use ::loom::sync::atomic::AtomicU32;
use ::loom::thread::{self, JoinHandle};
use doorbell_machine::Loom;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

const SLEEP_NS: u64 = 1_000;

/// A worker with a paused clock on a thread of its own.
struct Paused {
    shared: Arc<WorkerShared<Loom>>,
    clock: Arc<Clock<Loom>>,
    start_ns: u64,
    /// How often the clock might go on.
    quiescences: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Paused {
    fn start() -> Self {
        Self::start_with(|| ())
    }

    /// `when_quiescent` is called whenever the clock might go on.
    fn start_with(when_quiescent: impl Fn() + Send + Sync + 'static) -> Self {
        let switches = Arc::new(SwitchWord::default());
        let remote = RemoteRef::alone(&switches);
        let quiescences = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&quiescences);
        let clock = Arc::new(Clock::<Loom>::paused(remote.clone(), move || {
            count.fetch_add(1, Relaxed);
            when_quiescent();
            Quiescent::Nobody
        }));
        let config = WorkerConfig {
            idle: IdlePolicy::Park,
        };
        let shared = Arc::new(WorkerShared::with(config, remote, Arc::clone(&clock)));
        let theirs = Arc::clone(&shared);
        Paused {
            start_ns: clock.now_ns(),
            shared,
            clock,
            quiescences,
            thread: thread::spawn(move || Worker::new(theirs).run()),
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns() - self.start_ns
    }

    fn close(self) {
        self.shared.close();
        self.thread.join().unwrap();
    }
}

/// A future that waits so long from its first poll on.
fn sleep(paused: &Paused) -> impl Future<Output = ()> + Send + 'static {
    let remote = paused.shared.remote().clone();
    let when_ns = paused.start_ns + SLEEP_NS;
    let mut timer = None;
    poll_fn(move |cx| {
        let timer = timer.get_or_insert_with(|| {
            RawTimer::arm(&remote, when_ns, cx.waker()).expect("the worker is there")
        });
        match timer.poll(cx) {
            Polled::Pending => Poll::Pending,
            Polled::Ready(_) => Poll::Ready(()),
            Polled::Elsewhere => unreachable!("one worker, one waker"),
        }
    })
}

/// A task sleeps, and a thread waits for it: the clock goes on, exactly there.
fn a_sleep_is_over() {
    let paused = Paused::start();
    let task = spawn(paused.shared.remote(), sleep(&paused));
    {
        let _inside = paused.clock.inside(Holds::No);
        block_on_inside(&paused.clock, task, 0).unwrap();
        assert_eq!(paused.now_ns(), SLEEP_NS);
    }
    paused.close();
}

/// While something else is left to do the clock stands, whichever thread it is to be done on.
fn work_comes_first() {
    let has_run = Arc::new(AtomicU64::new(0));
    let (when_quiescent, worker) = (Arc::clone(&has_run), Arc::clone(&has_run));
    let paused = Paused::start_with(move || {
        assert_eq!(
            when_quiescent.load(Relaxed),
            1,
            "the clock went on too early"
        );
    });
    let sleeper = spawn(paused.shared.remote(), sleep(&paused));
    {
        let _inside = paused.clock.inside(Holds::No);
        let worker = spawn(paused.shared.remote(), async move {
            worker.store(1, Relaxed);
        });
        block_on_inside(&paused.clock, worker, 0).unwrap();
        assert_eq!(paused.now_ns(), 0);
        drop(sleeper);
    }
    paused.close();
}

/// A worker by hand: falls asleep, and is awake when it has been told something.
fn sleep_until_told(clock: &Clock<Loom>, remote: &RemoteRef<Loom>) {
    let bell = remote.bell();
    let announced = bell.announce_spin() == Announced::Yes;
    if announced && bell.announce_park() == Announced::Yes {
        // Nobody has a timer.
        assert_eq!(clock.end_worker(remote.worker(), u64::MAX), Ended::Yes);
        let _ = bell.park(remote.parker(), None);
        clock.begin();
    }
    let _ = bell.end_idle();
}

/// Two workers tell each other, one after the other. Whoever looks whether all is quiescent may have seen
/// each of them asleep, at different times.
fn two_workers_that_tell_each_other() {
    let remotes = Scheduler::<Loom>::new(2, &Arc::default(), |_, _| 0);
    let (told, quiescences) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
    let (left, count) = (Arc::clone(&told), Arc::clone(&quiescences));
    let clock = Arc::new(Clock::<Loom>::paused(remotes[0].clone(), move || {
        assert_eq!(left.load(Relaxed), 0, "told of more to do");
        count.fetch_add(1, Relaxed);
        Quiescent::Nobody
    }));
    let inside = clock.inside(Holds::Yes);
    let [one, other] = [0, 1].map(|worker| remotes[worker].clone());
    let (their_clock, first) = (Arc::clone(&clock), one.clone());
    let their_worker = thread::spawn(move || {
        sleep_until_told(&their_clock, &other);
        first.request_pass();
        // For good: nobody tells it again.
        let _ = other.bell().announce_spin();
        let _ = other.bell().announce_park();
        assert_eq!(their_clock.end_worker(1, u64::MAX), Ended::Yes);
    });
    remotes[1].request_pass();
    sleep_until_told(&clock, &one);
    told.store(0, Relaxed);
    let _ = one.bell().announce_spin();
    let _ = one.bell().announce_park();
    assert_eq!(clock.end_worker(0, u64::MAX), Ended::Yes);
    their_worker.join().unwrap();
    assert!(
        quiescences.load(Relaxed) >= 1,
        "nobody saw that all is quiescent"
    );
    drop(inside);
}

/// A thread holds the clock while the worker falls asleep: from then on it stands still.
fn a_hold_is_a_hold() {
    let remote = RemoteRef::<Loom>::alone(&Arc::default());
    let clock = Arc::new(Clock::<Loom>::paused(remote.clone(), || Quiescent::Nobody));
    let start_ns = clock.now_ns();
    let inside = clock.inside(Holds::Yes);
    let theirs = Arc::clone(&clock);
    let holder = thread::spawn(move || {
        let _hold = theirs.hold();
        let held_ns = theirs.now_ns();
        thread::yield_now();
        let still_ns = theirs.now_ns();
        assert_eq!(held_ns, still_ns, "the clock went on while it was held");
    });
    let _ = remote.bell().announce_spin();
    let _ = remote.bell().announce_park();
    let _ = clock.end_worker(remote.worker(), start_ns + SLEEP_NS);
    holder.join().unwrap();
    assert_eq!(clock.now_ns() - start_ns, SLEEP_NS, "once, by either");
    drop(inside);
}

/// The last one finds that all is quiescent, and gives that up since nothing is due. Meanwhile another one has begun,
/// told the worker, and ended: who looks again sees that.
fn told_while_another_looks() {
    let remote = RemoteRef::<Loom>::alone(&Arc::default());
    let quiescences = AtomicU64::new(0);
    let clock = Arc::new(Clock::<Loom>::paused(remote.clone(), move || {
        assert_eq!(quiescences.fetch_add(1, Relaxed), 0, "told of more to do");
        Quiescent::Nobody
    }));
    let inside = clock.inside(Holds::No);
    let _ = remote.bell().announce_spin();
    let _ = remote.bell().announce_park();
    assert_eq!(clock.end_worker(remote.worker(), u64::MAX), Ended::Yes);
    let (their_clock, theirs) = (Arc::clone(&clock), remote.clone());
    let tells = thread::spawn(move || {
        let hold = their_clock.hold();
        theirs.request_pass();
        drop(hold);
    });
    assert_eq!(clock.end_waiter(), Ended::Yes);
    clock.begin();
    tells.join().unwrap();
    drop(inside);
}

/// A clock is set while somebody looks at it. What came before is visible to who sees the new time.
fn look_at_a_step(has_come: fn(&Clock<Loom>) -> bool) {
    let clock = Arc::new(Clock::<Loom>::frozen());
    let written = Arc::new(AtomicU32::new(0));
    let (theirs, before) = (Arc::clone(&clock), Arc::clone(&written));
    // Who looks comes second: the checker forgets a look that comes before that of who sets the clock.
    let looks = thread::spawn(move || {
        if has_come(&theirs) {
            assert_eq!(before.load(Relaxed), 1, "it is later, and not seen");
        }
    });
    written.store(1, Relaxed);
    clock.advance_to(SLEEP_NS);
    looks.join().unwrap();
}

fn now_against_step() {
    look_at_a_step(|clock| clock.now_ns() >= SLEEP_NS);
}

fn passed_against_step() {
    look_at_a_step(|clock| clock.has_passed(SLEEP_NS));
}

fn after_against_step() {
    look_at_a_step(|clock| clock.after_ns(0) >= SLEEP_NS);
}

/// Nobody is inside the runtime: the clock stands.
fn outside_it_stands() {
    let paused = Paused::start();
    let task = spawn(paused.shared.remote(), sleep(&paused));
    let hold = paused.clock.hold();
    drop(hold);
    drop(task);
    let (clock, start_ns, quiescences) = (
        Arc::clone(&paused.clock),
        paused.start_ns,
        Arc::clone(&paused.quiescences),
    );
    paused.close();
    assert_eq!((clock.now_ns(), quiescences.load(Relaxed)), (start_ns, 0));
}

/// Somebody sets the clock on by hand: the worker looks at its timers.
fn advanced_by_hand() {
    let paused = Paused::start();
    let task = spawn(paused.shared.remote(), sleep(&paused));
    {
        let _inside = paused.clock.inside(Holds::No);
        let _hold = paused.clock.hold();
        paused.clock.advance_by(SLEEP_NS);
        block_on_inside(&paused.clock, task, 0).unwrap();
        assert_eq!(
            (paused.now_ns(), paused.quiescences.load(Relaxed)),
            (SLEEP_NS, 0)
        );
    }
    paused.close();
}

#[test]
fn a_clock_goes_on_when_all_is_quiescent() {
    check_large(a_sleep_is_over);
}

#[test]
fn a_clock_waits_for_what_is_left_to_do() {
    check_large(work_comes_first);
}

#[test]
fn a_clock_stands_while_nobody_is_inside() {
    check_large(outside_it_stands);
}

#[test]
fn a_clock_that_is_advanced_fires_what_is_due() {
    check_largest(advanced_by_hand);
}

#[test]
fn a_clock_that_is_held_stands() {
    check_large(a_hold_is_a_hold);
}

#[test]
fn a_clock_waits_for_a_worker_that_was_told_since_the_last_look() {
    check_large(told_while_another_looks);
}

#[test]
fn who_sees_the_time_sees_what_came_before_it() {
    check_large(now_against_step);
    check_large(passed_against_step);
    check_large(after_against_step);
}

#[test]
fn mutant_quiescence_no_wait() {
    mutant!(QuiescenceNoWait, a_hold_is_a_hold);
}

#[test]
fn a_clock_waits_for_workers_that_tell_each_other() {
    check_large(two_workers_that_tell_each_other);
}

#[test]
fn mutant_quiescence_no_epoch() {
    mutant!(QuiescenceNoEpoch, two_workers_that_tell_each_other);
}

#[test]
fn mutant_quiescence_without_a_look() {
    mutant!(QuiescenceWithoutALook, work_comes_first);
}
