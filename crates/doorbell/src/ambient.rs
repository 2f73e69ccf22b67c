//! How the free functions find the runtime that they are called in: one pointer of the thread
//! to a frame, and in it an object-safe trait. One indirect call, whatever the machine.

use crate::handle::Handle;
use crate::metrics::Metrics;
use crate::{CoreId, Switches};
use doorbell_core::bell::LaneState;
use doorbell_core::call::{ErasedCall, Gone};
use doorbell_core::task::{BodyVtable, Kind, RawJoin};
use doorbell_core::wheel::RawTimer;
use doorbell_machine::slots;
use std::cell::Cell;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Waker;

/// A runtime without its machine.
pub(crate) trait Ambient: std::fmt::Debug + Send + Sync {
    /// How many cores it has; at least one.
    fn cores(&self) -> usize;

    /// The core for a task that may run anywhere, if the caller is on none of its lanes.
    fn next_core(&self) -> usize;

    /// Makes a task of a body and hands it to the lane of `core`, which is below `cores()`.
    ///
    /// # Safety
    /// As for [`doorbell_core::task::launch`]; `write` is called once.
    unsafe fn launch(
        &self,
        core: usize,
        kind: Kind,
        vtable: &'static BodyVtable,
        write: &mut dyn FnMut(*mut u8),
    ) -> RawJoin;

    /// Calls and waits.
    ///
    /// # Safety
    /// As for [`doorbell_core::call::wait_for`].
    unsafe fn call_blocking(&self, core: usize, call: &ErasedCall) -> Result<(), Gone>;

    /// Runs a future on the calling thread.
    fn block_on(&self, future: Pin<&mut dyn Future<Output = ()>>);

    /// The time by the runtime's clock.
    fn now_ns(&self) -> u64;

    /// Arms a timer: on the lane that the caller runs on, else on one of this runtime's.
    ///
    /// # Errors
    /// [`Gone`] if that lane has ended.
    fn arm_timer(&self, when_ns: u64, waker: &Waker) -> Result<RawTimer, Gone>;

    /// All counts at this moment.
    fn metrics(&self) -> Metrics;

    /// What the lane of `core`, which is below `cores()`, does now.
    fn lane_state(&self, core: usize) -> LaneState;

    /// The settings of the switches now.
    fn switches(&self) -> Switches;

    /// Changes them.
    fn set_switches(&self, switches: Switches);
}

/// One entered runtime of a thread. Frames form a stack, linked from the newest.
pub(crate) struct Frame {
    handle: Handle,
    /// The core whose lane the thread is; `None` for other threads.
    core: Option<usize>,
    /// The next core for a task that may run anywhere.
    cursor: Cell<usize>,
    older: Cell<*const Frame>,
}

/// Keeps a frame on its thread's stack of frames. Frames may be dropped in any order.
pub(crate) struct Entered {
    frame: Box<Frame>,
    /// It belongs to the thread that entered.
    not_send: PhantomData<*const ()>,
}

/// Enters a runtime on this thread, as the lane of `core` or as another thread.
pub(crate) fn enter(handle: Handle, core: Option<usize>) -> Entered {
    let frame = Box::new(Frame {
        handle,
        core,
        cursor: Cell::new(core.unwrap_or(0)),
        older: Cell::new(slots::ambient().cast()),
    });
    slots::set_ambient(std::ptr::from_ref(&*frame).cast());
    Entered {
        frame,
        not_send: PhantomData,
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mine: *const Frame = &raw const *self.frame;
        let older = self.frame.older.get();
        let mut newer = slots::ambient().cast::<Frame>();
        if newer == mine {
            slots::set_ambient(older.cast());
            return;
        }
        // Dropped out of order: unlink it from the frame above.
        // SAFETY: every frame on the stack is alive until its `Entered` is dropped here.
        while let Some(frame) = unsafe { newer.as_ref() } {
            if frame.older.get() == mine {
                frame.older.set(older);
                return;
            }
            newer = frame.older.get();
        }
    }
}

/// Calls `f` with the newest frame of this thread.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Frame>) -> R) -> R {
    // SAFETY: a frame is alive for as long as the slot leads to it, and only this thread can
    // drop it, which `f` cannot do while it has the frame borrowed: `Entered` is not reachable
    // from it.
    f(unsafe { slots::ambient().cast::<Frame>().as_ref() })
}

impl Frame {
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The core for a task that may run anywhere: round robin, beginning behind this lane.
    pub(crate) fn next_core(&self) -> usize {
        if self.core.is_none() {
            return self.handle.inner().next_core();
        }
        let next = (self.cursor.get() + 1) % self.handle.inner().cores();
        self.cursor.set(next);
        next
    }
}

/// The core whose lane the caller is.
pub(crate) fn current_core() -> Option<CoreId> {
    with_current(|frame| frame.and_then(|frame| frame.core.map(CoreId::new)))
}

/// Whether the caller is a lane, of whichever runtime.
pub(crate) fn on_a_lane() -> bool {
    !slots::lane().is_null()
}
