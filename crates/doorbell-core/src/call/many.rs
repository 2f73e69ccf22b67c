//! One closure on many cores: a node per core and all results in one allocation.
//!
//! The block is shared by the waiter and the workers. Its words:
//!
//! | word | bits | meaning |
//! |---|---|---|
//! | `state` | 0..=29 | calls that have not ended |
//! | | 30, `HAS_WAKER` | the waiter's waker lies in the block, for the last call |
//! | | 31, `LEFT` | the waiter has left: calls that have not begun are withdrawn |
//! | `shares` | all | 2: waiter and workers; 1: one of them; 0: freed by the one that made it so |
//!
//! Closure and results belong to the calls until the count is zero. Then they belong to the waiter, or to
//! the last call if the waiter has left. See README.md.

use super::SPIN_NS;
use crate::link::{Delivered, Node};
use crate::mailbox::{Post, Posted};
use crate::quiet::{drop_quietly, wake_quietly};
use crate::wait::Waiter;
use doorbell_machine::{Bug, Cell, Line, Machine, Ordering, Spun, Word};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const HAS_WAKER: u32 = 1 << 30;
const LEFT: u32 = 1 << 31;
const CALLS: u32 = HAS_WAKER - 1;

// The table above: no bit is shared.
const _: () = assert!(CALLS ^ HAS_WAKER ^ LEFT == u32::MAX);

/// Functions for closure and results, whose types the block does not know. All take the
/// address of closure and results.
#[derive(Debug)]
pub struct ManyTable {
    /// Runs the closure for the call of that index and keeps the outcome. Does not unwind.
    pub(super) run: unsafe fn(NonNull<u8>, usize),
    /// Notes that the worker of that index is gone.
    pub(super) gone: unsafe fn(NonNull<u8>, usize),
    /// Drops what is left. Does not unwind.
    pub(super) clear: unsafe fn(NonNull<u8>),
}

/// The words that waiter and workers share, in a line of their own.
struct Words<M: Machine> {
    state: M::U32,
    shares: M::U32,
}

#[repr(C)]
struct Block<M: Machine> {
    words: M::Line<Words<M>>,
    waker: M::Cell<Option<Waker>>,
    table: &'static ManyTable,
    data: NonNull<u8>,
    /// Shows the model checker which thread uses the closure.
    closure_use: M::Cell<()>,
    layout: Layout,
    legs: NonNull<Leg<M>>,
    count: usize,
}

/// The call of one core.
#[repr(C)]
struct Leg<M: Machine> {
    node: Node<M>,
    block: NonNull<Block<M>>,
    index: usize,
    /// Shows the model checker which thread uses the result.
    result_use: M::Cell<()>,
}

/// How a call ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LegEnded {
    /// Others have not ended; the block may be gone.
    More,
    /// It was the last, and there is no waker to wake: the waiter looks for itself.
    Last,
    /// It was the last, and must take and wake the waiter's waker.
    LastWakes,
    /// It was the last, and the waiter has left: the call must drop closure and results.
    LastClears,
}

/// What the waiter found when it left or took its waker back.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LegsFound {
    /// Calls are under way.
    UnderWay,
    /// All have ended; the waker's cell is the waiter's.
    LegEnded,
    /// All have ended; the last one has the waker's cell.
    EndedWakes,
}

impl LegsFound {
    fn of(before: u32) -> Self {
        match (before & CALLS == 0, before & HAS_WAKER != 0) {
            (false, _) => LegsFound::UnderWay,
            (true, false) => LegsFound::LegEnded,
            (true, true) => LegsFound::EndedWakes,
        }
    }
}

impl<M: Machine> Words<M> {
    fn new(calls: usize) -> Self {
        assert!(calls <= CALLS as usize, "more calls than a count holds");
        Words {
            state: M::U32::new(calls as u32),
            shares: M::U32::new(2),
        }
    }

    /// A call has ended. Unless it was the last, nothing of the block is touched after this.
    fn end_one(&self) -> LegEnded {
        // ORDER: Release, with those of the others, pairs with the waiter's Acquire of a count of
        // zero: it sees all results. Acquire pairs with the waiter's Release of HAS_WAKER and LEFT (the
        // waker is visible), and with the other calls' Release: the last may drop their results.
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before & CALLS != 1 {
            LegEnded::More
        } else if before & LEFT != 0 {
            LegEnded::LastClears
        } else if before & HAS_WAKER != 0 {
            LegEnded::LastWakes
        } else {
            LegEnded::Last
        }
    }

    /// Whether the waiter has left.
    fn is_left(&self) -> bool {
        // ORDER: Relaxed; one word: a call that does not see it has begun before.
        self.state.load(Ordering::Relaxed) & LEFT != 0
    }

    fn all_ended(&self) -> bool {
        // ORDER: Acquire pairs with the calls' Release: their results are visible.
        self.state.load(Ordering::Acquire) & CALLS == 0
    }

    /// Puts the waker at the last call's disposal.
    fn leave_waker(&self) -> LegsFound {
        // ORDER: Release pairs with the Acquire of the last call: the waker is visible. Acquire
        // pairs with the calls' Release: if all have ended, their results are visible.
        LegsFound::of(self.state.fetch_or(HAS_WAKER, Ordering::AcqRel) & !HAS_WAKER)
    }

    /// Takes the waker back.
    fn reclaim(&self) -> LegsFound {
        // ORDER: Acquire as in `leave_waker`. It publishes nothing: the last call that does not see HAS_WAKER
        // leaves the cell alone.
        LegsFound::of(self.state.fetch_and(!HAS_WAKER, Ordering::Acquire))
    }

    /// The waiter leaves.
    fn leave(&self) -> LegsFound {
        // ORDER: Acquire as in `leave_waker`. It publishes nothing: who is last after this drops closure and
        // results, which the waiter has not used, and `release` orders the rest.
        LegsFound::of(self.state.fetch_or(LEFT, Ordering::Acquire))
    }
}

/// The layout of a block, and the offsets of legs and data in it.
fn layout_of<M: Machine>(count: usize, data: Layout) -> (Layout, usize, usize) {
    let layouts = Layout::array::<Leg<M>>(count).and_then(|legs| {
        let (layout, legs_at) = Layout::new::<Block<M>>().extend(legs)?;
        let (layout, data_at) = layout.extend(data)?;
        Ok((layout.pad_to_align(), legs_at, data_at))
    });
    layouts.expect("results that fit in memory fit with their calls")
}

/// Posts one call to each of these workers. Returns the waiter's side.
///
/// `write` is called once, with the address at which to write closure and results. A call whose worker
/// is gone has ended when this returns.
///
/// # Safety
/// `count` is the number of workers, and not zero. `write` writes closure and results as `table`
/// expects them, of the layout `data`, for `count` calls, and does not unwind. The closure may be used from
/// and dropped on any thread, and so may the results.
pub unsafe fn launch_many<'a, M: Machine, P: Post<M> + 'a>(
    workers: impl Iterator<Item = &'a P>,
    count: usize,
    table: &'static ManyTable,
    data: Layout,
    write: impl FnOnce(NonNull<u8>),
) -> RawMany {
    let (layout, legs_at, data_at) = layout_of::<M>(count, data);
    let words = M::Line::new(|| Words::new(count));
    // SAFETY: the layout is that of a block and more, so its size is not zero.
    let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else {
        handle_alloc_error(layout)
    };
    let block = memory.cast::<Block<M>>();
    // SAFETY: the offsets lie inside the allocation.
    let (legs, data) = unsafe { (memory.add(legs_at).cast::<Leg<M>>(), memory.add(data_at)) };
    // SAFETY: freshly allocated with room for all of it.
    unsafe {
        block.write(Block {
            words,
            waker: M::Cell::new(None),
            table,
            data,
            closure_use: M::Cell::new(()),
            layout,
            legs,
            count,
        });
        for index in 0..count {
            legs.add(index).write(Leg {
                node: Node::new(deliver_leg),
                block,
                index,
                result_use: M::Cell::new(()),
            });
        }
    }
    write(data);
    // The waiter's share keeps the block until `raw` is dropped.
    let raw = RawMany {
        block: block.cast(),
        data,
        table: const { &Side::<M>::TABLE },
    };
    for (index, worker) in workers.take(count).enumerate() {
        // SAFETY: inside the array; it has not been posted yet.
        let node = unsafe { legs.add(index) }.cast::<Node<M>>();
        // SAFETY: the node stays in place until its call has ended.
        if unsafe { worker.post(node) } == Posted::Closed {
            // SAFETY: refused, so this thread ends the call.
            unsafe {
                (table.gone)(data, index);
                end_one(block);
            }
        }
    }
    raw
}

/// # Safety
/// As for [`crate::link::Deliver`], for the node of a leg.
unsafe fn deliver_leg<M: Machine>(node: NonNull<Node<M>>) -> Delivered {
    // SAFETY: the node is a leg's first field; its block is alive until this call has ended.
    let leg = unsafe { node.cast::<Leg<M>>().as_ref() };
    let (block, index) = (leg.block, leg.index);
    // SAFETY: as above.
    let it = unsafe { block.as_ref() };
    if !it.words.is_left() {
        leg.result_use.with_mut(|_| ());
        // SAFETY: posted to this worker, so this worker runs the call of this index.
        it.closure_use
            .with(|_| unsafe { (it.table.run)(it.data, index) });
    }
    // SAFETY: the call has ended.
    unsafe { end_one(block) };
    Delivered::Done
}

/// # Safety
/// One call of the block has ended, and calls this once. The block may be gone afterwards.
unsafe fn end_one<M: Machine>(block: NonNull<Block<M>>) {
    // SAFETY: this call is still counted.
    let words = unsafe { &*block.as_ref().words };
    let ended = words.end_one();
    if M::breaks(Bug::ManyTouchAfterEnd) {
        // SAFETY: none; this is the mutant.
        unsafe { block.as_ref() }.closure_use.with_mut(|_| ());
    }
    match ended {
        // Not even the workers' share is this call's.
        LegEnded::More => return,
        LegEnded::Last => {}
        LegEnded::LastWakes => {
            // SAFETY: the last call has the workers' share, and the cell.
            let waker = unsafe { block.as_ref() }
                .waker
                .with_mut(|cell| unsafe { (*cell).take() });
            if let Some(waker) = waker {
                wake_quietly::<M>(waker);
            }
        }
        // SAFETY: the waiter has left, and no call is under way.
        LegEnded::LastClears => unsafe { clear(block) },
    }
    // SAFETY: the workers' share is the last call's.
    unsafe { release(block) };
}

/// Drops closure and results.
///
/// # Safety
/// Closure and results belong to the caller, which does this once.
unsafe fn clear<M: Machine>(block: NonNull<Block<M>>) {
    // SAFETY: the caller has a share.
    let it = unsafe { block.as_ref() };
    // SAFETY: inside the array.
    let leg = |index| unsafe { it.legs.add(index).as_ref() };
    (0..it.count).for_each(|index| leg(index).result_use.with_mut(|_| ()));
    // SAFETY: passed on from the caller.
    it.closure_use
        .with_mut(|_| unsafe { (it.table.clear)(it.data) });
}

/// Lets go of a share.
///
/// # Safety
/// The share is the caller's; the block may be gone afterwards.
unsafe fn release<M: Machine>(block: NonNull<Block<M>>) {
    // SAFETY: the caller's share.
    let words = unsafe { &*block.as_ref().words };
    // ORDER: AcqRel; the first release's Release pairs with the second's Acquire: the thread that frees comes
    // after everything that the other did.
    if words.shares.fetch_sub(1, Ordering::AcqRel) != 1 {
        return;
    }
    // SAFETY: it was the last share; closure and results were dropped before.
    unsafe {
        let layout = block.as_ref().layout;
        // A waker that was not taken. Its drop may panic.
        drop_quietly(block.as_ref().waker.with_mut(|cell| (*cell).take()));
        for index in 0..block.as_ref().count {
            block.as_ref().legs.add(index).drop_in_place();
        }
        block.drop_in_place();
        dealloc(block.cast().as_ptr(), layout);
    }
}

/// The waiter's side, without the types of closure, results and machine. Dropping it withdraws the calls
/// that have not begun.
#[derive(Debug)]
pub struct RawMany {
    block: NonNull<()>,
    data: NonNull<u8>,
    table: &'static SideTable,
}

// SAFETY: the waiter's side may move; what it leads to is Send, as `launch_many` demands.
unsafe impl Send for RawMany {}
// SAFETY: a shared reference gives no access to the block.
unsafe impl Sync for RawMany {}

#[derive(Debug)]
struct SideTable {
    poll: unsafe fn(NonNull<()>, &mut Context<'_>) -> Poll<()>,
    wait: unsafe fn(NonNull<()>),
    leave: unsafe fn(NonNull<()>),
}

struct Side<M: Machine>(std::marker::PhantomData<M>);

impl<M: Machine> Side<M> {
    const TABLE: SideTable = SideTable {
        poll: poll::<M>,
        wait: wait::<M>,
        leave: leave::<M>,
    };
}

impl RawMany {
    /// Ready when every call has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the waiter's share is held until drop.
        unsafe { (self.table.poll)(self.block, cx) }
    }

    /// Blocks until every call has ended. Does not unwind.
    pub(super) fn wait(&mut self) {
        // SAFETY: as in `poll`.
        unsafe { (self.table.wait)(self.block) };
    }

    /// Closure and results, which belong to the waiter once every call has ended.
    pub(super) fn data(&self) -> NonNull<u8> {
        self.data
    }
}

impl Drop for RawMany {
    fn drop(&mut self) {
        // SAFETY: the waiter's share, released once.
        unsafe { (self.table.leave)(self.block) };
    }
}

/// Shows the model checker that the waiter may use the results.
fn show_results<M: Machine>(it: &Block<M>) {
    for index in 0..it.count {
        // SAFETY: inside the array.
        unsafe { it.legs.add(index).as_ref() }
            .result_use
            .with_mut(|_| ());
    }
}

/// # Safety
/// The caller has the waiter's share of `block`. The same holds for the functions below.
unsafe fn poll<M: Machine>(block: NonNull<()>, cx: &mut Context<'_>) -> Poll<()> {
    // SAFETY: the caller's share.
    let it = unsafe { block.cast::<Block<M>>().as_ref() };
    if it.words.all_ended() || it.words.reclaim() != LegsFound::UnderWay {
        show_results(it);
        return Poll::Ready(());
    }
    // The clone, and the drop of the old waker, may panic or re-enter, so both are outside of the cell's access.
    let fresh = it.waker.with(|cell| {
        // SAFETY: reclaimed above, so the cell is the waiter's.
        unsafe { (*cell).as_ref() }.is_none_or(|waker| !waker.will_wake(cx.waker()))
    });
    if fresh {
        let waker = cx.waker().clone();
        // SAFETY: as above.
        let old = it.waker.with_mut(|cell| unsafe { (*cell).replace(waker) });
        drop_quietly(old);
    }
    match it.words.leave_waker() {
        LegsFound::UnderWay => Poll::Pending,
        LegsFound::LegEnded | LegsFound::EndedWakes => {
            show_results(it);
            Poll::Ready(())
        }
    }
}

unsafe fn wait<M: Machine>(block: NonNull<()>) {
    // SAFETY: the caller's share.
    let it = unsafe { block.cast::<Block<M>>().as_ref() };
    if M::spin(&it.words, SPIN_NS, Words::all_ended) == Spun::Changed {
        return show_results(it);
    }
    let waiter = Arc::new(Waiter::<M>::default());
    let waker = Waker::from(Arc::clone(&waiter));
    let mut cx = Context::from_waker(&waker);
    // SAFETY: passed on from the caller.
    while unsafe { poll::<M>(block, &mut cx) }.is_pending() {
        waiter.wait(0);
    }
}

unsafe fn leave<M: Machine>(block: NonNull<()>) {
    let block = block.cast::<Block<M>>();
    // SAFETY: the caller's share.
    match unsafe { block.as_ref() }.words.leave() {
        LegsFound::UnderWay => {}
        // SAFETY: no call is under way, and the last one did not see that the waiter left.
        LegsFound::LegEnded | LegsFound::EndedWakes => unsafe { clear(block) },
    }
    // SAFETY: the waiter's share ends here.
    unsafe { release(block) };
}
