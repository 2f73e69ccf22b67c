//! The limit: one ring buffer per producer, which only that producer writes, and a consumer that polls all
//! of them.
//!
//! Nothing is allocated, no word has two writers, and no thread is woken: the consumer spins. After finding
//! few posts it pauses, so that a cache line moves from producer to consumer once for many posts.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use super::counts::{AHEAD_MAX, Counts, LOOK_EVERY, PRODUCERS_MAX};
use super::targets::{Gone, Poster, Target};
use crate::error::LabError;
use crate::measure::spawn_pinned;

const THREAD: &str = "flood-rings";
/// Slots of a ring buffer: a power of two, larger than a producer can be ahead, so none is ever full.
const PLACES: usize = 1 << 14;
const _: () = assert!(PLACES as u64 > AHEAD_MAX + LOOK_EVERY);

/// The consumer pauses after finding fewer posts than this.
const FEW: u64 = 1_000;
/// The length of a pause, in calls of `spin_loop`. Of several lengths tried, longer ones gain nothing more.
const PAUSES: u32 = 64;

/// How many posts a producer has written, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Written(AtomicU64);

/// The posts of one producer; each is the producer's number.
#[derive(Debug)]
struct Ring {
    written: Written,
    places: Box<[AtomicU32; PLACES]>,
}

impl Ring {
    fn new() -> Self {
        let places: Vec<_> = (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        let places: Result<Box<[_; PLACES]>, _> = places.try_into();
        Self {
            written: Written::default(),
            places: places.unwrap_or_else(|_| unreachable!("so many were made")),
        }
    }

    fn place(&self, number: u64) -> &AtomicU32 {
        &self.places[number as usize % PLACES]
    }

    /// Writes the post with this number. Called only by the single producer.
    #[inline]
    fn write(&self, number: u64, post: usize) {
        // ORDER: Relaxed; the store below publishes it, and the slot was read before its producer could
        // come this far.
        self.place(number).store(post as u32, Ordering::Relaxed);
        // ORDER: Release publishes the slot; pairs with the Acquire of `read`.
        self.written.0.store(number + 1, Ordering::Release);
    }

    /// Reads all posts from number `from` on, and returns the number of the next one. Called only by the
    /// single consumer.
    #[inline]
    fn read(&self, from: u64, one: &mut impl FnMut(usize)) -> u64 {
        // ORDER: Acquire pairs with the Release of `write`.
        let written = self.written.0.load(Ordering::Acquire);
        for number in from..written {
            // ORDER: Relaxed; acquired above.
            one(self.place(number).load(Ordering::Relaxed) as usize);
        }
        written
    }
}

#[derive(Debug)]
struct Shared {
    rings: Vec<Ring>,
    /// How many ring buffers have a producer.
    used: AtomicUsize,
    stop: AtomicBool,
}

impl Shared {
    fn new() -> Self {
        Self {
            rings: (0..PRODUCERS_MAX).map(|_| Ring::new()).collect(),
            used: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Reads the posts of each ring buffer from where `read` says. Returns how many posts there were.
    fn take(&self, read: &mut [u64; PRODUCERS_MAX], mut one: impl FnMut(usize)) -> u64 {
        // ORDER: Relaxed; a ring buffer that is not visible yet becomes so later. It was created before the
        // thread.
        let used = self.used.load(Ordering::Relaxed);
        let mut found = 0;
        for (ring, from) in self.rings[..used].iter().zip(read) {
            let next = ring.read(*from, &mut one);
            found += next - *from;
            *from = next;
        }
        found
    }
}

/// The ring buffers, and the thread that empties them.
#[derive(Debug)]
pub(super) struct Rings {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// A producer.
#[derive(Debug)]
pub(super) struct RingPoster {
    shared: Arc<Shared>,
    producer: usize,
    posted: u64,
}

impl Poster for RingPoster {
    #[inline]
    fn post(&mut self) -> Result<(), Gone> {
        self.shared.rings[self.producer].write(self.posted, self.producer);
        self.posted += 1;
        Ok(())
    }
}

impl Target for Rings {
    const NAME: &'static str = "SPSC rings";
    const WHAT: &'static str = "to a spinning thread";
    type Poster = RingPoster;

    fn start(cpu: usize, counts: &'static Counts) -> Result<Self, LabError> {
        let shared = Arc::new(Shared::new());
        let taken = Arc::clone(&shared);
        let thread = spawn_pinned(THREAD, cpu, move || {
            let mut read = [0; PRODUCERS_MAX];
            loop {
                let found = taken.take(&mut read, |producer| counts.one_done(producer));
                // ORDER: Relaxed; a flag that publishes nothing. Producers have ended before it is set.
                if found == 0 && taken.stop.load(Ordering::Relaxed) {
                    return;
                }
                if found < FEW {
                    (0..PAUSES).for_each(|_| hint::spin_loop());
                }
            }
        })?;
        Ok(Self { shared, thread })
    }

    fn poster(&self, producer: usize) -> Self::Poster {
        // ORDER: Relaxed; as where it is read.
        self.shared.used.fetch_max(producer + 1, Ordering::Relaxed);
        RingPoster {
            shared: Arc::clone(&self.shared),
            producer,
            posted: 0,
        }
    }

    fn stop(self) -> Result<(), LabError> {
        // ORDER: Relaxed; as where it is read.
        self.shared.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.join();
        joined.map_err(|_| LabError::ThreadPanicked { thread: THREAD })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_once_in_order_also_around_the_end() {
        let shared = Shared::new();
        shared.used.store(2, Ordering::Relaxed);
        let mut read = [0; PRODUCERS_MAX];
        assert_eq!(shared.take(&mut read, |_| panic!("it is empty")), 0);
        for number in 0..PLACES as u64 + 2 {
            shared.rings[0].write(number, number as usize);
            shared.rings[1].write(number, 7);
            let mut posts = Vec::new();
            assert_eq!(shared.take(&mut read, |post| posts.push(post)), 2);
            assert_eq!(posts, [number as usize, 7]);
        }
        assert_eq!(shared.take(&mut read, |_| panic!("it is empty again")), 0);
    }
}
