//! Shuffled turns, for tests: which of the first tasks a worker takes is random, so that tests do not come to rely on
//! the order in which tasks became ready.

use crate::link::Node;
use crate::task::queue_node::{find, rank_of};
use crate::task::state::By;
use crate::task::{Kind, TaskRef};
use crate::worker::Local;
use doorbell_machine::Machine;
use std::cell::Cell;
use std::ptr::NonNull;

/// A worker takes one of so many tasks.
const AMONG: u64 = 8;

/// The random numbers of one worker.
///
/// Source: Vigna's `SplitMix64`.
#[derive(Debug)]
pub(super) struct Shuffle {
    state: Cell<u64>,
}

impl Shuffle {
    /// The numbers of a worker, from the seed of the runtime.
    pub(super) fn of(seed: u64, worker: usize) -> Self {
        let state = seed ^ (worker as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Shuffle {
            state: Cell::new(state),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        let state = self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

impl<M: Machine> Local<M> {
    /// The task to run, where `node` was taken from the queues as the next one: another one if turns are shuffled.
    #[inline]
    pub(super) fn shuffled(&self, node: NonNull<Node<M>>) -> NonNull<Node<M>> {
        match &self.turns.shuffle {
            None => node,
            Some(shuffle) => self.one_of_the_first(node, shuffle),
        }
    }

    /// Takes one of the first tasks, at random, and appends those before it. Only among tasks of one rank.
    #[cold]
    fn one_of_the_first(&self, first: NonNull<Node<M>>, shuffle: &Shuffle) -> NonNull<Node<M>> {
        let mut chosen = first;
        for _ in 0..shuffle.below(AMONG) {
            let Some(other) = self.next_ready() else {
                break;
            };
            // SAFETY: both were just taken from queues, so they are nodes of tasks, which are alive.
            let lower = unsafe { rank_of(other) < rank_of(chosen) };
            let (back, taken) = if lower {
                (other, chosen)
            } else {
                (chosen, other)
            };
            // SAFETY: as above; it is in no queue.
            unsafe { self.put_back(back) };
            chosen = taken;
            if lower {
                break;
            }
        }
        chosen
    }

    /// Appends a task that was taken from one of this worker's queues.
    ///
    /// # Safety
    /// The node is one of a task, which is alive, and in no queue.
    unsafe fn put_back(&self, node: NonNull<Node<M>>) {
        // SAFETY: passed on from the caller.
        let (task, by): (TaskRef<M>, By) = unsafe { find(node) };
        if by == By::Own && task.header().kind == Kind::Pinned {
            // SAFETY: passed on from the caller.
            unsafe { self.push_pinned(node) };
        } else {
            // SAFETY: passed on from the caller.
            unsafe { self.push(node) };
        }
    }
}
