//! The lists of a driver's sources: stacks that any thread pushes to, and lists of the sweeper's own.

use super::source::Source;
use doorbell_machine::{Cell, Machine, Ordering, PtrWord};
use std::ptr::{NonNull, null_mut};

/// The links of a source: two of stacks that any thread pushes to, two of the sweeper's list.
pub(super) struct SourceLinks<M: Machine> {
    /// By number of the stack.
    stacks: [M::Cell<*mut Source<M>>; 2],
    prev: M::Cell<*mut Source<M>>,
    next: M::Cell<*mut Source<M>>,
}

impl<M: Machine> std::fmt::Debug for SourceLinks<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}

// SAFETY: each link belongs to who pushes until the push, then to who takes the stack; those of the
// list to the sweeper.
unsafe impl<M: Machine> Send for SourceLinks<M> {}
// SAFETY: as above.
unsafe impl<M: Machine> Sync for SourceLinks<M> {}

impl<M: Machine> Default for SourceLinks<M> {
    fn default() -> Self {
        SourceLinks {
            stacks: [M::Cell::new(null_mut()), M::Cell::new(null_mut())],
            prev: M::Cell::new(null_mut()),
            next: M::Cell::new(null_mut()),
        }
    }
}

fn get<M: Machine>(link: &M::Cell<*mut Source<M>>) -> *mut Source<M> {
    // SAFETY: the caller's thread has the link.
    link.with(|link| unsafe { *link })
}

fn set<M: Machine>(link: &M::Cell<*mut Source<M>>, to: *mut Source<M>) {
    // SAFETY: as in `get`.
    link.with_mut(|link| unsafe { *link = to });
}

/// How a push ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StackPushed {
    Yes,
    /// The stack is closed; the caller keeps the source.
    Closed,
}

/// A stack of sources, which uses the link with this number. Any thread pushes; only the sweeper takes, all
/// at once.
pub(super) struct Stack<M: Machine, const LINK: usize>(M::Ptr<Source<M>>);

impl<M: Machine, const LINK: usize> Default for Stack<M, LINK> {
    fn default() -> Self {
        Stack(M::Ptr::new(null_mut()))
    }
}

impl<M: Machine, const LINK: usize> Stack<M, LINK> {
    /// The head of a closed stack. No source lies at this address.
    fn closed() -> *mut Source<M> {
        std::ptr::without_provenance_mut(1)
    }

    /// Pushes a source.
    ///
    /// # Safety
    /// It is in no stack of this link, and stays in place until it was taken.
    pub(super) unsafe fn push(&self, source: NonNull<Source<M>>) -> StackPushed {
        // SAFETY: the source is alive, says the caller.
        let link = unsafe { &source.as_ref().links.stacks[LINK] };
        // ORDER: Relaxed; a first guess, the exchange below decides.
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            if head == Self::closed() {
                return StackPushed::Closed;
            }
            set::<M>(link, head);
            // ORDER: Release pairs with the Acquire of `take_and_leave`: the source is visible, and that it was
            // taken out of the poller. Relaxed on failure: only the next guess.
            match self.0.compare_exchange_weak(
                head,
                source.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return StackPushed::Yes,
                Err(now) => head = now,
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        // ORDER: Relaxed; a hint, a later push is taken the next time.
        let head = self.0.load(Ordering::Relaxed);
        head.is_null() || head == Self::closed()
    }

    /// Takes all, the last one first.
    pub(super) fn take(&self) -> TakenSources<M, LINK> {
        // ORDER: Relaxed; a worker that ends closes it, when no thread sweeps any more.
        if self.0.load(Ordering::Relaxed) == Self::closed() {
            return TakenSources(null_mut());
        }
        self.take_and_leave(null_mut())
    }

    /// Takes all, and nothing can be pushed any more.
    pub(super) fn close(&self) -> TakenSources<M, LINK> {
        self.take_and_leave(Self::closed())
    }

    fn take_and_leave(&self, left: *mut Source<M>) -> TakenSources<M, LINK> {
        // ORDER: Acquire pairs with the Release of every push before.
        let head = self.0.swap(left, Ordering::Acquire);
        let is_none = head == Self::closed();
        TakenSources(if is_none { null_mut() } else { head })
    }
}

/// What was taken. The link of each is read before it is handed out.
pub(super) struct TakenSources<M: Machine, const LINK: usize>(*mut Source<M>);

impl<M: Machine, const LINK: usize> Iterator for TakenSources<M, LINK> {
    type Item = NonNull<Source<M>>;

    fn next(&mut self) -> Option<NonNull<Source<M>>> {
        let source = NonNull::new(self.0)?;
        // SAFETY: taken, and not handed out yet.
        self.0 = get::<M>(unsafe { &source.as_ref().links.stacks[LINK] });
        Some(source)
    }
}

/// The sweeper's list.
pub(super) struct SourceList<M: Machine>(M::Cell<*mut Source<M>>);

impl<M: Machine> Default for SourceList<M> {
    fn default() -> Self {
        SourceList(M::Cell::new(null_mut()))
    }
}

impl<M: Machine> SourceList<M> {
    /// # Safety
    /// No other thread sweeps, and the source is alive and in no list.
    pub(super) unsafe fn push(&self, source: NonNull<Source<M>>) {
        let first = get::<M>(&self.0);
        // SAFETY: the caller's promise.
        let links = unsafe { &source.as_ref().links };
        set::<M>(&links.next, first);
        set::<M>(&links.prev, null_mut());
        // SAFETY: null, or one of the list.
        if let Some(first) = unsafe { first.as_ref() } {
            set::<M>(&first.links.prev, source.as_ptr());
        }
        set::<M>(&self.0, source.as_ptr());
    }

    /// # Safety
    /// No other thread sweeps, and the source is in this list.
    pub(super) unsafe fn remove(&self, source: NonNull<Source<M>>) {
        // SAFETY: the caller's promise.
        let links = unsafe { &source.as_ref().links };
        let (prev, next) = (get::<M>(&links.prev), get::<M>(&links.next));
        // SAFETY: null, or one of the list.
        match unsafe { prev.as_ref() } {
            Some(prev) => set::<M>(&prev.links.next, next),
            None => set::<M>(&self.0, next),
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { next.as_ref() } {
            set::<M>(&next.links.prev, prev);
        }
    }

    /// All sources of the list. The link of each is read before it is handed out.
    ///
    /// # Safety
    /// No other thread sweeps.
    pub(super) unsafe fn iter(&self) -> impl Iterator<Item = NonNull<Source<M>>> {
        let mut next = get::<M>(&self.0);
        std::iter::from_fn(move || {
            let source = NonNull::new(next)?;
            // SAFETY: one of the list.
            next = get::<M>(unsafe { &source.as_ref().links.next });
            Some(source)
        })
    }

    /// Takes out the first source.
    ///
    /// # Safety
    /// As for [`SourceList::iter`].
    pub(super) unsafe fn take_first(&self) -> Option<NonNull<Source<M>>> {
        let first = NonNull::new(get::<M>(&self.0))?;
        // SAFETY: the first one of the list.
        unsafe { self.remove(first) };
        Some(first)
    }
}
