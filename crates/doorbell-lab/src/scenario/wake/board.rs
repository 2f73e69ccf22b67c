//! The board: state and counts that messengers and workers share.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::task::AtomicWaker;

use super::MESSENGERS;
use crate::error::{TASK_LOST, check_count};
use crate::measure::Samples;
use crate::tools::{Random, compute};

/// The time between two wakes by one messenger.
pub(super) const PERIOD: Duration = Duration::from_millis(4);
/// The time from planning until the first wake, so that all tasks are ready.
const BEGINS_IN: Duration = Duration::from_millis(50);
/// A worker that has not run for this long after the last wake has lost it.
const LOST: Duration = Duration::from_secs(5);
/// A worker's state while it waits. Any other number but [`WORKS`] is the time of its wake.
const WAITS: u64 = 0;
/// A worker's state while it computes.
const WORKS: u64 = u64::MAX;

/// One pass: the schedule of the wakes, and their results.
#[derive(Debug)]
pub(super) struct Board {
    /// How many workers each messenger has.
    workers_each: usize,
    /// The reference for times, which are in nanoseconds.
    began: Instant,
    /// When each messenger wakes its workers for the first time.
    first: Vec<Instant>,
    bursts: u32,
    /// The work of each wake.
    steps: u64,
    workers: Vec<Worker>,
    /// Whether a messenger has given up waiting for its workers.
    lost: AtomicBool,
}

/// What a worker and its messenger share. Two workers share no cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Worker {
    state: AtomicU64,
    waker: AtomicWaker,
    ends: AtomicBool,
    /// How often it was woken.
    wakes: AtomicU64,
    /// How often it was not woken because it was still busy with the last wake.
    skipped: AtomicU64,
    runs: AtomicU64,
    /// How often its task was polled.
    polls: AtomicU64,
}

impl Board {
    /// Messengers start at times that depend on the seed only, and each wakes its workers `bursts` times.
    pub(super) fn new(workers_each: usize, bursts: u32, steps: u64, seed: u64) -> Self {
        let began = Instant::now();
        let mut random = Random::seeded(seed);
        let phase = |_| began + BEGINS_IN + PERIOD.mul_f64(random.part());
        Self {
            workers_each,
            began,
            first: (0..MESSENGERS).map(phase).collect(),
            bursts,
            steps,
            workers: (0..MESSENGERS * workers_each)
                .map(|_| Worker::default())
                .collect(),
            lost: AtomicBool::new(false),
        }
    }

    /// When this messenger wakes its workers for burst number `burst`.
    pub(super) fn due(&self, messenger: usize, burst: u32) -> Instant {
        self.first[messenger] + PERIOD * burst
    }

    /// How often each messenger wakes its workers.
    pub(super) fn bursts(&self) -> u32 {
        self.bursts
    }

    pub(super) fn all_workers(&self) -> usize {
        self.workers.len()
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn workers_of(&self, messenger: usize) -> std::ops::Range<usize> {
        let first = messenger * self.workers_each;
        first..first + self.workers_each
    }

    /// Calls `wake` for each of a messenger's workers that has finished the last wake.
    pub(super) fn wake_all(&self, messenger: usize, wake: impl Fn(usize)) {
        for place in self.workers_of(messenger) {
            let worker = &self.workers[place];
            // ORDER: Acquire pairs with the store at the end of `work`: what the worker did before is done.
            // Only its messenger wakes it.
            if worker.state.load(Ordering::Acquire) != WAITS {
                // ORDER: Relaxed, here and below; counts that are read after all have ended.
                worker.skipped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            worker.wakes.fetch_add(1, Ordering::Relaxed);
            // ORDER: Release, so that the worker that takes the wake sees the count.
            worker.state.store(self.now(), Ordering::Release);
            wake(place);
        }
    }

    /// Takes a worker's wake and does the work. Returns how late it began, in nanoseconds, or `None` if the
    /// worker was not woken.
    pub(super) fn work(&self, place: usize) -> Option<u64> {
        let worker = &self.workers[place];
        let seen = worker.state.load(Ordering::Acquire);
        if seen == WAITS || seen == WORKS {
            return None;
        }
        // ORDER: AcqRel; exactly one caller takes a wake. If two did, the counts would differ at the end.
        worker.state.swap(WORKS, Ordering::AcqRel);
        let late = self.now() - seen;
        worker.runs.fetch_add(1, Ordering::Relaxed);
        compute(self.steps);
        worker.state.store(WAITS, Ordering::Release);
        Some(late)
    }

    /// Whether no worker of a messenger has anything left to do.
    pub(super) fn all_wait(&self, messenger: usize) -> bool {
        let mut all = self.workers_of(messenger);
        all.all(|place| self.workers[place].state.load(Ordering::Acquire) == WAITS)
    }

    /// Called when a messenger stops waiting. A worker that has not run by now has lost its wake. The next
    /// wake only ends it, but would also do that work.
    fn note_lost(&self, messenger: usize) {
        if !self.all_wait(messenger) {
            // ORDER: Relaxed; like all counts, read after all have ended.
            self.lost.store(true, Ordering::Relaxed);
        }
    }

    /// A messenger, as a task. `sleep` is its runtime's.
    pub(super) async fn messenger<S: Future<Output = ()>>(
        &self,
        number: usize,
        sleep: impl Fn(Instant) -> S,
    ) {
        for burst in 0..self.bursts {
            sleep(self.due(number, burst)).await;
            self.wake_all(number, |place| self.workers[place].waker.wake());
        }
        let last = Instant::now();
        while !self.all_wait(number) && last.elapsed() < LOST {
            sleep(Instant::now() + PERIOD).await;
        }
        self.note_lost(number);
        for place in self.workers_of(number) {
            // ORDER: Release; its worker is woken after it.
            self.workers[place].ends.store(true, Ordering::Release);
            self.workers[place].waker.wake();
        }
    }

    /// A worker, as a task: runs until its messenger ends, and returns how late each run began.
    pub(super) async fn worker(&self, place: usize) -> Samples {
        let mut late = Samples::with_room_for(self.bursts);
        let mut working = pin!(async {
            while let Some(ns) = poll_fn(|cx| self.poll_wake(place, cx)).await {
                late.record(ns);
            }
        });
        poll_fn(|cx| {
            self.workers[place].polls.fetch_add(1, Ordering::Relaxed);
            working.as_mut().poll(cx)
        })
        .await;
        late
    }

    /// Does the work of a wake. At the end it is ready without one.
    fn poll_wake(&self, place: usize, cx: &Context<'_>) -> Poll<Option<u64>> {
        let worker = &self.workers[place];
        worker.waker.register(cx.waker());
        let ends = worker.ends.load(Ordering::Acquire);
        match self.work(place) {
            Some(late) => Poll::Ready(Some(late)),
            None if ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// The number of wakes and of skipped ones, once all workers have ended.
    pub(super) fn counted(&self) -> Result<[u64; 2]> {
        // ORDER: Relaxed; as for the counts below.
        if self.lost.load(Ordering::Relaxed) {
            bail!(TASK_LOST);
        }
        let mut sums = [0; 2];
        for worker in &self.workers {
            let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
            let (wakes, runs) = (read(&worker.wakes), read(&worker.runs));
            check_count("runs of a worker", wakes, runs)?;
            // One at the start, and one for the request to end.
            let polls = read(&worker.polls);
            if polls > wakes + 2 {
                check_count("polls of a worker", wakes, polls)?;
            }
            sums[0] += wakes;
            sums[1] += read(&worker.skipped);
        }
        Ok(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three workers for each messenger.
    fn board() -> Board {
        Board::new(3, 5, 1, 7)
    }

    #[test]
    fn a_wake_is_done_once_and_a_busy_worker_is_skipped() {
        let board = board();
        assert_eq!(board.work(3), None);
        for _ in 0..2 {
            board.wake_all(1, |_| {});
        }
        assert!(!board.all_wait(1) && board.all_wait(0));
        for place in 3..6 {
            assert!(board.work(place).is_some());
            assert_eq!(board.work(place), None);
        }
        assert!(board.all_wait(1));
        assert_eq!(board.counted().expect("they add up"), [3, 3]);
    }

    #[test]
    fn a_wake_that_only_the_end_makes_up_for_is_lost() {
        let board = board();
        board.wake_all(0, |_| {});
        board.note_lost(1);
        assert!(
            board
                .counted()
                .is_err_and(|error| error.to_string().contains("runs of a worker"))
        );
        board.note_lost(0);
        for place in 0..3 {
            assert!(board.work(place).is_some());
        }
        assert!(
            board
                .counted()
                .is_err_and(|error| error.to_string() == TASK_LOST)
        );
    }

    #[test]
    fn lost_wakes_and_polls_without_one_are_errors() {
        let lost = board();
        lost.wake_all(0, |_| {});
        let error = lost.counted().expect_err("nobody ran").to_string();
        assert_eq!(error, "1 runs of a worker were due, but there were 0");
        let polled = board();
        polled.workers[2].polls.store(3, Ordering::Relaxed);
        let error = polled.counted().expect_err("nobody was woken").to_string();
        assert_eq!(error, "0 polls of a worker were due, but there were 3");
    }

    #[test]
    fn phases_depend_on_the_seed_alone() {
        let phases = |seed| {
            let board = Board::new(1, 1, 1, seed);
            let of = |number| board.due(number, 0) - board.began;
            (0..8).map(of).collect::<Vec<_>>()
        };
        assert_eq!(phases(1), phases(1));
        assert_ne!(phases(1), phases(2));
        let range = BEGINS_IN..BEGINS_IN + PERIOD;
        assert!(phases(1).iter().all(|phase| range.contains(phase)));
    }
}
