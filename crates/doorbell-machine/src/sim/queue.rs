//! What is to happen next: the queue of the discrete-event loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum What {
    /// The thread of a CPU goes on.
    Cpu,
    /// A thread becomes ready to run.
    Wake,
    /// A thread has slept or spun for long enough.
    Deadline,
    /// A sleep ends for no reason.
    Spurious,
    /// The slice of the thread of a CPU is over, or somebody better may be ready.
    Slice,
    /// The oldest store of a thread leaves its buffer.
    Drain,
    /// A CPU takes interrupts again.
    Unmask,
}

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) time_ns: u64,
    /// Which of those at one time comes first: by the seed.
    pub(super) tie: u32,
    /// The CPU or the thread.
    pub(super) of: u32,
    pub(super) what: What,
    /// It is void if the CPU's or thread's own number has changed since.
    pub(super) turn: u32,
}

/// All that is to happen, the earliest first.
#[derive(Debug, Default)]
pub(super) struct Queue(BinaryHeap<Reverse<Due>>);

impl Queue {
    #[inline]
    pub(super) fn push(&mut self, due: Due) {
        self.0.push(Reverse(due));
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Due> {
        self.0.pop().map(|due| due.0)
    }

    /// Puts one in and takes the earliest out: cheaper than one after the other.
    #[inline]
    pub(super) fn exchange(&mut self, due: Due) -> Due {
        match self.0.peek_mut() {
            Some(mut first) if first.0 < due => std::mem::replace(&mut *first, Reverse(due)).0,
            Some(first) => {
                // Untouched, so nothing is sifted.
                let _: PeekMut<'_, _> = first;
                due
            }
            None => due,
        }
    }

    /// The time of the earliest; the end of time if there is none.
    #[inline]
    pub(super) fn first_ns(&self) -> u64 {
        self.0.peek().map_or(u64::MAX, |due| due.0.time_ns)
    }
}
