//! Where a task is queued that is launched, woken or cancelled. The caller queues it, unless the caller is lower-class
//! (`../below/`).

use super::place::{finish_placement, place};
use crate::bell::Look;
use crate::group::DEFAULT;
use crate::mailbox::Posted;
use crate::scheduler::telemetry::Telemetry;
use crate::scheduler::{Member, RemoteRef, Scheduler};
use crate::task::cell::CellSpec;
use crate::task::extras::Extras;
use crate::task::state::Wake;
use crate::task::state_delegate::For;
use crate::task::{About, BodyVtable, Kind, RawJoin, TaskRef};
use crate::worker::Local;
use doorbell_machine::{Bug, Counter, Machine, Mark, Ordering, PtrWord};

/// Makes a task of a body and hands it to its worker. Returns the side that joins it.
///
/// `write` is called once with the address to write the body to. If the worker is gone, the task
/// is complete and cancelled when this returns.
///
/// # Safety
/// `write` writes a body of `vtable`'s type there and does not unwind after it has. The future
/// in it and its output may be sent to the worker's thread, and to wherever the join side goes.
pub unsafe fn launch<M: Machine>(
    remote: RemoteRef<M>,
    kind: Kind,
    vtable: &'static BodyVtable,
    write: impl FnOnce(*mut u8),
) -> RawJoin {
    // SAFETY: passed on from the caller.
    unsafe { launch_described(remote, kind, About::default(), vtable, write) }
}

/// As [`launch`], with a description of the task.
///
/// # Safety
/// As for [`launch`].
pub unsafe fn launch_described<M: Machine>(
    remote: RemoteRef<M>,
    kind: Kind,
    about: About<'_>,
    vtable: &'static BodyVtable,
    write: impl FnOnce(*mut u8),
) -> RawJoin {
    let scheduler = remote.scheduler();
    let telemetry = scheduler.telemetry();
    let is_recorded = telemetry.is_some_and(Telemetry::is_of_tasks);
    let is_timed = telemetry.is_some_and(Telemetry::records_times);
    let spec: CellSpec<M> = CellSpec {
        kind,
        rank: about.rank,
        group: join_group(&remote, kind, about.group),
        has_raised_node: kind == Kind::Task && !scheduler.above().is_empty(),
        stays: about.stays,
        extras: Extras::of(kind, &about, is_recorded, is_timed),
        last: remote.into_raw(),
    };
    // SAFETY: passed on from the caller.
    let (task, join) = unsafe { TaskRef::new(spec, vtable, write) };
    if task.header().has_extras() {
        task.note_spawn();
    }
    task.submit_new(kind);
    join
}

/// The group of a task that is launched, which counts it: the one asked for, or that of the
/// launching task of the same scheduler.
#[inline]
fn join_group<M: Machine>(remote: &RemoteRef<M>, kind: Kind, asked: Option<u8>) -> u8 {
    let Some(table) = remote
        .scheduler()
        .groups()
        .table()
        .filter(|_| kind != Kind::Call)
    else {
        return DEFAULT;
    };
    if let Some(group) = asked {
        return group;
    }
    let group = Local::<M>::with_current(|local| {
        let local = local.filter(|local| local.is_of(remote.scheduler()));
        local.map_or(DEFAULT, Local::group)
    });
    match table.slot(group).filter(|_| group != DEFAULT) {
        None => DEFAULT,
        Some(slot) => {
            slot.join();
            group
        }
    }
}

impl<M: Machine> TaskRef<M> {
    /// Wakes it. The caller holds a reference.
    #[inline]
    pub(crate) fn wake(self) {
        match self.scheduler_above() {
            None => {
                let woken = self.header().state.wake();
                if matches!(woken, Wake::Nothing) {
                    self.note_yield();
                }
                self.follow(woken, || self.submit());
            }
            Some(scheduler) => self.delegate(scheduler, For::Poll),
        }
    }

    /// Notes that the poll under way here yields, if this is its task.
    fn note_yield(self) {
        Local::<M>::with_current(|local| {
            if let Some(local) = local {
                local.poll_refs().note_wake(self);
            }
        });
    }

    /// Notes that the task is to be cancelled, and has a worker do it. The caller holds a reference.
    pub(crate) fn cancel(self) {
        match self.scheduler_above() {
            None => self.follow(self.header().state.cancel(), || self.submit()),
            Some(scheduler) => self.delegate(scheduler, For::Cancel),
        }
    }

    /// Carries out the result of a wake; queues the own node through `submit`. The caller holds a reference.
    #[inline]
    pub(crate) fn follow(self, woken: Wake, submit: impl FnOnce()) {
        match woken {
            Wake::Nothing => {}
            Wake::Submit => submit(),
            Wake::Raise { submit: submits } => {
                if !M::breaks(Bug::TaskRaiseForgotten) {
                    self.raise();
                }
                if submits {
                    submit();
                }
            }
        }
    }

    /// The scheduler that would run the task, if the calling thread is of a lower class than that one: the highest
    /// scheduler that awaits it, else its own.
    #[inline]
    pub(crate) fn scheduler_above(&self) -> Option<&Scheduler<M>> {
        let scheduler = if self.header().has_raised_node() {
            self.scheduler_at(self.header().state.awaited_from())
        } else {
            self.last().scheduler()
        };
        scheduler.is_above_caller().then_some(scheduler)
    }
}

/// Where it goes.
impl<M: Machine> TaskRef<M> {
    /// The first submission. The caller holds the join handle's reference.
    pub(crate) fn submit_new(self, kind: Kind) {
        let submitted = Local::<M>::with_current(|local| {
            let remote = self.last();
            match local {
                Some(local) if kind == Kind::Task && local.is_of(remote.scheduler()) => {
                    self.push_unless_closed(local)
                }
                Some(local) if kind == Kind::Pinned && local.is(remote) => {
                    self.push_unless_closed(local)
                }
                // SAFETY: the worker's reference is held until the task completes, and a task
                // that is queued is not complete.
                _ if kind == Kind::Task => unsafe {
                    place(remote.scheduler(), remote, self.node()) == Posted::Yes
                },
                // SAFETY: as above.
                _ => unsafe { remote.post(self.node()) == Posted::Yes },
            }
        });
        if !submitted {
            self.end_without_worker();
        }
    }

    fn push_unless_closed(self, local: &Local<M>) -> bool {
        // A pinned task is in the worker's list before another thread could miss it: no other takes it from the queue.
        let is_taken =
            !local.is_closed() && (self.header().kind != Kind::Pinned || self.adopt(local));
        if is_taken {
            self.push_here(local);
        }
        is_taken
    }

    /// Its poll on the caller's worker is over, and it was woken meanwhile. If the poll did that itself, it yields.
    pub(crate) fn push_again(self, local: &Local<M>) {
        self.note_wake();
        M::mark(Mark::TaskWokenInPoll);
        let yields = local.poll_refs().yields();
        if self.header().kind == Kind::Task {
            // SAFETY: as in `push_here`.
            unsafe { local.push_again(self.node(), yields) };
        } else {
            // SAFETY: as above.
            unsafe { local.push_pinned_again(self.node(), yields) };
        }
    }

    /// Appends it to the queue of the caller's worker, where it may run.
    pub(crate) fn push_here(self, local: &Local<M>) {
        if self.header().kind == Kind::Task {
            // SAFETY: as in `submit_new`; the queue is that of the current worker.
            unsafe { local.push(self.node()) };
        } else {
            // SAFETY: as above.
            unsafe { local.push_pinned(self.node()) };
        }
    }

    /// The worker that ran the task last; before the first run, the one it was launched on.
    pub(crate) fn last(&self) -> &Member<M> {
        // ORDER: Relaxed; the task's share keeps all remote halves of the scheduler, and the last worker is only a
        // hint where to run.
        let last = self.header().last.load(Ordering::Relaxed);
        // SAFETY: the task's share keeps the scheduler, and the last worker is of it.
        unsafe { &*last }
    }

    /// Queues the task that a transition of its state said to submit. The caller holds a
    /// reference, so the scheduler is there until this returns.
    pub(crate) fn submit(self) {
        self.note_wake();
        Local::<M>::with_current(|local| match local {
            _ if self.header().kind != Kind::Task => self.submit_home(local),
            Some(local) if local.is_of(self.last().scheduler()) => self.submit_from(local),
            _ => {
                let last = self.last();
                // SAFETY: as in `submit_new`.
                self.unless_refused(unsafe { place(last.scheduler(), last, self.node()) });
            }
        });
    }

    /// Only its own worker may run it.
    fn submit_home(self, local: Option<&Local<M>>) {
        let remote = self.last();
        if let Some(local) = local.filter(|local| local.is(remote)) {
            return self.push_here(local);
        }
        // SAFETY: as in `submit_new`.
        self.unless_refused(unsafe { remote.post(self.node()) });
    }

    /// Queues a task that is woken on a worker of its scheduler: at the last worker if that one is free and spins, as
    /// its cache is warm, or where another waker has chosen that worker at the same moment, at another idle one; else
    /// here. A running worker may be inside a long poll, and a sleeping one costs a ring: but the second and each later
    /// task of a poll waits for another worker anyway, so it wakes its own. So does a task whose timer this worker
    /// fires for a sleeper, if it would wait here behind another one; if its own worker is not free, or a hardware
    /// thread beside that one is busy, it wakes another idle one.
    fn submit_from(self, local: &Local<M>) {
        let last = self.last();
        let awaits_it = || {
            (last.bell().look() == Look::Spinning || local.has_pushed())
                && last.scheduler().is_free(last.worker())
        };
        let was_fired = local.places_what_it_fires();
        if local.is(last) || local.is_closed() || !(was_fired || awaits_it()) {
            return self.push_here(local);
        }
        let scheduler = last.scheduler();
        let prefer = if was_fired {
            scheduler.prefer_own_core(last)
        } else {
            last
        };
        // SAFETY: as in `submit_new`.
        match unsafe { scheduler.post_to_idle(prefer, false, self.node()) } {
            Some(placed) => {
                if was_fired {
                    local.remote().counts().pulls_placed.add_owned(1);
                }
                self.unless_refused(finish_placement(placed));
            }
            None => self.push_here(local),
        }
    }

    /// After a refused post, a worker that closed has ended the task, or its home worker will.
    fn unless_refused(self, posted: Posted) {
        match posted {
            Posted::Yes => {}
            Posted::Closed => self.leave(),
        }
    }
}
