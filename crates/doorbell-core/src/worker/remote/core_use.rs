//! Core use: for each core, which of the workers that never spin have something to do. A spinning worker
//! would keep them from the CPU, so a worker does not spin while one of them can run.
//!
//! | bit | set by | cleared by |
//! |---|---|---|
//! | 0 to 31, one for each scheduler whose workers never spin | the worker when its park ends, and the thread that rings it: the OS may not let it run while another worker spins | the worker before it announces that it parks |
//!
//! All of it is a hint. A bit that is seen too late costs a part of a spin, a bit too many costs a park.

use doorbell_machine::{Line, Machine, Ordering, Word};
use std::sync::Arc;

/// One word for each core.
pub struct CoreUse<M: Machine>(Box<[M::Line<M::U32>]>);

impl<M: Machine> std::fmt::Debug for CoreUse<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CoreUse").field(&self.0.len()).finish()
    }
}

impl<M: Machine> CoreUse<M> {
    /// The words of so many cores, all clear.
    #[must_use]
    pub fn new(cores: usize) -> Arc<Self> {
        let word = |_| M::Line::new(|| M::U32::new(0));
        Arc::new(CoreUse((0..cores).map(word).collect()))
    }
}

/// A scheduler's part in the words.
#[derive(Debug)]
pub struct Occupant<M: Machine> {
    words: Arc<CoreUse<M>>,
    /// The scheduler's bit; 0 for a scheduler whose workers may spin.
    bit: u32,
}

impl<M: Machine> Clone for Occupant<M> {
    fn clone(&self) -> Self {
        Occupant {
            words: Arc::clone(&self.words),
            bit: self.bit,
        }
    }
}

impl<M: Machine> Occupant<M> {
    /// The part of a scheduler whose workers may spin.
    pub fn spinning(words: &Arc<CoreUse<M>>) -> Self {
        Occupant {
            words: Arc::clone(words),
            bit: 0,
        }
    }

    /// The part of a scheduler whose workers never spin. `scheduler` is its number.
    ///
    /// # Panics
    /// If the number is 32 or more.
    pub fn working(words: &Arc<CoreUse<M>>, scheduler: u32) -> Self {
        assert!(scheduler < u32::BITS, "a core has 32 schedulers at most");
        Occupant {
            words: Arc::clone(words),
            bit: 1 << scheduler,
        }
    }

    /// This scheduler's worker of that core has something to do, or is rung because it has.
    #[inline]
    pub(crate) fn begin(&self, core: usize) {
        let word = &self.words.0[core];
        // ORDER: Relaxed, here and below; a hint.
        if self.bit != 0 && word.load(Ordering::Relaxed) & self.bit == 0 {
            // ORDER: Relaxed, as above.
            word.fetch_or(self.bit, Ordering::Relaxed);
        }
    }

    /// This scheduler's worker of that core is about to park.
    #[inline]
    pub(crate) fn end(&self, core: usize) {
        if self.bit != 0 {
            // ORDER: Relaxed, as above.
            self.words.0[core].fetch_and(!self.bit, Ordering::Relaxed);
        }
    }

    /// Whether another worker of that core can run.
    #[inline]
    pub(crate) fn is_wanted(&self, core: usize) -> bool {
        // ORDER: Relaxed, as above.
        self.words.0[core].load(Ordering::Relaxed) & !self.bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{CoreUse, Occupant};
    use crate::bell::{Announced, WorkerState};
    use crate::scheduler::{RemoteRef, Scheduler, SchedulerSpec};
    use doorbell_machine::Host;
    use std::sync::Arc;

    #[test]
    fn a_core_is_wanted_while_any_other_worker_of_it_works() {
        let words = CoreUse::<Host>::new(2);
        let (fair, rt) = (Occupant::spinning(&words), Occupant::working(&words, 0));
        let batch = Occupant::working(&words, 31);
        let looks = || [0, 1].map(|core| fair.is_wanted(core));
        assert_eq!(looks(), [false; 2]);
        batch.begin(1);
        rt.begin(1);
        rt.begin(1);
        assert_eq!(looks(), [false, true]);
        assert!(rt.is_wanted(1));
        batch.end(1);
        assert_eq!((looks()[1], rt.is_wanted(1)), (true, false));
        rt.end(1);
        fair.begin(0);
        assert_eq!(
            looks(),
            [false; 2],
            "a worker that spins is not in the way of itself"
        );
    }

    #[test]
    fn whoever_rings_a_worker_says_that_it_works() {
        let words = CoreUse::<Host>::new(1);
        let spec = SchedulerSpec {
            core_use: Some(Occupant::working(&words, 1)),
            ..SchedulerSpec::default()
        };
        let remotes: Vec<RemoteRef<Host>> =
            Scheduler::described(1, &Arc::default(), spec, |_, _| 0);
        let (fair, remote) = (Occupant::spinning(&words), &remotes[0]);
        assert_eq!(remote.bell().announce_spin(), Announced::Yes);
        assert_eq!(remote.bell().announce_park(), Announced::Yes);
        assert_eq!(
            (remote.state(), fair.is_wanted(0)),
            (WorkerState::Parked, false)
        );
        remote.request_pass();
        assert!(fair.is_wanted(0));
    }
}
