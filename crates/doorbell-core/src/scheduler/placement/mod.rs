//! Placement: which worker gets a task that a thread outside the scheduler posts, or whose last worker spins. See
//! README.md in this folder.

#[cfg(test)]
mod loom;

use crate::bell::Look;
use crate::link::Node;
use crate::mailbox::{Post, Posted, Pushed};
use crate::parcel::post;
use crate::scheduler::idle::{Sight, Wish};
use crate::scheduler::{AnyWorker, Member, Scheduler};
use crate::switches::IdleClaim;
use doorbell_machine::{Bug, Counter, Machine};
use std::ptr::NonNull;

/// What became of a task that was placed.
#[must_use]
#[derive(Debug)]
pub(crate) enum Placed<'a, M: Machine> {
    /// It lies in a worker's inject queue.
    Yes,
    /// It lies in the inject queue of this worker, which seemed idle and runs something else. The caller places anew
    /// what lies there.
    Behind(&'a Member<M>),
    /// The workers have ended. The task is the caller's still.
    Closed,
}

/// Whether a call may wait behind something else.
#[must_use]
pub(crate) struct IsBehind(pub(crate) bool);

/// A worker that takes a post only into an empty mailbox.
struct IfEmpty<'a, M: Machine>(&'a Member<M>);

// SAFETY: each node in the mailbox is delivered once, by the worker whose mailbox it is.
unsafe impl<M: Machine> Post<M> for IfEmpty<'_, M> {
    unsafe fn post(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        unsafe { self.0.post_first_entered(node) }
    }

    unsafe fn post_entered(&self, node: NonNull<Node<M>>) -> Posted {
        // SAFETY: passed on from the caller.
        unsafe { self.0.post_first_entered(node) }
    }
}

impl<M: Machine> From<Posted> for Placed<'_, M> {
    fn from(posted: Posted) -> Self {
        match posted {
            Posted::Yes => Placed::Yes,
            Posted::Closed => Placed::Closed,
        }
    }
}

impl<M: Machine> Scheduler<M> {
    /// Where a caller that prefers this worker looks for an idle one. Callers that choose at the same moment run on
    /// different CPUs.
    fn wish(near: usize) -> Wish {
        let spread = M::cpu();
        Wish { near, spread }
    }

    /// Whether a worker takes at once what is posted to it: it is idle, serves no call, and nothing else runs on its
    /// core.
    pub(crate) fn takes_at_once(&self, worker: usize) -> bool {
        self.idle().sight(worker).has_core && self.waits(worker)
    }

    /// Whether a worker spins or sleeps, has not been notified, and serves no call.
    fn waits(&self, worker: usize) -> bool {
        let remote = &self.remotes()[worker];
        matches!(remote.bell().look(), Look::Spinning | Look::Parked) && !remote.is_serving()
    }

    /// Whether a worker is free: it takes a post at once, no task has been posted to it, and it is on.
    pub(crate) fn is_free(&self, worker: usize) -> bool {
        self.free(worker, false).is_some()
    }

    /// What is seen of a worker if it is free. `is_own_core`: the caller itself is the worker of another class that
    /// runs there.
    fn free(&self, worker: usize, is_own_core: bool) -> Option<Sight> {
        let remote = &self.remotes()[worker];
        let sight = self.idle().sight(worker);
        let is_free = (sight.has_core || is_own_core)
            && self.waits(worker)
            && !remote.has_injected()
            && !remote.is_off();
        is_free.then_some(sight)
    }

    /// The worker to ask for something that any worker may do: `prefer` or the nearest one that is on, if it is free
    /// or no worker is idle; else an idle one. It is not claimed.
    pub(crate) fn find_idle<'a>(&'a self, prefer: &'a Member<M>) -> &'a Member<M> {
        let prefer = self.nearest_on(prefer.worker());
        if self.is_free(prefer.worker()) {
            return prefer;
        }
        self.idle_or(prefer, |_| true)
    }

    /// The idle worker nearest to `prefer` that fits, or `prefer`. It is not claimed.
    fn idle_or<'a>(&'a self, prefer: &'a Member<M>, fits: impl Fn(usize) -> bool) -> &'a Member<M> {
        let found = self.idle().find(Self::wish(prefer.worker()), fits);
        found.map_or(prefer, |worker| &self.remotes()[worker])
    }

    /// In place of a worker that sleeps in the poller another idle one, if there is one. The task's next poll may be long,
    /// and nobody would take over the poller.
    fn spare_keeper<'a>(&'a self, prefer: &'a Member<M>) -> &'a Member<M> {
        let worker = prefer.worker();
        if prefer.driver().keeper() == Some(worker) {
            self.idle_or(prefer, |other| other != worker)
        } else {
            prefer
        }
    }

    /// The worker to prefer for a task that slept, and that `last` ran before: `last`, unless a hardware thread beside
    /// it is busy and an idle worker has a core to itself. Else the task would be slow, and come back to the same place
    /// after each sleep.
    pub(crate) fn prefer_own_core<'a>(&'a self, last: &'a Member<M>) -> &'a Member<M> {
        &self.remotes()[self.idle().beside_nobody(Self::wish(last.worker()))]
    }

    /// Posts a task from outside that prefers `prefer`: to that worker or the nearest one that is on, if it is free,
    /// nobody else chooses it, and it does not sleep in the poller; else to another idle worker; if there is none, to
    /// `prefer`, or where tasks run by rank to the worker that runs lowest. `is_own_core`: the caller is a worker of another class on the core of `prefer`;
    /// an urgent task may interrupt it, and then no other core.
    ///
    /// # Safety
    /// As for [`Member::post_task`].
    pub(crate) unsafe fn place_task<'a>(
        &'a self,
        prefer: &'a Member<M>,
        is_own_core: bool,
        node: NonNull<Node<M>>,
    ) -> Placed<'a, M> {
        let mut prefer = self.nearest_on(prefer.worker());
        if !is_own_core {
            prefer = self.spare_keeper(prefer);
        }
        // SAFETY: passed on.
        let placed = unsafe { self.post_to_idle(prefer, is_own_core, node) };
        // SAFETY: passed on; it was not posted.
        placed.unwrap_or_else(|| unsafe { self.post_behind(prefer, node) })
    }

    /// As [`Scheduler::place_task`]; `None` if no worker is idle. Then the task is the caller's still.
    ///
    /// # Safety
    /// As for [`Member::post_task`].
    pub(crate) unsafe fn post_to_idle<'a>(
        &'a self,
        prefer: &'a Member<M>,
        is_own_core: bool,
        node: NonNull<Node<M>>,
    ) -> Option<Placed<'a, M>> {
        if self.remotes().len() == 1 {
            // There is no choice.
            return None;
        }
        let setting = prefer.idle_claim();
        if setting != IdleClaim::On {
            // SAFETY: passed on.
            return unsafe { self.post_by_look(prefer, node, setting) };
        }
        let (near, pulse) = (prefer.worker(), prefer.pulse());
        let free = self.free(near, is_own_core);
        if let Some(sight) = free {
            // One that has only just begun to spin is in no set: the push alone decides.
            let claims = self.may_claim() && sight.is_idle;
            // SAFETY: passed on.
            let placed = unsafe { self.post_if_won(prefer, claims, pulse, node) };
            if placed.is_some() {
                return placed;
            }
        }
        let wish = Self::wish(near);
        let near = if free.is_some() {
            // Others choose around that worker at this moment: goes on at its own place.
            wish.spread % self.remotes().len()
        } else {
            near
        };
        let (mut placed, mut lost) = (None, u64::from(free.is_some()));
        let takes = |worker: usize| {
            let to = &self.remotes()[worker];
            let pulse = to.pulse();
            let is_seen_busy = worker == prefer.worker() && free.is_none();
            // Callers that claim do not look: many at once would hold up those who wake the same workers.
            if is_seen_busy || !(self.may_claim() || self.waits(worker)) {
                return false;
            }
            // SAFETY: passed on; each call before has left the task to the caller.
            placed = unsafe { self.post_if_won(to, self.may_claim(), pulse, node) };
            if placed.is_none() {
                lost += 1;
            } else if lost > 0 {
                // Not at the workers that were lost: others choose around those at this moment.
                to.counts().claims_lost.add_shared(lost);
            }
            placed.is_some()
        };
        let _ = self.idle().each_idle(Wish { near, ..wish }, takes);
        placed
    }

    /// Posts a task to a worker that was idle at `pulse`, unless another caller has chosen that one: `None` then, and
    /// the task is the caller's still. A caller that `claims` takes the worker out of the idle set first.
    ///
    /// # Safety
    /// As for [`Member::post_task`].
    unsafe fn post_if_won<'a>(
        &self,
        to: &'a Member<M>,
        claims: bool,
        pulse: u64,
        node: NonNull<Node<M>>,
    ) -> Option<Placed<'a, M>> {
        let is_won = || self.idle().holds(to.worker()) && self.idle().take(to.worker());
        if !claims || is_won() {
            // SAFETY: passed on.
            if let Some(posted) = unsafe { to.post_first(node) } {
                return Some(self.look_after(to, pulse, posted));
            }
            if claims {
                // Whoever pushed that other task may lose its CPU before it tells the worker, which nobody else can
                // claim now.
                to.request_pass();
            }
        }
        None
    }

    /// Call it after a post to a worker that was idle at `pulse`. If its inject queue is not empty and it runs, the
    /// task may wait behind what it runs.
    pub(crate) fn look_after<'a>(
        &self,
        to: &'a Member<M>,
        pulse: u64,
        posted: Posted,
    ) -> Placed<'a, M> {
        if posted == Posted::Closed || !to.is_inside() || !to.has_injected() {
            return posted.into();
        }
        let may_claim = self.may_claim();
        if runs_another(to, pulse) && !M::breaks(Bug::PlaceKeepsLostLate) {
            if may_claim {
                return Placed::Behind(to);
            }
            // It takes no task back: it may lose its CPU while it holds it.
            self.leave_behind(to);
            return Placed::Yes;
        }
        self.show_injected(to);
        if !may_claim {
            // It cannot ask for a watchdog.
            self.offer(to.worker());
        } else if !M::breaks(Bug::SchedulerPushUnoffered) {
            self.offer_one(to.worker());
        }
        Placed::Yes
    }

    /// Leaves what lies in that worker's inject queue behind what the worker runs, and offers it to others.
    pub(crate) fn leave_behind(&self, worker: &Member<M>) {
        worker.counts().stacked.add_shared(1);
        self.show_injected(worker);
        self.offer(worker.worker());
    }

    /// In front of an offer of what lies in that worker's inject queue: from here on other workers find it.
    fn show_injected(&self, of: &Member<M>) {
        self.work().add_anew(of.worker());
        // ORDER: with the announcement of a worker that falls asleep; unshown because no model has one more worker
        // fall asleep here. `offer_against_sleep` shows the same fence in front of the offer of a push.
        M::fence_recheck();
    }

    /// Posts a call to the mailbox of a worker that takes it at once: `prefer`, or another idle one, whose mailbox is
    /// empty. If there is none, posts it to [any worker](AnyWorker), and asks `otherwise` for a pass. Nobody is
    /// claimed: the caller may be of a lower class. Says whether an idle worker may have begun to run something else
    /// before the post: then the call waits behind that.
    ///
    /// # Errors
    /// The call, if the workers have ended.
    pub(crate) fn place_call<F>(
        &self,
        prefer: &Member<M>,
        otherwise: &Member<M>,
        f: F,
    ) -> Result<IsBehind, F>
    where
        F: FnOnce() + Send + 'static,
    {
        if self.remotes().len() == 1 {
            return post(otherwise, f).map(|()| IsBehind(false));
        }
        let (mut left, mut is_behind) = (Some(f), false);
        let mut takes = |worker: usize| {
            let to = &self.remotes()[worker];
            if !self.takes_at_once(worker) || to.has_mail() {
                return false;
            }
            left = left.take().and_then(|f| post(&IfEmpty(to), f).err());
            // It may have looked at its mailbox just before the post, and begin a poll now.
            is_behind = to.is_inside() && to.has_mail();
            left.is_none()
        };
        if !takes(prefer.worker()) {
            let wish = Self::wish(prefer.worker());
            let _ = self.idle().each_idle(wish, takes);
        }
        match left {
            None => Ok(IsBehind(is_behind)),
            Some(f) => post(&AnyWorker(otherwise), f).map(|()| IsBehind(false)),
        }
    }

    /// The switched-off claim: chooses a worker by looks, and posts whatever lies there.
    ///
    /// # Safety
    /// As for [`Member::post_task`].
    #[cold]
    unsafe fn post_by_look(
        &self,
        prefer: &Member<M>,
        node: NonNull<Node<M>>,
        setting: IdleClaim,
    ) -> Option<Placed<'_, M>> {
        let marks = setting == IdleClaim::Mark;
        let is_open = |worker: usize| !marks || !self.remotes()[worker].is_marked();
        let near = prefer.worker();
        let to = if self.is_free(near) && is_open(near) {
            near
        } else {
            self.idle().each_idle(Self::wish(near), is_open)?
        };
        let to = &self.remotes()[to];
        if marks {
            to.set_mark(true);
        }
        let pulse = to.pulse();
        // SAFETY: passed on.
        let (posted, pushed) = unsafe { to.post_task_then(node) };
        if pushed == Pushed::Behind
            || (to.is_inside() && to.has_injected() && runs_another(to, pulse))
        {
            to.counts().stacked.add_shared(1);
        }
        Some(posted.into())
    }
}

/// Whether a worker that is inside a poll or a call, and was idle at `pulse`, runs something else than what lies in its
/// inject queue.
fn runs_another<M: Machine>(worker: &Member<M>, pulse: u64) -> bool {
    worker.has_queued() || worker.is_serving() || worker.pulse() != pulse
}
