//! The queue of the discrete-event loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// What happens when an entry of the queue is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum What {
    /// The thread of a CPU goes on.
    Cpu,
    /// A thread becomes ready to run.
    Wake,
    /// A thread's sleep or spin reaches its deadline.
    Deadline,
    /// A sleep ends spuriously.
    Spurious,
    /// The slice of a CPU's thread is over, or the thread has changed its policy.
    Slice,
    /// The oldest store of a thread leaves its buffer.
    Drain,
    /// A CPU takes interrupts again.
    Unmask,
}

/// An entry of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) time_ns: u64,
    /// Orders entries of the same time. It comes from the seed.
    pub(super) tie: u32,
    /// The CPU or the thread.
    pub(super) of: u32,
    pub(super) what: What,
    /// The `turn` of the CPU, thread or buffer. The entry is void if that has changed since.
    pub(super) turn: u32,
}

/// All entries, the earliest first.
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

    /// Puts an entry in and takes the earliest out. This is cheaper than a push and a pop.
    #[inline]
    pub(super) fn exchange(&mut self, due: Due) -> Due {
        match self.0.peek_mut() {
            Some(mut first) if first.0 < due => std::mem::replace(&mut *first, Reverse(due)).0,
            Some(first) => {
                // It was not changed, so the heap stays as it is.
                let _: PeekMut<'_, _> = first;
                due
            }
            None => due,
        }
    }

    /// The time of the earliest entry; `u64::MAX` if there is none.
    #[inline]
    pub(super) fn first_ns(&self) -> u64 {
        self.0.peek().map_or(u64::MAX, |due| due.0.time_ns)
    }
}
