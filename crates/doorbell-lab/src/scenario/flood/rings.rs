//! The limit: one ring buffer per producer, which only that producer writes, and a consumer that polls all
//! of them.
//!
//! Nothing is allocated, no word has two writers, and no thread is woken: the consumer spins. After finding
//! few posts it pauses, so that a cache line moves from producer to consumer once for many posts.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::Result;
use crossbeam_utils::CachePadded;

use super::targets::Consumer;
use super::{AHEAD_MAX, Counts, LOOK_EVERY};
use crate::peers::{join, thread_on};
use crate::tools::End;

pub(super) const NAME: &str = "SPSC rings";

/// Slots of a ring buffer: a power of two, larger than a producer can be ahead, so none is ever full.
const PLACES: usize = 1 << 14;
const _: () = assert!(PLACES as u64 > AHEAD_MAX + LOOK_EVERY);

/// The consumer pauses after finding fewer posts than this.
const FEW: u64 = 1_000;
/// The length of a pause, in calls of `spin_loop`. Of several lengths tried, longer ones gain nothing more.
const PAUSES: u32 = 64;

/// The posts of one producer; each is the producer's number.
#[derive(Debug)]
struct Ring {
    /// How many it has written.
    written: CachePadded<AtomicU64>,
    places: Box<[AtomicU32]>,
}

impl Ring {
    fn new() -> Self {
        Self {
            written: CachePadded::default(),
            places: (0..PLACES).map(|_| AtomicU32::new(0)).collect(),
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
        self.written.store(number + 1, Ordering::Release);
    }

    /// Reads all posts from number `from` on, and returns the number of the next one. Called only by the
    /// single consumer.
    #[inline]
    fn read(&self, from: u64, one: &mut impl FnMut(usize)) -> u64 {
        // ORDER: Acquire pairs with the Release of `write`.
        let written = self.written.load(Ordering::Acquire);
        for number in from..written {
            // ORDER: Relaxed; acquired above.
            one(self.place(number).load(Ordering::Relaxed) as usize);
        }
        written
    }
}

/// Reads the posts of each ring buffer from where `read` says. Returns how many posts there were.
fn take(rings: &[Ring], read: &mut [u64], mut one: impl FnMut(usize)) -> u64 {
    let mut found = 0;
    for (ring, from) in rings.iter().zip(read) {
        let next = ring.read(*from, &mut one);
        found += next - *from;
        *from = next;
    }
    found
}

pub(super) fn start(cpu: usize, producers: usize, counts: &'static Counts) -> Result<Consumer> {
    let rings: Arc<[Ring]> = (0..producers).map(|_| Ring::new()).collect();
    let (end, theirs) = (Arc::new(End::default()), Arc::clone(&rings));
    let ended = Arc::clone(&end);
    let thread = thread_on("flood-rings", Some(cpu), move || {
        let mut read = vec![0; theirs.len()];
        loop {
            let found = take(&theirs, &mut read, |producer| counts.one_done(producer));
            // Producers have ended before it is asked for.
            if found == 0 && ended.is_asked() {
                return;
            }
            if found < FEW {
                (0..PAUSES).for_each(|_| hint::spin_loop());
            }
        }
    })?;
    Ok(Consumer {
        poster: Box::new(move |producer| {
            let (rings, mut posted) = (Arc::clone(&rings), 0);
            Box::new(move |count| {
                let ring = &rings[producer];
                (0..count).for_each(|place| ring.write(posted + place, producer));
                posted += count;
                Ok(())
            })
        }),
        stop: Box::new(move || {
            end.ask();
            join(thread)
        }),
    })
}
