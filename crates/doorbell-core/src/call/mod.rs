//! Calls: closures that a worker runs for another thread. See README.md in this folder.
//!
//! A call that is *awaited* is a task of [`Kind::Call`](crate::task::Kind): it lives on the
//! heap, because its future can be dropped at any time. A call that a thread *blocks* on needs no
//! heap: the thread cannot leave before the callee is done, so the call lies on the thread's stack.
//!
//! The state word of such a call:
//!
//! | value | name | meaning |
//! |---|---|---|
//! | 0 | `POSTED` | the callee has not finished; the caller spins |
//! | 1 | `SLEEPING` | the callee has not finished; the caller's waiter lies in the call |
//! | 2 | `DONE` | the result is in the call, and the callee never touches it again |

#[cfg(test)]
mod loom;
#[cfg(test)]
mod loom_many;
mod many;
#[cfg(test)]
mod many_tests;
mod many_typed;
#[cfg(test)]
mod tests;

pub use many::{ManyTable, RawMany, launch_many};
pub use many_typed::{Many, ManyCall, Outcome};

use crate::link::{Delivered, Node};
use crate::mailbox::{Gone, Post, Posted};
use crate::task::Payload;
use crate::wait::Waiter;
use doorbell_machine::{Bug, Cell, Line, Machine, Ordering, Spun, Word};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

const POSTED: u32 = 0;
const SLEEPING: u32 = 1;
const DONE: u32 = 2;
const _: () = assert!(POSTED != SLEEPING && SLEEPING != DONE && DONE != POSTED);

/// How many bytes of closure and result travel inside the call's own line.
pub const INLINE_BYTES: usize = 32;

/// How long a caller spins for the result before it parks. It is longer than waking a parked worker
/// takes (8 to 30 µs on the machines seen), so that a call to a parked worker costs one wake, not two.
pub const SPIN_NS: u64 = 50_000;

/// A closure with its result's place, without its type.
#[derive(Debug)]
pub struct ErasedCall {
    data: NonNull<u8>,
    size: usize,
    align: usize,
    run: unsafe fn(*mut u8),
}

/// First the closure, then what came of it. Never smaller than what travels inline, so that
/// this much can always be copied.
union CallStage<F, R> {
    closure: ManuallyDrop<F>,
    result: ManuallyDrop<Result<R, Payload>>,
    _room: Inline,
}

/// Calls `f` through `post`, which gets the erased closure and calls [`wait_for`] with it.
///
/// # Errors
/// [`CallFailed::Gone`] with the closure if `post` says that the worker is gone, and
/// [`CallFailed::Panicked`] if the closure panicked.
///
/// # Safety
/// `post` returns `Ok` only after [`wait_for`] did for this very call, and `Err` only if the call did not
/// run. It keeps nothing of the call, and does not unwind while another thread has it.
pub unsafe fn blocking<F, R>(
    f: F,
    post: impl FnOnce(ErasedCall) -> Result<(), Gone>,
) -> Result<R, CallFailed<F>>
where
    F: FnOnce() -> R,
{
    let mut stage = CallStage::<F, R> {
        closure: ManuallyDrop::new(f),
    };
    let call = ErasedCall {
        data: NonNull::from(&mut stage).cast(),
        size: size_of::<CallStage<F, R>>(),
        align: align_of::<CallStage<F, R>>(),
        run: run::<F, R>,
    };
    match post(call) {
        // SAFETY: it ran, so the result was written.
        Ok(()) => ManuallyDrop::into_inner(unsafe { stage.result }).map_err(CallFailed::Panicked),
        // SAFETY: it did not run, so the closure is still there.
        Err(Gone) => Err(CallFailed::Gone(ManuallyDrop::into_inner(unsafe {
            stage.closure
        }))),
    }
}

/// Why a blocking call has no result.
#[derive(Debug)]
pub enum CallFailed<F> {
    /// The worker is gone; here is the closure.
    Gone(F),
    /// The closure panicked.
    Panicked(Payload),
}

/// # Safety
/// `data` holds a `CallStage<F, R>` with a closure that nobody else uses now.
unsafe fn run<F: FnOnce() -> R, R>(data: *mut u8) {
    let stage = data.cast::<CallStage<F, R>>();
    // SAFETY: the caller's promise; the closure is moved out once.
    let closure = unsafe { ManuallyDrop::take(&mut (*stage).closure) };
    let result = catch_unwind(AssertUnwindSafe(closure)).map_err(Payload::new);
    // SAFETY: valid for writes, and the closure is gone.
    unsafe { (*stage).result = ManuallyDrop::new(result) };
}

/// What lies on the caller's stack. Its first 64 bytes are one line.
#[repr(C)]
struct StackCall<M: Machine> {
    node: Node<M>,
    run: unsafe fn(*mut u8),
    state: M::U32,
    /// The closure and then its result; or the address of the stage, if that is too large.
    inline: M::Cell<Inline>,
    waiter: M::Cell<Option<Arc<Waiter<M>>>>,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
union Inline {
    bytes: [MaybeUninit<u8>; INLINE_BYTES],
    outside: *mut u8,
}

// SAFETY: caller and callee use a slot in turn, by the protocol of its state word.
unsafe impl<M: Machine> Send for StackCall<M> {}
// SAFETY: as above.
unsafe impl<M: Machine> Sync for StackCall<M> {}

/// Posts a call to a worker and waits until it has run.
///
/// # Errors
/// [`Gone`] if the worker is gone; the closure is untouched.
///
/// # Safety
/// `call` comes from [`blocking`], which has not returned yet, and is waited for once.
/// The closure and its result may be sent to the worker's thread and back. The caller is not the worker
/// itself, which would wait for itself.
pub unsafe fn wait_for<M: Machine>(worker: &impl Post<M>, call: &ErasedCall) -> Result<(), Gone> {
    let fits = call.size <= INLINE_BYTES && call.align <= align_of::<Inline>();
    let inline = if fits {
        // SAFETY: `blocking` made the stage at least this large, and at least as aligned.
        unsafe { call.data.cast::<Inline>().read() }
    } else {
        Inline {
            outside: call.data.as_ptr(),
        }
    };
    let slot: M::Line<StackCall<M>> = M::Line::new(|| StackCall {
        node: Node::new(if fits {
            deliver_inline
        } else {
            deliver_outside
        }),
        run: call.run,
        state: M::U32::new(POSTED),
        inline: M::Cell::new(inline),
        waiter: M::Cell::new(None),
    });
    // SAFETY: the slot stays in place until DONE, which `await_done` waits for without unwinding.
    if unsafe { worker.post(NonNull::from(&*slot).cast()) } == Posted::Closed {
        return Err(Gone);
    }
    await_done::<M>(&slot);
    if fits {
        // SAFETY: the result, moved back to where `blocking` looks for it.
        slot.inline
            .with(|inline| unsafe { call.data.cast::<Inline>().write(inline.read()) });
    }
    Ok(())
}

/// Waits for DONE. Never unwinds, because the callee still has the slot.
fn await_done<M: Machine>(slot: &M::Line<StackCall<M>>) {
    // ORDER: Acquire pairs with the callee's Release of DONE: the result is visible.
    let done = |slot: &StackCall<M>| slot.state.load(Ordering::Acquire) == DONE;
    match M::spin(slot, SPIN_NS, done) {
        Spun::Changed => return,
        Spun::Deadline => {}
    }
    let waiter = Arc::new(Waiter::<M>::default());
    // SAFETY: while the state is POSTED the cell is the caller's.
    slot.waiter
        .with_mut(|cell| unsafe { *cell = Some(Arc::clone(&waiter)) });
    let asleep = if M::breaks(Bug::CallSleepSilently) {
        Ok(POSTED)
    } else {
        // ORDER: Release pairs with the callee's Acquire: it sees the waiter. Acquire on
        // failure pairs with its Release of DONE: the result is visible.
        slot.state
            .compare_exchange(POSTED, SLEEPING, Ordering::Release, Ordering::Acquire)
    };
    if asleep.is_err() {
        return;
    }
    loop {
        waiter.wait(0);
        // ORDER: Acquire pairs with the callee's Release of DONE; redundant because the wait ends only
        // by the callee's notification, which comes after DONE and is acquired by the bell.
        if slot.state.load(Ordering::Acquire) == DONE {
            return;
        }
    }
}

/// # Safety
/// As for [`crate::link::Deliver`], for the node of a slot whose closure lies inline.
unsafe fn deliver_inline<M: Machine>(node: NonNull<Node<M>>) -> Delivered {
    let slot = node.cast::<StackCall<M>>();
    // SAFETY: the node is a slot's first field, and its caller waits until DONE.
    let it = unsafe { slot.as_ref() };
    // SAFETY: posted to this worker, so the closure is its to run.
    it.inline
        .with_mut(|inline| unsafe { (it.run)(inline.cast()) });
    // SAFETY: passed on from the caller.
    unsafe { finish(slot) };
    Delivered::Done
}

/// # Safety
/// As for [`crate::link::Deliver`], for the node of a slot whose closure lies elsewhere.
unsafe fn deliver_outside<M: Machine>(node: NonNull<Node<M>>) -> Delivered {
    let slot = node.cast::<StackCall<M>>();
    // SAFETY: as in `deliver_inline`.
    let it = unsafe { slot.as_ref() };
    // SAFETY: as in `deliver_inline`; the address was stored by `wait_for`.
    it.inline
        .with_mut(|inline| unsafe { (it.run)((*inline).outside) });
    // SAFETY: passed on from the caller.
    unsafe { finish(slot) };
    Delivered::Done
}

/// Sets DONE, and wakes the caller if it sleeps.
///
/// # Safety
/// The slot's closure has run; the slot may be gone when this returns.
#[inline(always)]
unsafe fn finish<M: Machine>(slot: NonNull<StackCall<M>>) {
    let order = if M::breaks(Bug::CallDoneRelaxed) {
        Ordering::Relaxed
    } else {
        Ordering::Release
    };
    // SAFETY: not DONE yet, so the slot is alive.
    let state = unsafe { &slot.as_ref().state };
    // ORDER: Release pairs with the caller's Acquire of DONE: it sees the result. Acquire on
    // failure pairs with its Release of SLEEPING: the waiter is visible.
    let done = state.compare_exchange(POSTED, DONE, order, Ordering::Acquire);
    if M::breaks(Bug::CallTouchAfterDone) {
        // SAFETY: none; this is the mutant.
        unsafe { slot.as_ref() }.inline.with_mut(|_| ());
    }
    if done.is_ok() {
        return;
    }
    // SAFETY: SLEEPING, not DONE: the slot is alive, and the cell is the callee's.
    let waiter = unsafe { slot.as_ref() }
        .waiter
        .with_mut(|cell| unsafe { (*cell).take() });
    // ORDER: Release pairs with the caller's Acquire; redundant because a caller that sleeps looks only
    // when it was notified, below.
    state.store(DONE, Ordering::Release);
    if let Some(waiter) = waiter {
        waiter.notify();
    }
}
