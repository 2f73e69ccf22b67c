//! The part of a task that depends on its future's type, behind a table of functions: the
//! state machine around it is compiled once per machine, not once per future.

use super::error::{JoinError, Payload};
use crate::quiet::drop_quietly;
use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a body holds.
enum Stage<F: Future> {
    Future(F),
    Output(Result<F::Output, JoinError>),
    Gone,
}

/// The functions of a body. All take its address.
#[derive(Debug)]
pub struct BodyVtable {
    pub(crate) layout: Layout,
    /// Polls; on `Ready` the output is stored, also that of a panic.
    pub(crate) poll: unsafe fn(*mut u8, &mut Context<'_>) -> Poll<()>,
    /// Drops the future; the output is `Cancelled`, or the panic of that drop.
    pub(crate) cancel: unsafe fn(*mut u8),
    /// Moves the output, a `Result<T, JoinError>`, to the second address.
    pub(crate) take: unsafe fn(*mut u8, *mut u8),
    /// Drops whatever is left.
    pub(crate) clear: unsafe fn(*mut u8),
}

impl BodyVtable {
    /// The table of bodies that hold an `F`.
    pub const fn of<F: Future>() -> &'static BodyVtable {
        const {
            &BodyVtable {
                layout: Layout::new::<Stage<F>>(),
                poll: poll::<F>,
                cancel: cancel::<F>,
                take: take::<F>,
                clear: clear::<F>,
            }
        }
    }
}

/// Writes a body that holds `future` to where [`launch`](crate::worker::launch) says.
///
/// # Safety
/// `body` is valid for writes of the layout of `BodyVtable::of::<F>()` and holds nothing.
pub unsafe fn write_body<F: Future>(body: *mut u8, future: F) {
    // SAFETY: the caller's promise.
    unsafe { body.cast::<Stage<F>>().write(Stage::Future(future)) };
}

/// # Safety
/// `body` holds a `Stage<F>` that nobody else uses now.
unsafe fn poll<F: Future>(body: *mut u8, cx: &mut Context<'_>) -> Poll<()> {
    let stage = body.cast::<Stage<F>>();
    let polled = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's promise.
        match unsafe { &mut *stage } {
            // SAFETY: the body never moves: it lies in the task's allocation until cleared.
            Stage::Future(future) => unsafe { Pin::new_unchecked(future) }.poll(cx),
            Stage::Output(_) | Stage::Gone => unreachable!("a complete task was polled"),
        }
    }));
    let output = match polled {
        Ok(Poll::Pending) => return Poll::Pending,
        Ok(Poll::Ready(output)) => Ok(output),
        Err(payload) => Err(JoinError::Panicked(Payload::new(payload))),
    };
    // SAFETY: as above.
    unsafe { finish(stage, output) };
    Poll::Ready(())
}

/// # Safety
/// As for [`poll`].
unsafe fn cancel<F: Future>(body: *mut u8) {
    // SAFETY: passed on from the caller.
    unsafe { finish(body.cast::<Stage<F>>(), Err(JoinError::Cancelled)) };
}

/// Drops the future and stores `output`, or the panic of that drop.
///
/// # Safety
/// `stage` is valid and nobody else uses it now.
unsafe fn finish<F: Future>(stage: *mut Stage<F>, output: Result<F::Output, JoinError>) {
    let dropped = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: valid; what lies there afterwards is overwritten below without another drop.
        unsafe { std::ptr::drop_in_place(stage) };
    }));
    let output = match dropped {
        Ok(()) => output,
        Err(payload) => {
            drop_quietly(output);
            Err(JoinError::Panicked(Payload::new(payload)))
        }
    };
    // SAFETY: valid for writes; the old value was dropped above.
    unsafe { stage.write(Stage::Output(output)) };
}

/// # Safety
/// `body` holds a `Stage<F>` with an output that nobody else uses now; `to` is valid for
/// writes of a `Result<F::Output, JoinError>`.
unsafe fn take<F: Future>(body: *mut u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    let stage = unsafe { std::mem::replace(&mut *body.cast::<Stage<F>>(), Stage::Gone) };
    let Stage::Output(output) = stage else {
        unreachable!("an output was taken twice, or before it was there");
    };
    // SAFETY: the caller's promise.
    unsafe { to.cast::<Result<F::Output, JoinError>>().write(output) };
}

/// # Safety
/// `body` holds a `Stage<F>` that nobody else uses now.
unsafe fn clear<F: Future>(body: *mut u8) {
    let stage = body.cast::<Stage<F>>();
    let dropped = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's promise. In place: a future may be too large for the stack.
        unsafe { std::ptr::drop_in_place(stage) };
    }));
    // SAFETY: valid for writes; the old value was dropped above.
    unsafe { stage.write(Stage::Gone) };
    if let Err(payload) = dropped {
        drop_quietly(payload);
    }
}

/// A future that calls a closure at its first poll: the body of a call.
#[derive(Debug)]
pub struct Once<F>(Option<F>);

impl<F> Once<F> {
    /// A future of `f`'s result.
    pub fn new(f: F) -> Self {
        Once(Some(f))
    }
}

// The closure is never pinned: it is moved out to be called.
impl<F> Unpin for Once<F> {}

impl<R, F: FnOnce() -> R> Future for Once<F> {
    type Output = R;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<R> {
        let f = self.0.take().expect("polled again after it was ready");
        Poll::Ready(f())
    }
}
