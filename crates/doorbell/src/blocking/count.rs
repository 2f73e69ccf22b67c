//! The number of queued closures and of threads, in one word, so that every decision sees all counts of one
//! moment.
//!
//! A thread is *idle* if it runs no closure: it waits for one, is about to take one, or is being started. Two
//! rules keep every queued closure from waiting in vain:
//!
//! * *a closure is queued ⇒ there are at least as many idle threads as queued closures, or as many threads as
//!   allowed; or the OS refused a thread, and a task and the threads ask again (`retry.rs`)*;
//! * *a thread leaves ⇒ the other idle threads suffice for the queued closures*.

use doorbell_machine::{Machine, Ordering, Word};

const QUEUED: u64 = 1;
const IDLE: u64 = 1 << 31;
const THREADS: u64 = 1 << 47;
const CLOSED: u64 = 1 << 63;

/// The most threads that the word can count.
pub(super) const THREADS_MAX: usize = (1 << 16) - 1;

const _: () = assert!(THREADS / IDLE == THREADS_MAX as u64 + 1);
const _: () = assert!(CLOSED / THREADS == THREADS_MAX as u64 + 1);
const _: () = assert!(IDLE / QUEUED == 1 << 31);

/// The word with the counts.
///
/// | bits | what |
/// |---|---|
/// | 0..31 | queued: closures that were submitted and that no thread has taken |
/// | 31..47 | idle threads |
/// | 47..63 | threads |
/// | 63 | closed: no closure is submitted or begun any more |
#[derive(Debug)]
pub(super) struct Count<M: Machine>(M::U64);

/// The counts at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) queued: u64,
    pub(super) idle: u64,
    pub(super) threads: u64,
    pub(super) closed: bool,
}

impl Counts {
    fn lacks_thread(&self, threads_max: usize) -> bool {
        !self.closed && self.queued > self.idle && self.threads < threads_max as u64
    }
}

/// What the caller does with a closure after counting it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submit {
    /// The caller queues it. An existing thread will take it.
    Queued,
    /// The caller queues it and starts a thread, which is counted already.
    StartThread,
    /// The pool is closed, and the closure was not counted.
    Closed,
}

fn unpack(word: u64) -> Counts {
    Counts {
        queued: word % IDLE,
        idle: word / IDLE % (THREADS / IDLE),
        threads: word / THREADS % (CLOSED / THREADS),
        closed: word & CLOSED != 0,
    }
}

impl<M: Machine> Count<M> {
    pub(super) fn new() -> Self {
        Count(M::U64::new(0))
    }

    pub(super) fn get(&self) -> Counts {
        // ORDER: Acquire pairs with the Release of the read-modify-writes below: a thread that sees a count
        // sees what came before it.
        unpack(self.0.load(Ordering::Acquire))
    }

    /// Counts a closure that is about to be sent. If it needs a thread that may be started, counts that too.
    pub(super) fn submit(&self, threads_max: usize) -> Submit {
        let mut outcome = Submit::Closed;
        self.change(|now| {
            if now.closed {
                outcome = Submit::Closed;
                return None;
            }
            assert!(now.queued + 1 < IDLE, "2^31 closures wait already");
            let start = now.queued + 1 > now.idle && now.threads < threads_max as u64;
            outcome = if start {
                Submit::StartThread
            } else {
                Submit::Queued
            };
            Some(QUEUED + if start { IDLE + THREADS } else { 0 })
        });
        outcome
    }

    /// Whether a queued closure waits for a thread that may be started.
    pub(super) fn lacks_thread(&self, threads_max: usize) -> bool {
        self.get().lacks_thread(threads_max)
    }

    /// Counts a thread that is about to be started, if a queued closure needs one.
    #[must_use]
    pub(super) fn claim_thread(&self, threads_max: usize) -> bool {
        let mut lacks = false;
        self.change(|now| {
            lacks = now.lacks_thread(threads_max);
            lacks.then_some(IDLE + THREADS)
        });
        lacks
    }

    /// An idle thread has received a closure. `false` if the pool is closed: then it may not run the closure.
    #[must_use]
    pub(super) fn take(&self) -> bool {
        // ORDER: AcqRel; Acquire pairs with the Release of `close`.
        !unpack(self.0.fetch_sub(QUEUED + IDLE, Ordering::AcqRel)).closed
    }

    /// The thread is done with its closure and is idle again.
    pub(super) fn rest(&self) {
        // ORDER: AcqRel, as every change of the word.
        self.0.fetch_add(IDLE, Ordering::AcqRel);
    }

    /// The caller has received a closure and drops it.
    pub(super) fn dropped(&self) {
        // ORDER: AcqRel, as every change of the word.
        self.0.fetch_sub(QUEUED, Ordering::AcqRel);
    }

    /// An idle thread leaves, unless a queued closure needs it.
    #[must_use]
    pub(super) fn try_leave(&self) -> bool {
        let mut left = false;
        self.change(|now| {
            left = now.idle > now.queued;
            left.then_some((IDLE + THREADS).wrapping_neg())
        });
        left
    }

    /// An idle thread leaves unconditionally: the pool is closed, or the thread could not be started. Returns
    /// the counts afterwards.
    pub(super) fn leave(&self) -> Counts {
        // ORDER: AcqRel, as every change of the word.
        let before = self.0.fetch_sub(IDLE + THREADS, Ordering::AcqRel);
        unpack(before - IDLE - THREADS)
    }

    /// Closes the pool.
    pub(super) fn close(&self) {
        // ORDER: AcqRel; Release pairs with the Acquire of `take` and `is_closed_after_send`.
        self.0.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Whether the pool was closed, so that the thread that closed it may have missed the caller's send.
    ///
    /// This is a read-modify-write, so that it comes either before or after `close`: *`close` first ⇒ this
    /// sees it; this first ⇒ the thread that closes finds what was sent*.
    #[must_use]
    pub(super) fn is_closed_after_send(&self) -> bool {
        // ORDER: AcqRel; Release so that `close`, if it is later, sees the send.
        unpack(self.0.fetch_or(0, Ordering::AcqRel)).closed
    }

    /// Adds what `by` returns for the current counts, and retries if another thread has changed them
    /// meanwhile.
    fn change(&self, mut by: impl FnMut(Counts) -> Option<u64>) {
        // ORDER: Relaxed; the exchange below fails if the value is old.
        let mut seen = self.0.load(Ordering::Relaxed);
        while let Some(add) = by(unpack(seen)) {
            let new = seen.wrapping_add(add);
            // ORDER: AcqRel as every change of the word; Relaxed on failure, which only retries.
            let done = self
                .0
                .compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed);
            match done {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Counts, Submit};
    use doorbell_machine::Host;

    fn counts(queued: u64, idle: u64, threads: u64) -> Counts {
        Counts {
            queued,
            idle,
            threads,
            closed: false,
        }
    }

    #[test]
    fn a_thread_is_started_only_for_a_closure_that_nobody_will_take() {
        let count = Count::<Host>::new();
        assert_eq!(count.submit(2), Submit::StartThread);
        assert_eq!(count.get(), counts(1, 1, 1));
        assert!(count.take());
        count.rest();
        assert_eq!(count.submit(2), Submit::Queued, "the idle thread takes it");
        assert_eq!(count.submit(2), Submit::StartThread, "that one is taken");
        assert_eq!(count.submit(2), Submit::Queued, "no more threads");
        assert_eq!(count.get(), counts(3, 2, 2));
    }

    #[test]
    fn d5_an_idle_thread_is_counted_once_and_stays_for_what_counts_on_it() {
        let count = Count::<Host>::new();
        assert_eq!(count.submit(1), Submit::StartThread);
        // Its keep-alive ends while a closure is on its way: it may not leave.
        assert!(!count.try_leave());
        assert!(count.take());
        count.rest();
        assert_eq!(count.get(), counts(0, 1, 1));
        assert!(count.try_leave());
        assert_eq!(count.get(), counts(0, 0, 0));
    }

    #[test]
    fn d5_a_closed_pool_counts_down_to_nothing() {
        let count = Count::<Host>::new();
        assert_eq!(count.submit(8), Submit::StartThread);
        assert_eq!(count.submit(8), Submit::StartThread);
        count.close();
        assert!(count.is_closed_after_send());
        assert!(!count.take(), "received, and too late to begin");
        count.rest();
        count.dropped();
        assert_eq!(count.submit(8), Submit::Closed);
        assert_eq!(count.leave().threads, 1);
        let end = count.leave();
        assert_eq!((end.queued, end.idle, end.threads), (0, 0, 0));
        assert!(end.closed);
    }
}
