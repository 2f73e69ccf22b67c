//! The limit: one word at which lists of recycled nodes are pushed, and taken as a whole.
//!
//! Nothing is allocated and nobody is ever woken: the consumer spins. A node is a number, so that
//! no pointer is needed; each producer has its own, and uses them in turn.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use super::counts::{AHEAD_MAX, Counts, LOOK_EVERY, PRODUCERS_MAX};
use super::targets::{Gone, Poster, Target};
use crate::error::LabError;
use crate::measure::spawn_pinned;

const THREAD: &str = "flood-nodes";
/// No node.
const NONE: u32 = u32::MAX;
/// Nodes of each producer: a power of two, and more than it can be ahead.
const NODES: u32 = 1 << 14;
const _: () = assert!((NODES as u64) > AHEAD_MAX + LOOK_EVERY);

/// A word in a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Head(AtomicU32);

/// The list, and the nodes of all producers.
#[derive(Debug)]
struct Stack {
    head: Head,
    next: Vec<AtomicU32>,
}

impl Stack {
    fn new() -> Self {
        let nodes = PRODUCERS_MAX as u32 * NODES;
        Self {
            head: Head(AtomicU32::new(NONE)),
            next: (0..nodes).map(|_| AtomicU32::new(NONE)).collect(),
        }
    }

    #[inline]
    fn push(&self, node: u32) {
        // ORDER: what is below the node is only linked to, not looked into.
        let mut head = self.head.0.load(Ordering::Relaxed);
        loop {
            // ORDER: published by the exchange below.
            self.next[node as usize].store(head, Ordering::Relaxed);
            // ORDER: Release publishes the node's link to the consumer. The list is only ever taken
            // whole, so a head that was seen twice means the same list.
            let swapped =
                self.head
                    .0
                    .compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed);
            match swapped {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all and gives the producer of each, the earliest of each producer first. A link is
    /// read before its node is done with.
    fn take(&self, mut one: impl FnMut(usize)) -> bool {
        // ORDER: a look, so that an empty list's line is not written.
        if self.head.0.load(Ordering::Relaxed) == NONE {
            return false;
        }
        // ORDER: Acquire, for the links; later pushes begin a new list.
        let mut node = self.head.0.swap(NONE, Ordering::Acquire);
        let mut turned = NONE;
        while node != NONE {
            let link = &self.next[node as usize];
            // ORDER: acquired with the head; a node is its producer's again only when it is done.
            let below = link.load(Ordering::Relaxed);
            // ORDER: read by this thread only, until the node is done.
            link.store(turned, Ordering::Relaxed);
            turned = node;
            node = below;
        }
        while turned != NONE {
            // ORDER: written above by this thread.
            let next = self.next[turned as usize].load(Ordering::Relaxed);
            one((turned / NODES) as usize);
            turned = next;
        }
        true
    }
}

/// The list and the thread that empties it.
#[derive(Debug)]
pub(super) struct Nodes {
    stack: Arc<Stack>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// A producer.
#[derive(Debug)]
pub(super) struct NodePoster {
    stack: Arc<Stack>,
    first: u32,
    turn: u32,
}

impl Poster for NodePoster {
    #[inline]
    fn post(&mut self) -> Result<(), Gone> {
        self.stack.push(self.first + self.turn);
        self.turn = (self.turn + 1) % NODES;
        Ok(())
    }
}

impl Target for Nodes {
    const NAME: &'static str = "recycled nodes";
    const WHAT: &'static str = "to a spinning thread";
    type Poster = NodePoster;

    fn start(cpu: usize, counts: &'static Counts) -> Result<Self, LabError> {
        let stack = Arc::new(Stack::new());
        let stop = Arc::new(AtomicBool::new(false));
        let (taken, stopped) = (Arc::clone(&stack), Arc::clone(&stop));
        let thread = spawn_pinned(THREAD, cpu, move || {
            // ORDER: a flag that publishes nothing; producers have ended before it is set.
            while taken.take(|producer| counts.one_done(producer))
                || !stopped.load(Ordering::Relaxed)
            {
                hint::spin_loop();
            }
        })?;
        Ok(Self {
            stack,
            stop,
            thread,
        })
    }

    fn poster(&self, producer: usize) -> Self::Poster {
        NodePoster {
            stack: Arc::clone(&self.stack),
            first: producer as u32 * NODES,
            turn: 0,
        }
    }

    fn stop(self) -> Result<(), LabError> {
        // ORDER: as where it is read.
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.join();
        joined.map_err(|_| LabError::ThreadPanicked { thread: THREAD })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_taken_once_in_order() {
        let stack = Stack::new();
        assert!(!stack.take(|_| panic!("it is empty")));
        for node in [0, NODES, 1, 2 * NODES] {
            stack.push(node);
        }
        let mut producers = Vec::new();
        assert!(stack.take(|producer| producers.push(producer)));
        assert_eq!(producers, [0, 1, 0, 2]);
        assert!(!stack.take(|_| panic!("it is empty again")));
    }
}
