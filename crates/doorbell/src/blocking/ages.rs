//! How long the oldest closure of the queue has waited, without a lock.

use doorbell_machine::{Counter, Machine, Ordering, Word};

/// Times of submission that are kept.
const KEPT: u64 = 1_024;

/// When each of the last closures was submitted, and how many have left the queue.
///
/// | bits | what |
/// |---|---|
/// | 0..16 | the number of the closure, its low bits |
/// | 16..64 | when it was submitted, in microseconds |
pub(super) struct Ages<M: Machine> {
    slots: Box<[M::U64]>,
    sent: M::Counter,
    left: M::Counter,
}

const NUMBERS: u64 = 1 << 16;
const _: () = assert!(KEPT < NUMBERS / 4);

impl<M: Machine> Ages<M> {
    pub(super) fn new() -> Self {
        Ages {
            slots: (0..KEPT).map(|_| M::U64::new(0)).collect(),
            sent: M::Counter::default(),
            left: M::Counter::default(),
        }
    }

    /// A closure is about to be queued.
    pub(super) fn note_sent(&self, now_ns: u64) {
        let number = self.sent.add_shared(1);
        let word = now_ns / 1_000 * NUMBERS + number % NUMBERS;
        // ORDER: Relaxed; a number, for people to read.
        self.slots[(number % KEPT) as usize].store(word, Ordering::Relaxed);
    }

    /// A closure has left the queue.
    pub(super) fn note_left(&self) {
        self.left.add_shared(1);
    }

    /// For how many nanoseconds the oldest closure has waited. If more than [`KEPT`] wait, how long at least.
    pub(super) fn oldest_ns(&self, now_ns: u64) -> u64 {
        let number = self.left.get();
        // ORDER: Relaxed, as in `note_sent`.
        let word = self.slots[(number % KEPT) as usize].load(Ordering::Relaxed);
        let ahead = (word % NUMBERS).wrapping_sub(number) % NUMBERS;
        if ahead >= NUMBERS / 2 {
            // It has been counted, and its time is not there yet.
            return 0;
        }
        (now_ns / 1_000).saturating_sub(word / NUMBERS) * 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::{Ages, KEPT};
    use doorbell_machine::Host;

    const MS: u64 = 1_000_000;

    #[test]
    fn s11_the_oldest_closure_is_the_next_that_leaves_the_queue() {
        let ages = Ages::<Host>::new();
        for at_ms in [10, 20, 30] {
            ages.note_sent(at_ms * MS);
        }
        assert_eq!(ages.oldest_ns(50 * MS), 40 * MS);
        ages.note_left();
        assert_eq!(ages.oldest_ns(50 * MS), 30 * MS);
        ages.note_left();
        assert_eq!(ages.oldest_ns(50 * MS), 20 * MS);
        ages.note_left();
        // Counted, and not noted yet.
        assert_eq!(ages.oldest_ns(50 * MS), 0);
    }

    #[test]
    fn of_a_longer_queue_it_says_at_least() {
        let ages = Ages::<Host>::new();
        for number in 0..=KEPT {
            ages.note_sent(number * MS);
        }
        let now_ns = 2 * KEPT * MS;
        assert_eq!(ages.oldest_ns(now_ns), KEPT * MS);
        ages.note_left();
        assert_eq!(ages.oldest_ns(now_ns), (2 * KEPT - 1) * MS);
    }
}
