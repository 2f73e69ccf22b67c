//! The part of a call to many cores that knows the types of closure and results.

use super::many::{ManyTable, RawMany};
use crate::quiet::drop_quietly;
use crate::task::Payload;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// The outcome of the call on one core.
#[derive(Debug)]
pub enum Outcome<R> {
    /// The closure returned.
    Done(R),
    /// The closure panicked.
    Panicked(Payload),
    /// The worker is gone; the closure did not run there.
    Gone,
}

/// The closure. The results follow it in the same memory.
#[repr(C)]
struct Head<F, R> {
    f: ManuallyDrop<F>,
    slots: NonNull<ResultSlot<R>>,
    count: usize,
}

struct ResultSlot<R> {
    core: usize,
    outcome: UnsafeCell<Option<Outcome<R>>>,
}

/// A closure for some cores, ready to be launched.
#[derive(Debug)]
pub struct ManyCall<'a, F, R> {
    f: F,
    cores: &'a [usize],
    results: PhantomData<fn() -> R>,
}

impl<'a, F: Fn(usize) -> R, R> ManyCall<'a, F, R> {
    /// A call of `f` on each of `cores`, with the core as its argument.
    pub fn new(f: F, cores: &'a [usize]) -> Self {
        ManyCall {
            f,
            cores,
            results: PhantomData,
        }
    }

    /// The functions for [`super::launch_many`].
    pub const TABLE: &'static ManyTable = &ManyTable {
        run: run::<F, R>,
        gone: gone::<F, R>,
        clear: clear::<F, R>,
    };

    fn layout_of(count: usize) -> (Layout, usize) {
        let layout = Layout::array::<ResultSlot<R>>(count)
            .and_then(|slots| Layout::new::<Head<F, R>>().extend(slots));
        layout.expect("results that fit in memory fit with their closure")
    }

    /// The memory that closure and results need.
    pub fn layout(&self) -> Layout {
        Self::layout_of(self.cores.len()).0
    }

    /// Writes closure and results.
    ///
    /// # Safety
    /// `data` is valid for writes of [`ManyCall::layout`].
    pub unsafe fn write(self, data: NonNull<u8>) {
        let (_, slots_at) = Self::layout_of(self.cores.len());
        // SAFETY: inside the layout.
        let slots = unsafe { data.add(slots_at) }.cast::<ResultSlot<R>>();
        for (index, &core) in self.cores.iter().enumerate() {
            let outcome = UnsafeCell::new(None);
            // SAFETY: as above.
            unsafe { slots.add(index).write(ResultSlot { core, outcome }) };
        }
        let head = Head {
            f: ManuallyDrop::new(self.f),
            slots,
            count: self.cores.len(),
        };
        // SAFETY: as above.
        unsafe { data.cast::<Head<F, R>>().write(head) };
    }
}

/// # Safety
/// `data` was written by [`ManyCall::write`] with these types. The caller runs the call of `index`, once.
unsafe fn run<F: Fn(usize) -> R, R>(data: NonNull<u8>, index: usize) {
    // SAFETY: the caller's promise; while calls are under way the closure is only shared.
    let head = unsafe { data.cast::<Head<F, R>>().as_ref() };
    // SAFETY: below the count.
    let slot = unsafe { head.slots.add(index).as_ref() };
    let outcome = match catch_unwind(AssertUnwindSafe(|| (head.f)(slot.core))) {
        Ok(result) => Outcome::Done(result),
        Err(payload) => Outcome::Panicked(Payload::new(payload)),
    };
    // SAFETY: the slot of this call, which was empty.
    unsafe { slot.outcome.get().write(Some(outcome)) };
}

/// # Safety
/// As for [`run`].
unsafe fn gone<F, R>(data: NonNull<u8>, index: usize) {
    // SAFETY: as in `run`.
    let head = unsafe { data.cast::<Head<F, R>>().as_ref() };
    // SAFETY: as in `run`.
    let outcome = unsafe { head.slots.add(index).as_ref() }.outcome.get();
    // SAFETY: as in `run`.
    unsafe { outcome.write(Some(Outcome::Gone)) };
}

/// # Safety
/// `data` is as for [`run`]; no other thread uses it, and nothing uses it afterwards.
unsafe fn clear<F, R>(data: NonNull<u8>) {
    // SAFETY: the caller's promise.
    let head = unsafe { data.cast::<Head<F, R>>().as_mut() };
    for index in 0..head.count {
        // SAFETY: below the count, and used for the last time.
        let outcome = unsafe { head.slots.add(index).as_ref() }.outcome.get();
        // SAFETY: as above.
        drop_quietly(unsafe { outcome.read() });
    }
    // SAFETY: dropped once.
    drop_quietly(unsafe { ManuallyDrop::take(&mut head.f) });
}

/// Calls under way on many cores: a future of all outcomes, in the order of the cores.
///
/// Dropping it withdraws the calls that have not begun.
///
/// # Panics
/// If it is polled again after it was ready.
#[derive(Debug)]
pub struct Many<R> {
    raw: RawMany,
    slots: Slots<R>,
    outcomes: OutcomesState,
}

/// What the waiter knows of the outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutcomesState {
    /// Some call was under way when it was last polled.
    Awaited,
    /// Every call has ended.
    There,
    Taken,
}

/// Where the results lie.
#[derive(Debug)]
struct Slots<R> {
    first: NonNull<ResultSlot<R>>,
    count: usize,
}

// SAFETY: the results are Send if R is; the block's words guard the rest.
unsafe impl<R: Send> Send for Many<R> {}
// SAFETY: a shared reference gives no access to the results.
unsafe impl<R: Send> Sync for Many<R> {}

impl<R> Unpin for Many<R> {}

impl<R> Many<R> {
    /// The waiter's side with its types.
    ///
    /// # Safety
    /// `raw` was launched with the table of `ManyCall<F, R>`, and was not polled.
    pub unsafe fn typed<F: Fn(usize) -> R>(raw: RawMany) -> Self {
        // SAFETY: the caller's promise; the calls change only their slots, and what the closure guards itself.
        let head = unsafe { raw.data().cast::<Head<F, R>>().as_ref() };
        let slots = Slots {
            first: head.slots,
            count: head.count,
        };
        Many {
            raw,
            slots,
            outcomes: OutcomesState::Awaited,
        }
    }

    /// Blocks until every call has ended: spins for a while, then parks. Does not unwind before that.
    /// Must not be called on a worker, which could wait for itself.
    pub fn wait(mut self) -> Vec<Outcome<R>> {
        self.raw.wait();
        self.outcomes = OutcomesState::There;
        self.take()
    }

    /// Ready when every call has ended. The outcomes stay where they are: [`Many::take`] takes them.
    ///
    /// # Panics
    /// If they were taken before.
    #[track_caller]
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.outcomes {
            OutcomesState::There => return Poll::Ready(()),
            OutcomesState::Awaited => {}
            OutcomesState::Taken => panic!("polled again after it was ready"),
        }
        let polled = self.raw.poll(cx);
        if polled.is_ready() {
            self.outcomes = OutcomesState::There;
        }
        polled
    }

    /// Takes the outcomes, after [`Many::poll_ended`] was ready.
    ///
    /// # Panics
    /// If it was not ready, or if they were taken before.
    #[track_caller]
    pub fn take(&mut self) -> Vec<Outcome<R>> {
        assert!(
            self.outcomes == OutcomesState::There,
            "outcomes were taken before all calls had ended, or twice"
        );
        self.outcomes = OutcomesState::Taken;
        let slots = (0..self.slots.count).map(|index| {
            // SAFETY: below the count; every call has ended, so the results belong to the waiter.
            let outcome = unsafe { self.slots.first.add(index).as_ref() }
                .outcome
                .get();
            // SAFETY: as above.
            unsafe { (*outcome).take() }.expect("a call that ended has an outcome")
        });
        slots.collect()
    }
}

impl<R> Future for Many<R> {
    type Output = Vec<Outcome<R>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_ended(cx).map(|()| self.take())
    }
}
