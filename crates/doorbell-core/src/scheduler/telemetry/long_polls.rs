//! The last long polls of a worker. The worker writes them, any thread reads them, without a lock.
//!
//! A slot has a version, which is odd while the slot is written. The other fields are stored with Release and loaded
//! with Acquire: a reader that sees any field of a later poll also sees that poll's odd version, or a still later
//! one, and discards what it read.

use doorbell_machine::{Counter, Machine, Ordering, Word};
use std::time::Duration;

/// How many long polls are kept.
const KEPT: usize = 8;

/// How many bytes of a task's name are kept.
const NAME_BYTES: usize = 32;

const NAME_WORDS: usize = NAME_BYTES / 8;

/// Attempts to read a slot that the worker writes meanwhile. Few are enough, because long polls are rare.
const READS: usize = 3;

/// A poll that took longer than [`TelemetryPlan::long_poll_ns`](super::TelemetryPlan::long_poll_ns).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongPoll {
    name: String,
    duration: Duration,
}

impl LongPoll {
    /// The name of the task, cut to at most 32 bytes between two characters; `unnamed` if it has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long the poll took.
    pub fn duration(&self) -> Duration {
        self.duration
    }
}

/// The part of a name that is kept.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

struct PollSlot<M: Machine> {
    /// 0 if the slot is empty. Poll n, counted from 0, has the version `2 n + 1` while it is written, then `2 n + 2`.
    version: M::U64,
    duration_ns: M::U64,
    name_len: M::U64,
    name: [M::U64; NAME_WORDS],
}

impl<M: Machine> PollSlot<M> {
    fn new() -> Self {
        PollSlot {
            version: M::U64::new(0),
            duration_ns: M::U64::new(0),
            name_len: M::U64::new(0),
            name: std::array::from_fn(|_| M::U64::new(0)),
        }
    }

    fn write(&self, number: u64, name: &str, duration_ns: u64) {
        let mut bytes = [0; NAME_BYTES];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        // ORDER: Relaxed; the Release of each store below brings it to a reader that sees that store.
        self.version.store(2 * number + 1, Ordering::Relaxed);
        // ORDER: Release pairs with the Acquire in `read`, which then sees the odd version.
        self.duration_ns.store(duration_ns, Ordering::Release);
        // ORDER: Release, as above.
        self.name_len.store(name.len() as u64, Ordering::Release);
        for (word, bytes) in self.name.iter().zip(bytes.as_chunks().0) {
            // ORDER: Release, as above.
            word.store(u64::from_ne_bytes(*bytes), Ordering::Release);
        }
        // ORDER: Release pairs with the first Acquire in `read`, which then sees all of it.
        self.version.store(2 * number + 2, Ordering::Release);
    }

    /// The poll in the slot and its version. `None` if the slot is empty, or was written meanwhile.
    fn read(&self) -> Option<(u64, LongPoll)> {
        // ORDER: Acquire pairs with the last Release in `write`.
        let version = self.version.load(Ordering::Acquire);
        if version == 0 || version % 2 == 1 {
            return None;
        }
        // ORDER: Acquire pairs with the Release in `write`: a field newer than the version read
        // above brings its own version, which the last load sees.
        let duration_ns = self.duration_ns.load(Ordering::Acquire);
        // ORDER: Acquire, as above.
        let len = self.name_len.load(Ordering::Acquire) as usize;
        let mut bytes = [0; NAME_BYTES];
        for (word, bytes) in self.name.iter().zip(bytes.as_chunks_mut().0) {
            // ORDER: Acquire, as above.
            *bytes = word.load(Ordering::Acquire).to_ne_bytes();
        }
        // ORDER: Relaxed; the Acquires above keep it after them.
        if self.version.load(Ordering::Relaxed) != version {
            return None;
        }
        let name = String::from_utf8_lossy(&bytes[..len.min(NAME_BYTES)]).into_owned();
        let duration = Duration::from_nanos(duration_ns);
        Some((version, LongPoll { name, duration }))
    }
}

/// The last long polls of one worker, and how many there were.
pub(super) struct LongPolls<M: Machine> {
    count: M::Counter,
    slots: Box<[PollSlot<M>]>,
}

impl<M: Machine> Default for LongPolls<M> {
    fn default() -> Self {
        let kept = if M::MODEL { 1 } else { KEPT };
        LongPolls {
            count: M::Counter::default(),
            slots: (0..kept).map(|_| PollSlot::new()).collect(),
        }
    }
}

impl<M: Machine> LongPolls<M> {
    /// Keeps a long poll in place of the oldest one. Called only by the worker.
    #[cold]
    pub(super) fn note(&self, name: Option<&str>, duration_ns: u64) {
        let number = self.count.get();
        let slot = &self.slots[(number % self.slots.len() as u64) as usize];
        slot.write(number, cut(name.unwrap_or("unnamed")), duration_ns);
        self.count.set(number + 1);
    }

    /// How many long polls there were.
    pub(super) fn count(&self) -> u64 {
        self.count.get()
    }

    /// The last long polls, oldest first. A poll that the worker writes meanwhile may be missing.
    pub(super) fn last(&self) -> Vec<LongPoll> {
        let read = |slot: &PollSlot<M>| (0..READS).find_map(|_| slot.read());
        let mut last: Vec<(u64, LongPoll)> = self.slots.iter().filter_map(read).collect();
        last.sort_by_key(|(version, _)| *version);
        last.into_iter().map(|(_, poll)| poll).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, LongPolls, cut};
    use doorbell_machine::Host;

    #[test]
    fn the_last_ones_are_kept_oldest_first() {
        let polls = LongPolls::<Host>::default();
        assert!(polls.last().is_empty());
        polls.note(None, 7);
        assert_eq!(polls.last()[0].name(), "unnamed");
        for i in 0..20 {
            polls.note(Some(&format!("poll {i}")), i);
        }
        let last = polls.last();
        assert_eq!((polls.count(), last.len()), (21, KEPT));
        for (poll, i) in last.iter().zip(12_u64..) {
            assert_eq!(poll.name(), format!("poll {i}"));
            assert_eq!(poll.duration().as_nanos(), u128::from(i));
        }
    }

    #[test]
    fn a_long_name_is_cut_between_letters() {
        assert_eq!(cut(&"x".repeat(40)), "x".repeat(32));
        assert_eq!(cut(&"ä".repeat(16)), "ä".repeat(16));
        let odd = format!("x{}", "ä".repeat(16));
        assert_eq!(cut(&odd), format!("x{}", "ä".repeat(15)));
        let polls = LongPolls::<Host>::default();
        polls.note(Some(&odd), 1);
        assert_eq!(polls.last()[0].name(), cut(&odd));
    }
}

#[cfg(test)]
mod loom {
    use super::LongPolls;
    use crate::testing::model::check;
    use ::loom::thread;
    use doorbell_machine::Loom;
    use std::sync::Arc;

    #[test]
    fn a_reader_never_sees_half_a_poll() {
        check(|| {
            let polls = Arc::new(LongPolls::<Loom>::default());
            let theirs = Arc::clone(&polls);
            let worker = thread::spawn(move || {
                theirs.note(Some("a"), 1);
                theirs.note(Some("bbbbbbbbbb"), 10);
            });
            // One read: `last` would read again, which makes the model large and shows no more.
            if let Some((_, poll)) = polls.slots[0].read() {
                let whole = match poll.duration().as_nanos() {
                    1 => "a",
                    _ => "bbbbbbbbbb",
                };
                assert_eq!(poll.name(), whole);
            }
            worker.join().unwrap();
            assert_eq!(polls.last()[0].name(), "bbbbbbbbbb");
        });
    }
}
