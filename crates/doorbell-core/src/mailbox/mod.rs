//! The mailbox: a worker's inbound queue. See README.md in this folder for the protocol.
//!
//! `post` is a compare-exchange push, `take` one exchange that empties it; order within one
//! poster is kept by reversing what was taken. [`Remote`](crate::worker::Remote) joins mailbox and bell: the rule of
//! who tells the worker.

#[cfg(test)]
mod loom;
#[cfg(test)]
mod tests;

use crate::link::{Node, Taker};
use crate::queue::Chain;
use doorbell_machine::{Bug, Machine, Mark, Ordering, PtrWord};
use std::ptr::NonNull;

/// Where a node can be posted. Calls know a worker by this alone.
///
/// # Safety
/// On [`Posted::Yes`] the node is delivered once, on the worker that it was posted to, or on one of several.
pub unsafe trait Post<M: Machine> {
    /// Posts a node and tells the worker if no other poster has.
    ///
    /// # Panics
    /// If the node is in a queue already.
    ///
    /// # Safety
    /// As for [`Mailbox::push`].
    unsafe fn post(&self, node: NonNull<Node<M>>) -> Posted;

    /// As [`Post::post`], for a node of which the caller knows that it is in no queue.
    ///
    /// # Safety
    /// As for [`Mailbox::push_entered`].
    unsafe fn post_entered(&self, node: NonNull<Node<M>>) -> Posted;
}

/// The worker is gone: what was to be posted did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// How a post ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The worker will run it.
    Yes,
    /// The worker is gone; the node is the caller's again.
    Closed,
}

/// How far apart the nodes of a pool lie, and how many of them ahead are fetched.
const LINE_BYTES: usize = 64;
const LINES_AHEAD: usize = 8;

/// From so many failures of a push in a row on its wait no longer grows: 4^5 pauses take 15 to 50 µs, as long as it takes to
/// wake a thread. An urgent task may post to a mailbox that others flood.
const FAILURES_MAX: u32 = 7;

/// What a push found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The mailbox was empty before.
    First,
    /// The mailbox was not empty before: another poster tells, or has told, the worker.
    Behind,
    /// The worker is gone; the node was not pushed.
    Closed,
    /// The node is in a queue already; nothing was changed.
    Twice,
}

/// A lock-free queue of many posters and one taker: a linked stack of nodes.
pub struct Mailbox<M: Machine> {
    head: M::Ptr<Node<M>>,
}

// SAFETY: nodes are handed from poster to taker by the protocol of this folder.
unsafe impl<M: Machine> Sync for Mailbox<M> {}
// SAFETY: as for Sync; nothing in it belongs to a thread.
unsafe impl<M: Machine> Send for Mailbox<M> {}

impl<M: Machine> std::fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox")
            .field("empty", &self.is_empty())
            .finish()
    }
}

impl<M: Machine> Default for Mailbox<M> {
    fn default() -> Self {
        Mailbox {
            head: M::Ptr::new(std::ptr::null_mut()),
        }
    }
}

impl<M: Machine> Mailbox<M> {
    /// The head of a closed mailbox. No node lies at this address.
    #[inline(always)]
    fn closed() -> *mut Node<M> {
        std::ptr::without_provenance_mut(1)
    }

    /// Pushes a node.
    ///
    /// # Safety
    /// On [`Pushed::First`] and [`Pushed::Behind`] the mailbox owns the node until it is
    /// delivered: it stays alive and in place, and is not touched by the caller.
    #[inline]
    pub unsafe fn push(&self, node: NonNull<Node<M>>) -> Pushed {
        // SAFETY: the caller promises that the node is alive.
        let link = unsafe { node.as_ref() };
        if !link.enter() {
            return Pushed::Twice;
        }
        // SAFETY: passed on from the caller; it has entered.
        unsafe { self.push_entered(node) }
    }

    /// As [`Mailbox::push`], for a node that the caller knows to be in no queue: one read-modify-write
    /// less.
    ///
    /// # Safety
    /// As for [`Mailbox::push`]; the caller alone has the node, and it is in no queue. The node need not be
    /// marked as queued before. If it is refused, it is marked as free.
    #[inline]
    pub unsafe fn push_entered(&self, node: NonNull<Node<M>>) -> Pushed {
        // ORDER: Relaxed; a first guess, the exchange decides.
        let head = self.head.load(Ordering::Relaxed);
        // SAFETY: passed on from the caller.
        match unsafe { self.push_behind(node, head) } {
            Ok(pushed) => pushed,
            // SAFETY: the same; it is in no queue yet.
            Err(seen) => unsafe { self.push_again(node, seen) },
        }
    }

    /// Pushes the node if `head` is the newest one still, or closed. Otherwise returns the newest one.
    ///
    /// # Safety
    /// As for [`Mailbox::push_entered`]. On an error the node is in no queue.
    #[inline]
    unsafe fn push_behind(
        &self,
        node: NonNull<Node<M>>,
        head: *mut Node<M>,
    ) -> Result<Pushed, *mut Node<M>> {
        // SAFETY: the caller promises that the node is alive.
        let link = unsafe { node.as_ref() };
        let publish = if M::breaks(Bug::MailboxPushRelaxed) {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        if head == Self::closed() {
            link.leave();
            M::mark(Mark::MailboxClosed);
            return Ok(Pushed::Closed);
        }
        link.set_next(head);
        if M::breaks(Bug::MailboxPushBlind) {
            // ORDER: the mutant; a node pushed since the load is overwritten.
            self.head.store(node.as_ptr(), Ordering::Release);
        } else {
            // ORDER: Release pairs with the taker's Acquire: node and content are visible. The fence in
            // `tell` decides what the poster sees of the bell. Relaxed on failure: only the
            // next guess.
            self.head
                .compare_exchange_weak(head, node.as_ptr(), publish, Ordering::Relaxed)?;
        }
        Ok(if head.is_null() {
            Pushed::First
        } else {
            Pushed::Behind
        })
    }

    /// Pushes after a failure, which has seen `head`. From the second one on it waits before, four times as long each time,
    /// up to a bound. Where hundreds of threads push at once, each attempt takes the line from those that could succeed.
    ///
    /// # Safety
    /// As for [`Mailbox::push_entered`].
    #[cold]
    unsafe fn push_again(&self, node: NonNull<Node<M>>, mut head: *mut Node<M>) -> Pushed {
        let mut failures = 1;
        loop {
            M::mark(Mark::MailboxMet);
            // SAFETY: passed on from the caller.
            match unsafe { self.push_behind(node, head) } {
                Ok(pushed) => return pushed,
                Err(seen) => head = seen,
            }
            failures += 1;
            if !M::MODEL {
                M::relax(4_u32.pow(FAILURES_MAX.min(failures) - 2));
                // ORDER: Relaxed; the exchange decides.
                head = self.head.load(Ordering::Relaxed);
            }
        }
    }

    /// Pushes a node if the mailbox is empty. [`Pushed::Behind`] if it is not: then the node is the caller's still, and
    /// in no queue.
    ///
    /// # Safety
    /// As for [`Mailbox::push`], on [`Pushed::First`].
    pub unsafe fn push_first(&self, node: NonNull<Node<M>>) -> Pushed {
        // SAFETY: the caller promises that the node is alive.
        if !unsafe { node.as_ref() }.enter() {
            return Pushed::Twice;
        }
        // SAFETY: passed on from the caller; it has entered.
        unsafe { self.push_first_entered(node) }
    }

    /// As [`Mailbox::push_first`], for a node that the caller knows to be in no queue.
    ///
    /// # Safety
    /// As for [`Mailbox::push_entered`], on [`Pushed::First`].
    pub unsafe fn push_first_entered(&self, node: NonNull<Node<M>>) -> Pushed {
        if M::breaks(Bug::PlacePushesBehind) {
            // SAFETY: passed on from the caller.
            return match unsafe { self.push_entered(node) } {
                Pushed::Behind => Pushed::First,
                pushed => pushed,
            };
        }
        // SAFETY: the caller promises that the node is alive.
        let link = unsafe { node.as_ref() };
        link.set_next(std::ptr::null_mut());
        loop {
            // ORDER: Release as in `push_behind`; Relaxed on failure: only the next guess.
            match self.head.compare_exchange_weak(
                std::ptr::null_mut(),
                node.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Pushed::First,
                Err(head) if head.is_null() => {}
                Err(head) => {
                    link.leave();
                    return if head == Self::closed() {
                        Pushed::Closed
                    } else {
                        Pushed::Behind
                    };
                }
            }
        }
    }

    /// Whether there is nothing to take.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // ORDER: Relaxed; where it must not be stale, a fence or an Acquire stands before.
        let head = self.head.load(Ordering::Relaxed);
        head.is_null() || head == Self::closed()
    }

    /// Starts fetching the newest node for writing, so that its line travels together with the bell's.
    #[inline]
    pub fn prefetch(&self) {
        // ORDER: Relaxed; the address is used as a hint only.
        M::prefetch_write(self.head.load(Ordering::Relaxed));
    }

    /// Takes all there is, oldest first.
    #[inline]
    pub fn take(&self) -> Batch<M> {
        // A stale null only delays the take to the next look, which the bell guarantees. A closed mailbox
        // is empty too, and stays closed.
        if self.is_empty() {
            return Batch::empty();
        }
        self.exchange(std::ptr::null_mut())
    }

    /// As [`Mailbox::take`], where several may take at once.
    pub(crate) fn take_shared(&self) -> Batch<M> {
        Batch::oldest_first(self.exchange_open())
    }

    /// As [`Mailbox::take_shared`], for nodes that go to a run queue. `None` if there is nothing.
    pub(crate) fn take_chain(&self) -> Option<(Chain<M>, u64)> {
        let newest = self.exchange_open();
        Batch::oldest_first(newest).into_chain(newest)
    }

    /// Empties it unless it is closed. Returns the newest node, null if there is none.
    fn exchange_open(&self) -> *mut Node<M> {
        // ORDER: Relaxed; the exchange decides.
        let mut newest = self.head.load(Ordering::Relaxed);
        loop {
            if newest.is_null() || newest == Self::closed() {
                return std::ptr::null_mut();
            }
            // Compared, because a plain exchange could reopen a mailbox that is being closed.
            // ORDER: as in `exchange`; Relaxed on failure: only the next guess.
            match self.head.compare_exchange_weak(
                newest,
                std::ptr::null_mut(),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return newest,
                Err(seen) => newest = seen,
            }
        }
    }

    /// As [`Mailbox::close`], for nodes that go to a run queue.
    pub(crate) fn close_chain(&self) -> Option<(Chain<M>, u64)> {
        // ORDER: as in `exchange`.
        let newest = self.head.swap(Self::closed(), Ordering::Acquire);
        if newest == Self::closed() {
            return None;
        }
        Batch::oldest_first(newest).into_chain(newest)
    }

    /// Takes all there is; from here on every push is refused.
    pub fn close(&self) -> Batch<M> {
        self.exchange(Self::closed())
    }

    #[inline]
    fn exchange(&self, new: *mut Node<M>) -> Batch<M> {
        // ORDER: Acquire pairs with every push's Release: they form one release sequence.
        let taken = self.head.swap(new, Ordering::Acquire);
        if taken == Self::closed() {
            Batch::empty()
        } else {
            Batch::oldest_first(taken)
        }
    }
}

/// Nodes that were taken and not yet delivered, oldest first.
///
/// Drain it by [`Batch::deliver`]: a drop of a batch that is not empty loses its nodes.
#[must_use]
#[derive(Debug)]
pub struct Batch<M: Machine> {
    next: *mut Node<M>,
}

impl<M: Machine> Batch<M> {
    fn empty() -> Self {
        Batch {
            next: std::ptr::null_mut(),
        }
    }

    /// Reverses the stack.
    #[inline]
    fn oldest_first(newest: *mut Node<M>) -> Self {
        let Some(first) = NonNull::new(newest) else {
            return Batch::empty();
        };
        // SAFETY: taken nodes are alive until delivered; `push` demands that.
        let first = unsafe { first.as_ref() };
        let mut node = first.next();
        if node.is_null() {
            return Batch { next: newest };
        }
        let apart = newest.addr().wrapping_sub(node.addr());
        if M::ADDRESSES_STEER && (apart == LINE_BYTES || apart == LINE_BYTES / 2) {
            return Self::oldest_first_ahead(newest, apart);
        }
        first.set_next(std::ptr::null_mut());
        let mut oldest = newest;
        while let Some(link) = NonNull::new(node) {
            // SAFETY: as above.
            let link = unsafe { link.as_ref() };
            let before = link.next();
            link.set_next(oldest);
            oldest = node;
            node = before;
        }
        Batch { next: oldest }
    }

    /// As [`Batch::oldest_first`], for nodes that lie `apart`, a line or half of one, as those of a pool do.
    /// Their lines are in another core's cache, and following the links would fetch them one after the other.
    /// So nodes are fetched before the links lead there.
    #[inline(never)]
    fn oldest_first_ahead(newest: *mut Node<M>, apart: usize) -> Self {
        let mut node = newest;
        let mut oldest: *mut Node<M> = std::ptr::null_mut();
        let mut was_near = false;
        while let Some(link) = NonNull::new(node) {
            // SAFETY: as in `oldest_first`.
            let link = unsafe { link.as_ref() };
            let before = link.next();
            let near = node.addr().wrapping_sub(before.addr()) == apart;
            if near {
                M::prefetch_write(before.wrapping_byte_sub(LINES_AHEAD * LINE_BYTES));
            } else if was_near {
                // A new run of neighbours begins.
                for line in 1..=LINES_AHEAD {
                    M::prefetch_write(before.wrapping_byte_sub(line * LINE_BYTES));
                }
            }
            was_near = near;
            link.set_next(oldest);
            oldest = node;
            node = before;
        }
        Batch { next: oldest }
    }

    /// The batch as a chain of nodes that are still marked as queued, and their number. `newest` is the last
    /// node of the batch.
    fn into_chain(self, newest: *mut Node<M>) -> Option<(Chain<M>, u64)> {
        let (first, last) = (NonNull::new(self.next)?, NonNull::new(newest)?);
        let (mut len, mut node) = (1, first);
        while node != last {
            // SAFETY: taken, so they are the taker's; linked from the oldest to the newest.
            node = NonNull::new(unsafe { node.as_ref() }.next())?;
            len += 1;
        }
        // SAFETY: as above.
        Some((unsafe { Chain::of(first, last) }, len))
    }

    /// Takes out the nodes that `picks` names, oldest first. They are in no queue then.
    pub(crate) fn pick(
        &mut self,
        picks: impl Fn(NonNull<Node<M>>) -> bool,
    ) -> Vec<NonNull<Node<M>>> {
        let (mut picked, mut kept) = (Vec::new(), Vec::new());
        while let Some(node) = NonNull::new(self.next) {
            // SAFETY: taken, so it is alive until delivered.
            self.next = unsafe { node.as_ref() }.next();
            if picks(node) {
                // SAFETY: as above.
                unsafe { node.as_ref() }.leave();
                picked.push(node);
            } else {
                kept.push(node);
            }
        }
        for node in kept.into_iter().rev() {
            // SAFETY: as above.
            unsafe { node.as_ref() }.set_next(self.next);
            self.next = node.as_ptr();
        }
        picked
    }

    /// Whether nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next.is_null()
    }

    /// Delivers all of it in order to the worker that took it; returns how many nodes there were.
    ///
    /// # Safety
    /// The caller is the thread of that worker.
    #[inline]
    pub unsafe fn deliver(mut self, worker: &impl Taker<M>) -> u64 {
        let mut delivered = 0;
        while let Some(node) = NonNull::new(self.next) {
            // SAFETY: alive until delivered.
            let link = unsafe { node.as_ref() };
            // Read before the delivery: right after it the node may be gone, or posted again.
            self.next = link.next();
            link.leave();
            // SAFETY: the node was posted to this worker and has left its queue.
            let then = unsafe { Node::deliver(node) };
            // SAFETY: delivered just now, on the worker's thread.
            unsafe { worker.take(node, then) };
            delivered += 1;
        }
        delivered
    }
}
