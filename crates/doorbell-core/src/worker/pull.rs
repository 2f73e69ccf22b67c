//! What a worker does in the timer tree (see the folder `tree`), so that sleeping workers are woken less often for
//! timers that another one can fire: the switch `timer_pull`.
//!
//! 1. It leaves when it falls asleep ([`Worker::leave_timers`]): it lends its wheel, and sleeps until a timer of its
//!    local base. If all others sleep, and none of them wakes in time, it wakes for the first timer of all; that is its
//!    *duty*.
//! 2. It comes back when it wakes ([`Worker::come_back`]), before it may touch its wheel.
//! 3. Between polls, in its spin and in its passes it looks whether a sleeper that it looks after has something due,
//!    and fires that ([`Worker::pull_timers`]). The fired tasks run here, unless another movable task waits here: then
//!    they go to idle workers.
//! 4. A worker that is stuck is set aside by another one that looks after it (`watch/remedy.rs`). It notices that at its next
//!    look. A worker that is off steps aside by itself: others fire its timers while it sleeps.

use super::Worker;
use super::local::VISITED_RETRY_NS;
use crate::scheduler::Member;
use crate::tree::{Deactivated, Duty, Step, Tree};
use doorbell_machine::{Bug, Counter, Machine, Mark, WaitEnd};
use std::cell::Cell;

/// What a worker knows of its part in the tree.
#[derive(Debug)]
pub(super) struct Pull {
    /// It has joined the tree, or left timers or a duty there: it comes back when it wakes, whatever the switch says
    /// then.
    joined: Cell<bool>,
    /// Until when it sleeps, or has just slept, because of its duty; `u64::MAX` for none.
    duty_ns: Cell<u64>,
    /// Before that time it visits no sleeper's wheel, because one could not be entered.
    again_ns: Cell<u64>,
}

impl Pull {
    pub(super) fn new() -> Self {
        Pull {
            joined: Cell::new(false),
            duty_ns: Cell::new(u64::MAX),
            again_ns: Cell::new(0),
        }
    }
}

impl<M: Machine> Worker<M> {
    /// The timer tree, if the worker uses it now.
    pub(super) fn tree(&self) -> Option<&Tree<M>> {
        let is_used = self.pull.joined.get() || self.shared.remote().pulls_timers();
        if is_used { self.any_tree() } else { None }
    }

    /// The timer tree, also if the worker does not use it: others may have left timers there before the switch was
    /// turned off.
    fn any_tree(&self) -> Option<&Tree<M>> {
        let tree = self.shared.remote().scheduler().tree()?;
        // A paused clock asks each worker when its next timer is due.
        (!self.shared.clock.is_frozen()).then_some(tree)
    }

    /// The worker is about to sleep: until when its timers let it. Behind this it does not touch its wheel before it
    /// [comes back](Worker::come_back).
    pub(super) fn leave_timers(&self) -> Option<u64> {
        let wake_ns = self.local.wake_ns();
        let remote = self.shared.remote();
        let leaves = remote.pulls_timers();
        // The last worker may have stepped aside and asked this one for a pass before the switch was turned off.
        let is_asked = |tree: &&Tree<M>| leaves || self.pull.joined.get() || tree.lacks_sentry();
        let Some(tree) = self.any_tree().filter(is_asked) else {
            // A frozen clock does not advance while the thread sleeps: the OS cannot time its timers.
            let sleeps = wake_ns != u64::MAX && !self.shared.clock.is_frozen();
            return sleeps.then_some(wake_ns);
        };
        let (own_ns, left_ns) = if leaves {
            remote.gate().lend();
            (self.local.wake_local_ns(), remote.next_global_ns())
        } else {
            (wake_ns, u64::MAX)
        };
        tree.note(remote.worker(), left_ns);
        let duty_ns = self.leave_for_sleep(tree);
        self.pull.joined.set(leaves || duty_ns != u64::MAX);
        self.pull.duty_ns.set(duty_ns);
        let until_ns = own_ns.min(duty_ns);
        (until_ns != u64::MAX).then_some(until_ns)
    }

    /// Returns until when the worker's duty lets it sleep; `u64::MAX` for none.
    fn leave_for_sleep(&self, tree: &Tree<M>) -> u64 {
        if self.local.is_off() {
            // Its core is not for it: a worker that is on has the duty.
            self.step_aside(tree);
            return u64::MAX;
        }
        let left = tree.deactivate(self.shared.remote().worker());
        // Either `next_look` finds the worker that looks after these timers, or that one sees them before it
        // polls.
        if !M::breaks(Bug::PullLeavesNoFence) {
            M::fence_announce();
        }
        match left {
            Deactivated::SleepUntil(at_ns) if !M::breaks(Bug::PullForgetsDuty) => {
                at_ns.max(self.pull.again_ns.get())
            }
            Deactivated::SleepUntil(_) | Deactivated::Nothing => u64::MAX,
        }
    }

    /// The worker looks after no sleepers: it is off, or ends. If no worker is active and no sentry wakes for the first
    /// timer, it asks an idle worker for a pass. Else it wakes a watchdog, if a worker inside a poll has something that
    /// waits.
    fn step_aside(&self, tree: &Tree<M>) {
        let remote = self.shared.remote();
        let told = tree.set_aside(remote.worker());
        if !M::breaks(Bug::PullLeavesNoFence) {
            M::fence_announce();
        }
        match told {
            Duty::Nothing => self.wake_watchdog_if_wanted(),
            Duty::WakeBy(_) => remote.scheduler().find_idle(remote).request_pass(),
        }
    }

    /// The worker's thread is awake. Called before anything that may touch its wheel.
    pub(super) fn come_back(&self) {
        let Some(tree) = self.tree() else { return };
        let remote = self.shared.remote();
        remote.gate().take_back(|| {
            if self.local.is_off() {
                // It looks after its own timers alone.
                tree.note(remote.worker(), u64::MAX);
                Self::report(tree, remote);
            } else {
                tree.activate(remote.worker());
            }
        });
        self.pull.joined.set(true);
    }

    /// Notes whether a sleep until the worker's duty was for nothing.
    pub(super) fn note_duty(&self, ended: WaitEnd) {
        let duty_ns = self.pull.duty_ns.replace(u64::MAX);
        if duty_ns == u64::MAX || ended != WaitEnd::Deadline {
            return;
        }
        let Some(tree) = self.tree() else { return };
        let remote = self.shared.remote();
        let first_ns = tree.next_ns(remote.worker()).min(remote.next_global_ns());
        if first_ns > duty_ns && self.local.wake_local_ns() > duty_ns {
            self.shared.tally.duties_ended.add_owned(1);
        }
    }

    /// Fires what is due of the sleepers that this worker looks after. Returns whether it fired anything. Reads no
    /// clock if none of them has a timer.
    #[inline]
    pub(super) fn pull_timers(&self) -> bool {
        match self.tree() {
            None => false,
            Some(tree) => self.pull_from(tree),
        }
    }

    fn pull_from(&self, tree: &Tree<M>) -> bool {
        let worker = self.shared.remote().worker();
        if !tree.is_active(worker) {
            if self.local.is_off() {
                return false;
            }
            // Set aside in its last poll, or off until now, or the switch was turned on.
            tree.activate(worker);
            self.pull.joined.set(true);
        }
        let fired = self.walk_if_due(tree);
        if self.local.is_off() {
            // It was taken off just now. A worker that is on is to have the duty. Until this one sleeps it fires its
            // own timers.
            tree.note(worker, u64::MAX);
            self.step_aside(tree);
        }
        fired > 0
    }

    fn walk_if_due(&self, tree: &Tree<M>) -> u64 {
        let due_ns = tree.next_ns(self.shared.remote().worker());
        if due_ns == u64::MAX || M::breaks(Bug::PullNeverLooks) {
            return 0;
        }
        let now_ns = self.shared.clock.now_ns();
        if now_ns < due_ns.max(self.pull.again_ns.get()) {
            return 0;
        }
        let fired = self.walk(tree, now_ns);
        let worker = self.shared.remote().worker();
        if !tree.is_active(worker) && !self.local.is_off() {
            // Set aside in its walk. It goes back before it polls: its climbs may have hidden a next wake from the last
            // worker that fell asleep.
            tree.activate(worker);
        }
        fired
    }

    /// Visits each sleeper that has something due; returns how many timers it fired.
    fn walk(&self, tree: &Tree<M>, now_ns: u64) -> u64 {
        let (remote, tally) = (self.shared.remote(), &self.shared.tally);
        // A worker in the idle set would choose itself for what it fires.
        let places = !self.looking.is_in_idle_set();
        let mut walk = tree.walk(remote.worker(), now_ns);
        let mut fired = 0;
        while let Step::Expire(sleeper) = walk.step() {
            let sleeper = &remote.scheduler().remotes()[sleeper];
            let expired = self
                .local
                .bring_for_sleeper(places, || sleeper.gate().expire(sleeper, now_ns));
            let Some(expired) = expired else {
                M::mark(Mark::PullRefused);
                tally.pulls_refused.add_owned(1);
                let again_ns = now_ns.saturating_add(VISITED_RETRY_NS);
                self.pull.again_ns.set(again_ns);
                continue;
            };
            fired += expired.fired;
            tally.pulls_fenced.add_owned(u64::from(!expired.was_lent));
            Self::report(tree, sleeper);
        }
        tally.timers_fired.add_owned(fired);
        tally.timers_pulled.add_owned(fired);
        fired
    }

    /// Behind a visit: tells the tree what the wheel of that worker has next. This worker is awake, so whatever that
    /// is, a worker sees to it.
    pub(super) fn report(tree: &Tree<M>, visited: &Member<M>) {
        if !M::breaks(Bug::PullReportsNothing) {
            let _: Duty = tree.report(visited.worker());
        }
    }

    /// The earlier of that worker's own next wake (of its global base) and the next wake of the sleepers that it looks
    /// after.
    pub(super) fn next_for(&self, of: &Member<M>) -> u64 {
        let own_ns = of.next_global_ns();
        match self.any_tree() {
            None => own_ns,
            Some(tree) => own_ns.min(tree.next_ns(of.worker())),
        }
    }

    /// Sets another worker aside if a sleeper that it looks after has something overdue, and fires that if it falls to
    /// this worker. Returns whether it fired anything.
    pub(super) fn set_aside_if(&self, other: &Member<M>, is_overdue: impl Fn(u64) -> bool) -> bool {
        let Some(tree) = self.any_tree() else {
            return false;
        };
        if !is_overdue(tree.next_ns(other.worker())) || M::breaks(Bug::PullTrustsStuck) {
            return false;
        }
        M::mark(Mark::TreeSetAside);
        self.shared.tally.set_aside.add_owned(1);
        // Nothing to wake: this worker is awake.
        let _: Duty = tree.set_aside(other.worker());
        self.pull_from(tree)
    }

    /// The worker ends: it looks after sleepers no longer. If no other worker does, wakes one.
    pub(super) fn leave_tree(&self) {
        let Some(tree) = self.tree() else { return };
        tree.note(self.shared.remote().worker(), u64::MAX);
        self.step_aside(tree);
    }

    /// Ends what the worker has: tasks, mail and timers.
    pub(super) fn close(&self) {
        self.local.close();
        self.forget_next_wake();
    }

    /// Its wheel is closed: a visitor that was inside until then may have noted what the wheel had next.
    fn forget_next_wake(&self) {
        let Some(tree) = self.any_tree() else { return };
        let remote = self.shared.remote();
        if tree.next_wake_ns(remote.worker()) != u64::MAX && !M::breaks(Bug::PullEndsEarly) {
            tree.note(remote.worker(), u64::MAX);
            Self::report(tree, remote);
        }
    }
}
