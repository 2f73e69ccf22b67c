//! The handle of an armed timer: its holder polls, re-arms and drops the timer.

use crate::mailbox::{Gone, Post as _, Posted};
use crate::quiet::{Quiet, drop_quietly};
use crate::scheduler::{AnyWorker, RemoteRef};
use crate::wheel::entry;
use crate::wheel::{Base, Cancel, Window};
use crate::worker::Local;
use doorbell_machine::{Bug, Cell, Machine, Mark};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{Context, Waker};

/// The handle of an armed timer, with its machine type erased.
///
/// Its holder may poll, re-arm and drop it on any thread. On the worker that owns the timer each of these takes
/// constant time and no atomic read-modify-write of its own.
#[derive(Debug)]
pub struct RawTimer {
    entry: NonNull<()>,
    vtable: &'static TimerVtable,
}

// SAFETY: off the worker's own thread the handle touches only the entry's state word, the handle's own copy of the
// waker, and the owner, which does not change once the state word has left `MAILED`; see `entry.rs`.
unsafe impl Send for RawTimer {}
// SAFETY: a shared handle gives out nothing.
unsafe impl Sync for RawTimer {}

#[derive(Debug)]
struct TimerVtable {
    poll: unsafe fn(NonNull<()>, &mut Context<'_>) -> Polled,
    reset: unsafe fn(NonNull<()>, Window) -> Reset,
    drop: unsafe fn(NonNull<()>),
    rouse: unsafe fn(NonNull<()>),
}

/// The result of a poll.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Not due yet. The timer wakes the waker when it is ready.
    Pending,
    /// Ready.
    Ready(Fired),
    /// Not due yet, and the waker cannot be replaced from here: drop the timer and arm another.
    Elsewhere,
}

/// Why a timer is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fired {
    /// Its deadline has passed.
    Due,
    /// Its worker ended first.
    WorkerGone,
}

/// The result of a reset.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The timer is armed for the new time.
    Done,
    /// The timer has fired, or does not hang in the wheel of the caller's worker: drop it and arm another.
    Elsewhere,
}

/// Who takes in a timer that is armed by mail, into the global base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MailTo {
    /// The worker that is named.
    Worker,
    /// The first worker that looks.
    Any,
}

/// The memory of a timer whose owner is a worker.
pub(super) type Entry<M> = entry::Entry<M, RemoteRef<M>>;

struct TimerTable<M: Machine>(std::marker::PhantomData<M>);

impl<M: Machine> TimerTable<M> {
    const VTABLE: TimerVtable = TimerVtable {
        poll: poll::<M>,
        reset: reset::<M>,
        drop: drop_timer::<M>,
        rouse: rouse::<M>,
    };
}

impl RawTimer {
    /// Arms a timer. On a worker of the scheduler of `remote`, arms it on that worker, or with `timer_pull=base` on one
    /// that seems awake ([`Scheduler::guess_awake`](crate::scheduler::Scheduler)). On any other thread, posts it
    /// to the scheduler. It prefers the worker of `remote` if that is idle, then another idle worker. If none is
    /// idle, the next worker that makes a pass arms it.
    ///
    /// # Errors
    /// [`Gone`] if the caller is a worker of the scheduler and has ended, or if it is another thread and the scheduler
    /// takes no more timers.
    #[inline]
    pub fn arm<M: Machine>(
        remote: &RemoteRef<M>,
        window: impl Into<Window>,
        waker: &Waker,
    ) -> Result<RawTimer, Gone> {
        let window = window.into();
        let entry = Local::<M>::with_current(|local| match local {
            // A worker of another scheduler may have another clock.
            Some(local) if local.is_of(remote.scheduler()) => {
                if local.is_closed() {
                    return Err(Gone);
                }
                let places = local.base() == Base::Global && local.remote().places_timers();
                if places && let Some(entry) = Self::arm_on_awake(local, window, waker)? {
                    return Ok(entry);
                }
                if let Some(entry) = Self::arm_here(local, window, waker) {
                    return Ok(entry);
                }
                // A visitor has the global base.
                match Self::arm_by_mail(local.remote(), window, waker, MailTo::Any) {
                    // The first worker that ended has closed that mailbox for all. This worker's own is open.
                    Err(Gone) => Self::arm_by_mail(local.remote(), window, waker, MailTo::Worker),
                    armed => armed,
                }
            }
            _ => Self::arm_by_mail(remote, window, waker, MailTo::Any),
        })?;
        Ok(RawTimer {
            entry: entry.cast(),
            vtable: &TimerTable::<M>::VTABLE,
        })
    }

    #[inline]
    fn arm_here<M: Machine>(
        local: &Local<M>,
        window: Window,
        waker: &Waker,
    ) -> Option<NonNull<Entry<M>>> {
        // SAFETY: only the worker touches the waker of its armed timer, and drops it below or between polls. A
        // visitor leaves alone a waker that was given in the current poll.
        let waker = unsafe { local.poll_refs().give(waker) };
        let entry = local.wheel().take_entry(|| local.remote().clone());
        // SAFETY: taken, so it is this worker's alone.
        let it = unsafe { entry.as_ref() };
        it.base.set(local.base());
        it.polls.set(tag_now(local));
        // SAFETY: as above.
        it.waker.with_mut(|cell| unsafe { *cell = Some(waker) });
        it.set(entry::ARMED);
        // SAFETY: as above; it hangs nowhere.
        if unsafe { local.wheel().hang(entry, window) }.is_none() {
            // SAFETY: the caller alone has it.
            unsafe { take_waker_back(local, entry) };
            // SAFETY: as above.
            unsafe { Entry::<M>::free(entry) };
            return None;
        }
        local.note_timer(window, it.base.get());
        Some(entry)
    }

    /// With `timer_pull=base`: if this worker has no other work, arms the timer on a worker that seems awake. `None`
    /// if the timer is to be armed here: no other worker seems awake, or the one that does has ended.
    #[cold]
    fn arm_on_awake<M: Machine>(
        local: &Local<M>,
        window: Window,
        waker: &Waker,
    ) -> Result<Option<NonNull<Entry<M>>>, Gone> {
        // A paused clock goes on when all workers sleep; none is awake for longer then.
        if !local.is_empty() || local.clock().is_frozen() {
            return Ok(None);
        }
        let here = local.remote();
        let Some(to) = here.scheduler().guess_awake(here.worker()) else {
            return Ok(None);
        };
        let to = RemoteRef::of(to);
        match Self::arm_by_mail(&to, window, waker, MailTo::Worker) {
            Ok(entry) => Ok(Some(entry)),
            Err(Gone) if M::breaks(Bug::TimerRefusedByOther) => Err(Gone),
            Err(Gone) => Ok(None),
        }
    }

    #[cold]
    fn arm_by_mail<M: Machine>(
        remote: &RemoteRef<M>,
        window: Window,
        waker: &Waker,
        to: MailTo,
    ) -> Result<NonNull<Entry<M>>, Gone> {
        M::mark(Mark::WheelMail);
        // If the second clone panics, the drop of the first must not panic too.
        let same = Quiet::of(waker.clone());
        let waker = waker.clone();
        let entry = Entry::<M>::allocate(remote.clone());
        // SAFETY: just allocated.
        let it = unsafe { entry.as_ref() };
        it.base.set(Base::Global);
        // SAFETY: just allocated.
        unsafe { it.set_window(window) };
        // SAFETY: as above.
        unsafe { it.with_handle_waker(|waker| *waker = Some(same.take())) };
        // SAFETY: as above.
        it.waker.with_mut(|cell| unsafe { *cell = Some(waker) });
        it.set(entry::MAILED);
        // SAFETY: the worker frees the entry once its handle is gone, or the handle frees it once it has fired.
        let posted = unsafe {
            match to {
                MailTo::Worker => remote.post(Entry::<M>::node(entry)),
                MailTo::Any => AnyWorker(remote).post(Entry::<M>::node(entry)),
            }
        };
        match posted {
            Posted::Yes => Ok(entry),
            Posted::Closed => {
                // SAFETY: it was not posted.
                unsafe { Entry::<M>::free(entry) };
                Err(Gone)
            }
        }
    }

    /// Whether the timer is ready. If [`Polled::Pending`], the waker of `cx` is woken when it is.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Polled {
        // SAFETY: the handle has the entry.
        unsafe { (self.vtable.poll)(self.entry, cx) }
    }

    /// Arms the timer for another time. Works only while it hangs in the wheel of the caller's worker.
    pub fn reset(&mut self, window: impl Into<Window>) -> Reset {
        // SAFETY: the handle has the entry.
        unsafe { (self.vtable.reset)(self.entry, window.into()) }
    }

    /// Drops the timer, and has its worker wake the waker of the last poll, unless it has done so. Works on any thread.
    /// If the worker is inside a long poll, it wakes it after that.
    pub fn rouse(self) {
        let it = ManuallyDrop::new(self);
        // SAFETY: the handle has the entry until here.
        unsafe { (it.vtable.rouse)(it.entry) };
    }
}

impl Drop for RawTimer {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the handle has the entry until here.
        unsafe { (self.vtable.drop)(self.entry) };
    }
}

/// Calls `f` with the calling worker if the entry belongs to it, else with `None`. The entry is passed by
/// address, because `f` may free it.
///
/// # Safety
/// The entry is alive.
#[inline(always)]
unsafe fn with_owner<M: Machine, R>(
    entry: NonNull<Entry<M>>,
    f: impl FnOnce(Option<&Local<M>>) -> R,
) -> R {
    Local::<M>::with_current(|local| {
        // SAFETY: the caller's promise.
        f(local.filter(|local| unsafe { entry.as_ref() }.is_of(|owner| local.is(owner))))
    })
}

/// # Safety
/// `raw` is the entry of the calling handle. The same holds for all functions below.
unsafe fn poll<M: Machine>(raw: NonNull<()>, cx: &mut Context<'_>) -> Polled {
    let entry = raw.cast::<Entry<M>>();
    // SAFETY: the handle's entry is alive.
    let it = unsafe { entry.as_ref() };
    match it.state() {
        entry::FIRED => return Polled::Ready(Fired::Due),
        entry::ORPHANED => return Polled::Ready(Fired::WorkerGone),
        _ => {}
    }
    let ask = |owner: Option<&Local<M>>| match owner.and_then(|local| poll_here(local, it, cx)) {
        Some(()) => Polled::Pending,
        None => poll_elsewhere(it, cx),
    };
    // SAFETY: as above.
    unsafe { with_owner(entry, ask) }
}

/// The tag of a waker that is given now: the tag of the current poll, or outside of a poll that of an earlier one.
#[inline]
fn tag_now<M: Machine>(local: &Local<M>) -> u16 {
    let tag = Entry::<M>::tag(local.remote().pulse());
    if local.poll_refs().is_in_poll() {
        tag
    } else {
        tag.wrapping_sub(1)
    }
}

/// On the entry's worker: replaces the waker by that of `cx`. `None` if the timer is not armed, or a visitor has
/// the wheel.
fn poll_here<M: Machine>(local: &Local<M>, it: &Entry<M>, cx: &Context<'_>) -> Option<()> {
    let same = local.wheel().with(it.base.get(), |_| {
        (it.state() == entry::ARMED).then(|| {
            // SAFETY: armed, and the caller is its worker, inside its wheel: it may touch the waker.
            let waker = it.waker.with(|cell| unsafe { (*cell).as_ref() });
            waker.is_some_and(|waker| waker.will_wake(cx.waker()))
        })
    });
    if same?? {
        return Some(());
    }
    // Clones and drops are outside of `Wheel::with`, because those of a waker may use the wheel.
    // SAFETY: as in `arm_here`.
    let mut waker = Some(unsafe { local.poll_refs().give(cx.waker()) });
    let old = local.wheel().with(it.base.get(), |_| {
        (it.state() == entry::ARMED).then(|| {
            it.polls.set(tag_now(local));
            // SAFETY: as above.
            it.waker
                .with_mut(|cell| unsafe { std::mem::replace(&mut *cell, waker.take()) })
        })
    });
    if let Some(unused) = waker {
        local.poll_refs().take_back(unused);
    }
    if let Some(old) = old?? {
        // The handle's copy of the mailed waker is out of date.
        // SAFETY: the caller is its handle.
        drop_quietly(unsafe { it.with_handle_waker(Option::take) });
        local.poll_refs().take_back(old);
    }
    Some(())
}

/// Off the entry's worker the waker is out of reach. If the timer was mailed, the handle compares with its copy.
#[cold]
fn poll_elsewhere<M: Machine>(it: &Entry<M>, cx: &Context<'_>) -> Polled {
    let is_same = |known: &mut Option<Waker>| {
        let known = known.as_ref();
        known.is_some_and(|known| known.will_wake(cx.waker()))
    };
    // SAFETY: the caller is its handle.
    if unsafe { it.with_handle_waker(is_same) } {
        Polled::Pending
    } else {
        Polled::Elsewhere
    }
}

unsafe fn reset<M: Machine>(raw: NonNull<()>, window: Window) -> Reset {
    let entry = raw.cast::<Entry<M>>();
    // SAFETY: the handle's entry is alive.
    let it = unsafe { entry.as_ref() };
    let move_it = |owner: Option<&Local<M>>| {
        let Some(local) = owner.filter(|local| !local.is_closed()) else {
            return Reset::Elsewhere;
        };
        let moved = local.wheel().with(it.base.get(), |base| {
            (it.state() == entry::ARMED && it.is_linked()).then(|| {
                // SAFETY: it hangs in this worker's wheel.
                unsafe { base.unlink(entry.as_ptr()) };
                // SAFETY: it hangs nowhere now.
                unsafe { base.insert(entry.as_ptr(), window) };
            })
        });
        if moved.flatten().is_none() {
            return Reset::Elsewhere;
        }
        local.note_timer(window, it.base.get());
        Reset::Done
    };
    // SAFETY: as above.
    unsafe { with_owner(entry, move_it) }
}

unsafe fn drop_timer<M: Machine>(raw: NonNull<()>) {
    let entry = raw.cast::<Entry<M>>();
    let take_back = |owner: Option<&Local<M>>| {
        let Some(local) = owner else { return false };
        // SAFETY: the handle's entry is alive.
        let it = unsafe { entry.as_ref() };
        let taken = local.wheel().with(it.base.get(), |base| match it.state() {
            entry::ARMED => {
                // SAFETY: armed on this very worker: it hangs in its wheel.
                unsafe { base.unlink(entry.as_ptr()) };
                true
            }
            entry::FIRED => true,
            // Mailed and not delivered yet, or the worker has ended.
            _ => false,
        });
        if taken != Some(true) {
            return false;
        }
        // SAFETY: it hangs nowhere and the caller is its handle, so this worker alone has it.
        unsafe { take_waker_back(local, entry) };
        // SAFETY: the caller is its handle, and it hangs nowhere.
        unsafe { local.wheel().recycle(entry) };
        true
    };
    // SAFETY: as above.
    let here = unsafe { with_owner(entry, take_back) };
    if !here {
        // SAFETY: passed on.
        unsafe { drop_elsewhere(entry) };
    }
}

/// # Safety
/// The entry is this worker's alone.
#[inline]
unsafe fn take_waker_back<M: Machine>(local: &Local<M>, entry: NonNull<Entry<M>>) {
    // SAFETY: the caller's promise.
    let cell = unsafe { &entry.as_ref().waker };
    // SAFETY: as above.
    if let Some(waker) = cell.with_mut(|waker| unsafe { (*waker).take() }) {
        local.poll_refs().take_back(waker);
    }
}

/// # Safety
/// As for [`drop_timer`].
#[cold]
unsafe fn drop_elsewhere<M: Machine>(entry: NonNull<Entry<M>>) {
    // SAFETY: the handle's entry is alive.
    let cancel = unsafe { Entry::<M>::cancel(entry) };
    // The worker frees the entry at its next take, at the latest when it wakes next.
    // SAFETY: passed on.
    unsafe { end_cancel(entry, cancel, false) };
}

/// # Safety
/// As for [`drop_timer`].
#[cold]
unsafe fn rouse<M: Machine>(raw: NonNull<()>) {
    let entry = raw.cast::<Entry<M>>();
    // SAFETY: the handle's entry is alive.
    let cancel = unsafe { Entry::<M>::rouse(entry) };
    // SAFETY: passed on.
    unsafe { end_cancel(entry, cancel, true) };
}

/// Ends a timer that its handle has left. `is_told`: its worker is notified of that.
///
/// # Safety
/// The caller was the entry's handle, and has cancelled it.
unsafe fn end_cancel<M: Machine>(entry: NonNull<Entry<M>>, cancel: Cancel, is_told: bool) {
    match cancel {
        Cancel::Nothing => {}
        // SAFETY: no worker has it any more.
        Cancel::Free => unsafe { Entry::<M>::free(entry) },
        Cancel::Post => {
            // A share of its own: once posted, the worker may free the entry and the entry's share.
            // SAFETY: it was armed, so its worker does not change; it is not freed before it is posted.
            let remote = unsafe {
                (*entry.as_ptr())
                    .owner
                    .with(|owner| RemoteRef::clone(&*owner))
            };
            let node = Entry::<M>::node(entry);
            // SAFETY: the worker's from here on.
            let posted = unsafe {
                if is_told {
                    remote.post(node)
                } else {
                    remote.post_quietly(node)
                }
            };
            if posted == Posted::Yes {
                return;
            }
            // SAFETY: cancelled above, and not posted.
            if unsafe { Entry::<M>::abandon(entry) } {
                // SAFETY: the worker has unlinked it and left it to its handle.
                unsafe { Entry::<M>::free(entry) };
            }
        }
    }
}
