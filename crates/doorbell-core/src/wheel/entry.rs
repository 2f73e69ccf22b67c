//! One timer: its state word, its link, its waker.
//!
//! The state of an entry:
//!
//! | value | name | meaning |
//! |---|---|---|
//! | 0 | `FREE` | no timer; only the worker has it |
//! | 1 | `MAILED` | armed by mail: in a mailbox, the scheduler's or the worker's |
//! | 2 | `ARMED` | hangs in the worker's wheel |
//! | 3 | `FIRED` | out of the wheel; the handle's to read and to free, or its last message's |
//! | 4 | `CANCELLED` | the handle is gone; in the mailbox or about to be; the worker's to free |
//! | 5 | `ORPHANED` | the worker ended first; the handle's to free |
//! | 6 | `ABANDONED` | the handle is gone and found the mailbox closed; the worker's to free; it wakes the waker |
//! | 7 | `ROUSED` | as `CANCELLED`, and the worker wakes the waker |
//!
//! Who may touch what (a visitor stands in for the worker). `link`: the handle before `MAILED`, and the worker from its
//! first delivery. `waker`: the worker while `ARMED`; the handle on the worker's thread; and the handle alone, before
//! `MAILED` and after `FIRED`.

use super::levels::Link;
use super::{Base, Window};
use crate::link::{Delivered, Node};
use crate::quiet::drop_quietly;
use doorbell_machine::{Bug, Cell, Machine, Mark, Ordering, Word};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::task::Waker;

pub(crate) const FREE: u32 = 0;
pub(crate) const MAILED: u32 = 1;
pub(crate) const ARMED: u32 = 2;
pub(crate) const FIRED: u32 = 3;
pub(crate) const CANCELLED: u32 = 4;
pub(crate) const ORPHANED: u32 = 5;
const ABANDONED: u32 = 6;
const _: () = assert!(FREE < MAILED && MAILED < ARMED && ARMED < FIRED);
pub(super) const ROUSED: u32 = 7;
const _: () = assert!(FIRED < CANCELLED && CANCELLED < ORPHANED && ORPHANED < ABANDONED);
const _: () = assert!(ABANDONED < ROUSED);

/// What a worker found when it took a timer out of its wheel.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fire {
    /// The waker is the worker's to wake; the entry is the handle's.
    Wake,
    /// The handle was dropped elsewhere. Its message frees the entry; if the message finds the mailbox
    /// closed, the handle itself does.
    Cancelled,
    /// As `Cancelled`, but the waker is the worker's to wake.
    Roused,
    /// The handle was dropped or roused elsewhere and its message came too late: the worker frees the entry, and wakes
    /// the waker.
    Abandoned,
}

/// What a handle that is dropped on another thread has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// Post the entry, so that the worker takes it out and frees it.
    Post,
    /// Nothing: the worker finds it in its mailbox.
    Nothing,
    /// Free the entry: no worker has it any more.
    Free,
}

/// What became of an entry that came by mail.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenIn {
    /// It hangs in the wheel, in that base and for that time. A visitor may have fired it by now, so
    /// only its handle may look at it.
    Hangs { base: Base, window: Window },
    /// Its handle is gone, and it hangs nowhere.
    Cancelled,
}

/// A timer's memory. The node is its first field.
#[repr(C)]
pub(crate) struct Entry<M: Machine, O> {
    node: Node<M>,
    state: M::U32,
    pub(crate) base: std::cell::Cell<Base>,
    /// Whether it lies in a [`Roomy`].
    has_room: bool,
    /// The [tag](Entry::tag) of the poll in which the waker was given; another tag if it was not given in a poll.
    pub(crate) polls: std::cell::Cell<u16>,
    /// The worker that has the entry. It changes when a worker takes a `MAILED` entry, so only that worker reads it
    /// until then.
    pub(crate) owner: M::Cell<O>,
    pub(crate) waker: M::Cell<Option<Waker>>,
    link: M::Cell<Link<M, O>>,
    /// The handle's own: a copy of the waker that it sent by mail.
    handle_waker: M::Cell<Option<Waker>>,
}

/// An entry that a worker allocates, 128 bytes long on a 64-bit host. glibc does not merge freed blocks of up to 120
/// bytes with their neighbours (its fast bins), and returns only what is merged to the OS: without the room the memory
/// of a million timers would stay with the process when they are gone. An entry that is armed by mail has no room: it
/// is allocated on one thread and freed on another, and that is cheaper without merging.
#[repr(C)]
pub(super) struct Roomy<M: Machine, O> {
    entry: Entry<M, O>,
    room: MaybeUninit<[u8; 24]>,
}

impl<M: Machine, O> Entry<M, O> {
    fn new(owner: O, has_room: bool) -> Self {
        Entry {
            node: Node::new(deliver::<M>),
            state: M::U32::new(FREE),
            base: std::cell::Cell::new(Base::Global),
            has_room,
            polls: std::cell::Cell::new(0),
            owner: M::Cell::new(owner),
            waker: M::Cell::new(None),
            link: M::Cell::new(Link::new()),
            handle_waker: M::Cell::new(None),
        }
    }

    /// A free entry of that worker, to be armed by mail.
    pub(crate) fn allocate(owner: O) -> NonNull<Entry<M, O>> {
        NonNull::from(Box::leak(Box::new(Entry::new(owner, false))))
    }

    /// A free entry of the calling worker.
    pub(super) fn allocate_here(owner: O) -> NonNull<Entry<M, O>> {
        let roomy = Box::new(Roomy {
            entry: Entry::<M, O>::new(owner, true),
            room: MaybeUninit::uninit(),
        });
        // The entry is its first field.
        NonNull::from(Box::leak(roomy)).cast()
    }

    /// The part of a worker's count of polls that an entry keeps. Two polls that are 65,536 apart have the same
    /// tag; then a visitor leaves a timer to its worker without need.
    #[inline(always)]
    pub(crate) fn tag(polls: u64) -> u16 {
        polls as u16
    }

    /// # Safety
    /// The caller alone has the entry.
    pub(crate) unsafe fn free(entry: NonNull<Entry<M, O>>) {
        // SAFETY: the caller alone has it.
        let it = unsafe { entry.as_ref() };
        // In every build: it is a step of the machine.
        assert!(!it.is_linked(), "a timer was freed in the wheel");
        // These are steps too: a model checks by them that the handle is done with both. They stand outside of
        // `drop_quietly`, which would catch the model's panic.
        // SAFETY: the caller alone has the entry.
        let known = unsafe { it.with_handle_waker(Option::take) };
        let _ = it.owner.with_mut(|owner| owner);
        // Quietly, and one by one, because these are wakers and the caller may be the worker's own loop.
        drop_quietly(known);
        if it.has_room {
            // SAFETY: it came from `allocate_here`, and the caller alone has it.
            drop_quietly(unsafe { Box::from_raw(entry.cast::<Roomy<M, O>>().as_ptr()) });
        } else {
            // SAFETY: it came from `allocate`, and the caller alone has it.
            drop_quietly(unsafe { Box::from_raw(entry.as_ptr()) });
        }
    }

    /// Calls `f` with the link.
    ///
    /// # Safety
    /// The entry is alive, the caller may touch its link, and holds no reference to it.
    #[inline(always)]
    pub(super) unsafe fn with_link<R>(entry: *mut Self, f: impl FnOnce(&mut Link<M, O>) -> R) -> R {
        // SAFETY: the caller's promise.
        unsafe { (*entry).link.with_mut(|link| f(&mut *link)) }
    }

    /// Sets when an entry that goes by mail is to fire.
    ///
    /// # Safety
    /// The caller alone has the entry.
    pub(crate) unsafe fn set_window(&self, window: Window) {
        // SAFETY: the caller's promise.
        self.link
            .with_mut(|link| unsafe { (*link).window = window });
    }

    /// Whether it hangs in its worker's wheel. Only that worker, or the thread that frees the entry, calls this.
    pub(crate) fn is_linked(&self) -> bool {
        // SAFETY: the caller is the worker, which has the link, or has the entry alone.
        self.link.with(|link| unsafe { (*link).is_linked() })
    }

    /// Calls `f` with the handle's own copy of the waker.
    ///
    /// # Safety
    /// The caller is the handle, or has the entry alone.
    #[inline]
    pub(crate) unsafe fn with_handle_waker<R>(&self, f: impl FnOnce(&mut Option<Waker>) -> R) -> R {
        // SAFETY: the caller's promise.
        self.handle_waker
            .with_mut(|waker| f(unsafe { &mut *waker }))
    }

    /// Whether the worker has it for which `is` says so. Only the handle calls this.
    #[inline]
    pub(crate) fn is_of(&self, is: impl FnOnce(&O) -> bool) -> bool {
        // SAFETY: no worker changes it once the state has left `MAILED`, and that step was Release.
        self.state() != MAILED && self.owner.with(|owner| is(unsafe { &*owner }))
    }

    pub(crate) fn node(entry: NonNull<Self>) -> NonNull<Node<M>> {
        entry.cast()
    }

    /// The state; what its writer did before is visible.
    #[inline]
    pub(crate) fn state(&self) -> u32 {
        // ORDER: Acquire pairs with the Release of `fire` and `orphan`: what the worker did
        // before is visible to the handle.
        self.state.load(Ordering::Acquire)
    }

    /// A transition without a race: the caller has the entry alone, or is its worker and has its handle.
    #[inline]
    pub(crate) fn set(&self, state: u32) {
        // ORDER: Relaxed; the other side gets the entry by a mailbox, or by a later exchange
        // of this word on this thread.
        self.state.store(state, Ordering::Relaxed);
    }

    /// The worker found the timer due and has unlinked it.
    ///
    /// # Safety
    /// The entry is alive, and the caller is its worker. The result says whose the entry is from now on.
    pub(crate) unsafe fn fire(entry: NonNull<Self>) -> Fire {
        // SAFETY: passed on.
        unsafe { Self::leave_wheel(entry, FIRED) }
    }

    /// The worker ends and has unlinked the timer.
    ///
    /// # Safety
    /// As for [`Entry::fire`].
    pub(crate) unsafe fn orphan(entry: NonNull<Self>) -> Fire {
        // SAFETY: passed on.
        unsafe { Self::leave_wheel(entry, ORPHANED) }
    }

    /// The state word alone. After a transition that gives the entry away, no reference to the
    /// whole entry may exist.
    ///
    /// # Safety
    /// The entry is alive when this is called.
    unsafe fn word<'a>(entry: NonNull<Self>) -> &'a M::U32 {
        // SAFETY: the caller's promise.
        unsafe { &(*entry.as_ptr()).state }
    }

    /// # Safety
    /// As for [`Entry::fire`].
    unsafe fn leave_wheel(entry: NonNull<Self>, to: u32) -> Fire {
        // SAFETY: the caller's promise.
        let word = unsafe { Self::word(entry) };
        if M::breaks(Bug::WheelFireBlind) {
            // ORDER: the mutant; it overwrites the mark of a handle that is dropped at this moment.
            word.store(to, Ordering::Release);
            return Fire::Wake;
        }
        // ORDER: AcqRel; Release pairs with the Acquire of the handle's loads and exchanges: the
        // worker is done with it. Acquire pairs with `abandon`: so is the handle.
        match word.swap(to, Ordering::AcqRel) {
            ARMED => Fire::Wake,
            ABANDONED => Fire::Abandoned,
            ROUSED => Fire::Roused,
            _ => {
                M::mark(Mark::WheelFiredCancelled);
                Fire::Cancelled
            }
        }
    }

    /// The handle is dropped on a thread that is not the worker.
    ///
    /// # Safety
    /// The entry is alive, and the caller is its handle. The result says what is left to do.
    pub(crate) unsafe fn cancel(entry: NonNull<Self>) -> Cancel {
        // SAFETY: passed on.
        unsafe { Self::leave_handle(entry, CANCELLED) }
    }

    /// As [`Entry::cancel`], and the worker that has the waker wakes it.
    ///
    /// # Safety
    /// As for [`Entry::cancel`].
    pub(crate) unsafe fn rouse(entry: NonNull<Self>) -> Cancel {
        // SAFETY: passed on.
        unsafe { Self::leave_handle(entry, ROUSED) }
    }

    /// # Safety
    /// As for [`Entry::cancel`].
    unsafe fn leave_handle(entry: NonNull<Self>, to: u32) -> Cancel {
        // SAFETY: the caller's promise.
        let word = unsafe { Self::word(entry) };
        // ORDER: AcqRel; the worker that frees it sees that the handle is done with it, and a
        // handle that frees or posts it sees that the worker is.
        match word.swap(to, Ordering::AcqRel) {
            ARMED => {
                M::mark(Mark::WheelCancelElsewhere);
                Cancel::Post
            }
            MAILED => Cancel::Nothing,
            _ => Cancel::Free,
        }
    }

    /// The message of a cancelled handle found the mailbox closed. The worker may still have the
    /// timer in its wheel: of worker and handle, the one that comes second frees the entry. Returns whether
    /// that is the handle.
    ///
    /// # Safety
    /// The entry was cancelled by the caller, and its message not taken.
    pub(crate) unsafe fn abandon(entry: NonNull<Self>) -> bool {
        // SAFETY: the caller's promise.
        let word = unsafe { Self::word(entry) };
        // ORDER: AcqRel; pairs with the exchange in `leave_wheel`, in both directions.
        !matches!(word.swap(ABANDONED, Ordering::AcqRel), CANCELLED | ROUSED)
    }

    /// The worker takes in a mailed entry. `false` if the handle was dropped meanwhile.
    pub(crate) fn accept(&self) -> bool {
        // ORDER: Acquire on failure pairs with `cancel`. Release pairs with it too: a handle that
        // posts the entry again sees that it has left the mailbox; unshown because in a model no store of the
        // handle overtakes the worker's earlier load of the link.
        self.state
            .compare_exchange(MAILED, ARMED, Ordering::Release, Ordering::Acquire)
            .is_ok()
    }
}

/// # Safety
/// As for [`crate::link::Deliver`], for the node of an entry.
unsafe fn deliver<M: Machine>(_node: NonNull<Node<M>>) -> Delivered {
    Delivered::Timer
}
