//! What workloads are made of, the same for all peers.

use std::future::poll_fn;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::task::AtomicWaker;

use crate::error::{TASK_LOST, check_count, panicked};
use crate::frame::Outcome;
use crate::measure::Samples;
use crate::peers::{Peer, Role, let_others_run};

/// The steps of a sample, and how often it is taken.
const SAMPLE: u64 = 1_000_000;
const TRIES: usize = 5;
/// How long one waits at a meeting before it lets others run.
const PATIENCE: Duration = Duration::from_micros(200);

/// How many steps take this long on an undisturbed CPU, by what a sample takes at the first question. A fixed amount of
/// work, not of time: when it is interrupted it takes longer.
pub(crate) fn steps_for(span: Duration) -> u64 {
    static SAMPLE_S: LazyLock<f64> = LazyLock::new(|| {
        let took_s = |_| {
            let start = Instant::now();
            compute(SAMPLE);
            start.elapsed().as_secs_f64()
        };
        (0..TRIES).map(took_s).fold(1.0, f64::min)
    });
    (span.as_secs_f64() / SAMPLE_S.max(1e-9) * SAMPLE as f64) as u64 + 1
}

/// "1 pair", "2 pairs".
pub(crate) fn counted_noun(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Computes.
pub(crate) fn compute(steps: u64) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

/// Keeps the CPU for this long.
pub(crate) fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        spin_loop();
    }
}

/// The value behind a lock. A panic elsewhere cannot leave it half written.
pub(crate) fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request to end. It publishes nothing else and may be seen late.
#[derive(Debug, Default)]
pub(crate) struct End(AtomicBool);

impl End {
    pub(crate) fn ask(&self) {
        // ORDER: Relaxed; the request publishes nothing.
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        // ORDER: Relaxed; as where it is set.
        self.0.load(Ordering::Relaxed)
    }
}

/// Does something beside threads that repeat something else. How often all of them did, and what was found.
pub(crate) fn beside_threads<R, F: FnMut() -> Result<()>>(
    (name, threads): (&'static str, usize),
    begin: impl Fn() -> Result<F> + Sync,
    during: impl FnOnce() -> R,
) -> Result<(u64, R)> {
    let end = End::default();
    let repeat = || {
        let (mut once, mut count) = (begin()?, 0_u64);
        while !end.is_asked() {
            once()?;
            count += 1;
        }
        Ok(count)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(repeat)).collect();
        let found = during();
        end.ask();
        let panicked = |_| panicked(name);
        let counts = threads.into_iter();
        let counts = counts.map(|thread| thread.join().map_err(panicked)?);
        Ok((counts.sum::<Result<u64>>()?, found))
    })
}

/// What is counted of a peer's wakes, and of how many operations.
const WAKES: [(&str, f64); 3] = [
    ("rings_per_op", 1.0),
    ("stacked_per_1k", 1e3),
    ("claims_lost_per_1k", 1e3),
];

/// Runs on a peer, and adds what it counts of its wakes meanwhile.
pub(crate) fn counted<P: Peer>(
    peer: &mut P,
    run: impl FnOnce(&mut P) -> Result<Outcome>,
) -> Result<Outcome> {
    let before = peer.counts();
    let outcome = run(peer)?;
    let operations = outcome.operations.max(1) as f64;
    let both = before.zip(peer.counts()).into_iter();
    let each = both.flat_map(|(then, now)| now.into_iter().zip(then).zip(WAKES));
    let figures =
        each.map(|((now, then), (name, of))| (name, of * (now - then) as f64 / operations));
    Ok(outcome.and(figures))
}

/// Tasks whose results are gathered.
#[derive(Debug)]
pub(crate) struct Crew<T> {
    done: Sender<T>,
    results: Receiver<T>,
    count: usize,
}

impl<T> Crew<T> {
    pub(crate) fn new() -> Self {
        let (done, results) = mpsc::channel();
        Self {
            done,
            results,
            count: 0,
        }
    }

    /// A task that does this.
    pub(crate) fn member<F: Future<Output = T>>(
        &mut self,
        task: F,
    ) -> impl Future<Output = ()> + use<T, F> {
        self.count += 1;
        let done = self.done.clone();
        async move {
            let found = task.await;
            // The receiver is gone only if the waiting thread has panicked or given up.
            let _ = done.send(found);
        }
    }

    /// How a further result is told.
    pub(crate) fn teller(&mut self) -> Sender<T> {
        self.count += 1;
        self.done.clone()
    }

    /// The results, in the order in which they came.
    pub(crate) fn gather(self) -> Result<Vec<T>> {
        drop(self.done);
        let next = |_| self.results.recv().ok().context(TASK_LOST);
        (0..self.count).map(next).collect()
    }
}

/// Spawns tasks, and gathers what they found.
pub(crate) fn run_all<P: Peer, F: Future<Output: Send> + Send + 'static>(
    peer: &mut P,
    tasks: impl IntoIterator<Item = (Role, F)>,
) -> Result<Vec<F::Output>> {
    let mut crew = Crew::new();
    for (role, task) in tasks {
        peer.spawn_as(role, crew.member(task))?;
    }
    crew.gather()
}

/// A place for one value, by which one task or thread wakes another. It belongs to no runtime.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    /// The value, and whether the end comes after it.
    inside: Mutex<(Option<T>, bool)>,
    taker: AtomicWaker,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self {
            inside: Mutex::new((None, false)),
            taker: AtomicWaker::new(),
        }
    }
}

impl<T> Slot<T> {
    /// Puts a value there, if there is room, and wakes the taker.
    pub(crate) fn put(&self, value: T) -> bool {
        let mut inside = locked(&self.inside);
        let has_room = inside.0.is_none();
        if has_room {
            inside.0 = Some(value);
        }
        drop(inside);
        self.taker.wake();
        has_room
    }

    /// The value that waits to be taken.
    pub(crate) fn peek(&self) -> Option<T>
    where
        T: Copy,
    {
        locked(&self.inside).0
    }

    /// Takes it without waiting.
    pub(crate) fn empty(&self) {
        locked(&self.inside).0 = None;
    }

    /// No value comes any more.
    pub(crate) fn close(&self) {
        locked(&self.inside).1 = true;
        self.taker.wake();
    }

    /// Waits for a value, and takes it; `None` is the end.
    pub(crate) async fn take(&self) -> Option<T> {
        self.when_filled(Option::take).await
    }

    /// Waits for a value, and leaves it there; `None` is the end.
    pub(crate) async fn look(&self) -> Option<T>
    where
        T: Copy,
    {
        self.when_filled(|value| *value).await
    }

    async fn when_filled(&self, get: impl Fn(&mut Option<T>) -> Option<T>) -> Option<T> {
        poll_fn(|cx| {
            // Registered before it looks, so that a value that comes after the look wakes it.
            self.taker.register(cx.waker());
            let mut inside = locked(&self.inside);
            match get(&mut inside.0) {
                None if !inside.1 => Poll::Pending,
                value => Poll::Ready(value),
            }
        })
        .await
    }
}

/// Tasks that go on at the same time on different threads.
#[derive(Debug)]
pub(crate) struct Meeting {
    expected: u32,
    here: AtomicU32,
}

impl Meeting {
    pub(crate) fn of(expected: u32) -> Self {
        Self {
            expected,
            here: AtomicU32::new(0),
        }
    }

    /// Waits for all, on its CPU; now and then it lets others run there.
    pub(crate) async fn arrive(&self) {
        loop {
            // ORDER: Relaxed, here and below; a count that publishes nothing else.
            self.here.fetch_add(1, Ordering::Relaxed);
            let since = Instant::now();
            while since.elapsed() < PATIENCE {
                if self.here.load(Ordering::Relaxed) == self.expected {
                    return;
                }
                spin_loop();
            }
            let leave = |here| (here < self.expected).then(|| here - 1);
            let relaxed = Ordering::Relaxed;
            if self.here.try_update(relaxed, relaxed, leave).is_err() {
                return;
            }
            let_others_run().await;
        }
    }
}

/// The lateness of timers.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    late: Samples,
    early: u64,
}

impl Lateness {
    pub(crate) fn note(&mut self, due: Instant, now: Instant) {
        match now.checked_duration_since(due) {
            Some(late) => self.late.record(late.as_nanos() as u64),
            None => self.early += 1,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.late.add(&other.late);
        self.early += other.early;
    }

    pub(crate) fn count(&self) -> u64 {
        self.late.len() as u64 + self.early
    }

    pub(crate) fn into_outcome(self) -> Outcome {
        Outcome::of(self.count(), [("early_count", self.early as f64)]).late(self.late)
    }

    /// Of all of them; an error if they are not as many as were due.
    pub(crate) fn outcome_of(all: &[Self], what: &'static str, expected: u64) -> Result<Outcome> {
        let mut sum = Self::default();
        for one in all {
            sum.add(one);
        }
        check_count(what, expected, sum.count())?;
        Ok(sum.into_outcome())
    }
}

/// Pseudo-random numbers, the same in every run.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to 1, exclusive.
    pub(crate) fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.part() * (high - low)
    }

    /// Evenly on a logarithmic scale.
    pub(crate) fn log_between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.part())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn one_value_has_room_and_the_end_comes_after_it() {
        let slot = Slot::default();
        assert!(slot.put(1) && !slot.put(2));
        slot.close();
        assert_eq!(slot.take().now_or_never(), Some(Some(1)));
        assert_eq!(slot.take().now_or_never(), Some(None));
        assert_eq!(Slot::<u8>::default().take().now_or_never(), None);
    }

    #[test]
    fn what_is_early_is_counted() {
        let (due, mut late) = (Instant::now(), Lateness::default());
        late.note(due, due + Duration::from_micros(3));
        late.note(due + Duration::from_micros(3), due);
        let error = Lateness::outcome_of(&[], "ticks", 7).expect_err("seven are missing");
        assert_eq!(error.to_string(), "7 ticks were due, but there were 0");
        let outcome = Lateness::outcome_of(&[late], "ticks", 2).expect("none is missing");
        assert_eq!((outcome.operations, outcome.late.len()), (2, 1));
        assert!((outcome.figures["early_count"] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn random_numbers_are_the_same_every_time() {
        let three = |seed| {
            [(); 3]
                .map(|()| seed)
                .map(|seed| Random::seeded(seed).between(1.0, 2.0))
        };
        assert_eq!(three(5).map(f64::to_bits), three(5).map(f64::to_bits));
        assert!(three(5).iter().all(|number| (1.0..2.0).contains(number)));
        let mut random = Random::seeded(1);
        assert!((0..100).all(|_| (0.01..1.0).contains(&random.log_between(0.01, 1.0))));
    }
}
