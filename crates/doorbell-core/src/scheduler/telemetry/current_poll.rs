//! The task that a worker polls now. The worker writes it, any thread reads it, without a lock.
//!
//! Each poll has its own number; between two polls the number is 0. The fields of a poll are stored with Release and
//! loaded with Acquire: a reader that sees any field of a later poll also sees that the number has changed, and
//! discards what it read.

use doorbell_machine::{Machine, Ordering, PtrWord, Word};
use std::panic::Location;
use std::ptr;

/// What a worker records of the task that it is about to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Polled {
    /// The number of the task.
    pub(crate) task: u64,
    /// The rank that it was launched with.
    pub(crate) rank: u8,
    pub(crate) spawned_at: &'static Location<'static>,
}

/// The poll that a worker is inside.
pub(crate) struct CurrentPoll<M: Machine> {
    /// The number of the poll; 0 between two.
    number: M::U64,
    task: M::U64,
    rank: M::U32,
    spawned_at: M::Ptr<Location<'static>>,
}

// SAFETY: all fields are atomic words; one points to a place in the program, which is never freed.
unsafe impl<M: Machine> Send for CurrentPoll<M> {}
// SAFETY: as for Send.
unsafe impl<M: Machine> Sync for CurrentPoll<M> {}

impl<M: Machine> Default for CurrentPoll<M> {
    fn default() -> Self {
        CurrentPoll {
            number: M::U64::new(0),
            task: M::U64::new(0),
            rank: M::U32::new(0),
            spawned_at: M::Ptr::new(ptr::null_mut()),
        }
    }
}

impl<M: Machine> CurrentPoll<M> {
    /// Begins the poll with this number, which is not 0. Called only by the worker.
    #[inline]
    pub(crate) fn begin(&self, number: u64, polled: Polled) {
        // ORDER: Release pairs with the Acquire in `read`, which then sees that the poll before is over.
        self.task.store(polled.task, Ordering::Release);
        // ORDER: Release, as above.
        self.rank.store(u32::from(polled.rank), Ordering::Release);
        let place = ptr::from_ref(polled.spawned_at).cast_mut();
        // ORDER: Release, as above.
        self.spawned_at.store(place, Ordering::Release);
        // ORDER: Release pairs with the first Acquire in `read`, which then sees all of it.
        self.number.store(number, Ordering::Release);
    }

    /// Ends the poll. Called only by the worker.
    #[inline]
    pub(crate) fn end(&self) {
        // ORDER: Relaxed; the Releases of the next `begin` bring it to a reader that sees any of that poll.
        self.number.store(0, Ordering::Relaxed);
    }

    /// Whether the worker is inside a poll. The stall reporter calls this after a fence, to decide whether to sleep.
    pub(crate) fn goes_on(&self) -> bool {
        // ORDER: Relaxed; the fences of both sides order it, see `StallReporter`.
        self.number.load(Ordering::Relaxed) != 0
    }

    /// The current poll and its number. `None` if there is no poll, or the poll ended meanwhile.
    pub(crate) fn read(&self) -> Option<(u64, Polled)> {
        // ORDER: Acquire pairs with the last Release in `begin`.
        let number = self.number.load(Ordering::Acquire);
        if number == 0 {
            return None;
        }
        // ORDER: Acquire pairs with the Release in `begin`: a field of a later poll brings a later number, which the
        // last load sees.
        let task = self.task.load(Ordering::Acquire);
        // ORDER: Acquire, as above.
        let rank = self.rank.load(Ordering::Acquire) as u8;
        // ORDER: Acquire, as above.
        let place = self.spawned_at.load(Ordering::Acquire);
        // ORDER: Relaxed; the Acquires above keep it after them.
        if self.number.load(Ordering::Relaxed) != number {
            return None;
        }
        // SAFETY: a poll has begun, so `begin` has stored a place of the program, which is never freed.
        let spawned_at = unsafe { &*place };
        let polled = Polled {
            task,
            rank,
            spawned_at,
        };
        Some((number, polled))
    }
}

#[cfg(test)]
mod loom {
    use super::{CurrentPoll, Polled};
    use crate::testing::model::check;
    use ::loom::thread;
    use doorbell_machine::Loom;
    use std::panic::Location;
    use std::sync::Arc;

    const TASKS: usize = 2;

    fn polled(at: usize) -> Polled {
        let places: [_; TASKS] = [Location::caller(), Location::caller()];
        Polled {
            task: at as u64 + 1,
            rank: at as u8 + 1,
            spawned_at: places[at],
        }
    }

    #[test]
    fn a_reader_never_sees_half_a_task_under_poll() {
        check(|| {
            let current = Arc::new(CurrentPoll::<Loom>::default());
            let theirs = Arc::clone(&current);
            let worker = thread::spawn(move || {
                for at in 0..TASKS {
                    theirs.begin(at as u64 + 1, polled(at));
                    theirs.end();
                }
            });
            if let Some((number, seen)) = current.read() {
                assert_eq!(seen, polled(number as usize - 1));
            }
            worker.join().unwrap();
            assert_eq!(current.read(), None);
        });
    }
}
