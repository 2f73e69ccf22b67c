//! Falling asleep, from the pass that found nothing to the end of the sleep.
//!
//! 1. [`Worker::idle`]: give back the parcels, announce the spin, and spin ([`Worker::spin`], which may find
//!    something). If a signal is set already, the worker does not idle.
//! 2. `park_with_hooks`, `park`: call the user's hook, which may bring a task; then let other workers of this core
//!    spin.
//! 3. `park_or_not`: announce the park, then look for the last time. Later work finds the announcement, so no wake-up
//!    is lost: posts by the bell, tasks for any worker by the idle set.
//! 4. `sleep`, `block`: leave timers to others ([`Worker::leave_timers`]). Sleep until rung, if this worker
//!    keeps the poller until a descriptor is ready, or until a time: that of a timer, or of a look at workers that may be stuck
//!    ([`Worker::next_look`]).
//! 5. `block`: take the timers back. `idle` again: leave the idle set, announce that the worker runs. A worker that
//!    wakes in its poller does all that before the events wake tasks (`block`).

use super::spin::SpinEnd;
use super::{NothingRunnable, Worker};
use crate::bell::Announced;
use crate::io::Keeper;
use crate::switches::IdleClaim;
use crate::wheel::Ended;
use doorbell_machine::{Bug, Counter, Machine, Mark, ParkEnd, WaitEnd};

impl<M: Machine> Worker<M> {
    /// Spins, then parks, until there is something to do.
    pub(super) fn idle(&self, _evidence: NothingRunnable) {
        let remote = self.shared.remote();
        self.local.returns().flush();
        match remote.bell().announce_spin() {
            // The next pass takes the mailbox and clears the signal.
            Announced::Signalled => return,
            Announced::Yes => {}
        }
        // A post that saw the worker running relies on the first look of the spin, or on the last look
        // of the park. The spin serves a call that came just now, without another pass.
        if self.spin() == SpinEnd::Quiet {
            self.park_with_hooks();
        }
        self.leave_idle_set();
        let _ = remote.bell().end_idle();
    }

    /// Parks between the two hooks.
    pub(super) fn park_with_hooks(&self) {
        self.call_hooks(|hooks| &hooks.before_park);
        // The hook may have spawned or woken a task on this worker, and that notifies no one.
        if self.local.is_empty() {
            self.park();
        }
        self.call_hooks(|hooks| &hooks.after_unpark);
    }

    /// From spinning to parked and back.
    pub(super) fn park(&self) {
        let remote = self.shared.remote();
        let core_use = remote.core_use();
        if let Some(core_use) = core_use {
            core_use.end(remote.worker());
        }
        self.park_or_not();
        if let Some(core_use) = core_use {
            core_use.begin(remote.worker());
        }
    }

    fn park_or_not(&self) {
        let (remote, tally) = (self.shared.remote(), &self.shared.tally);
        self.local.returns().flush();
        if remote.idle_claim() == IdleClaim::Mark {
            remote.set_mark(false);
        }
        // Before the announcement: the thread that rings must see where this worker sleeps.
        let keeper = self.try_keep();
        match remote.bell().announce_park() {
            Announced::Signalled => return,
            Announced::Yes => {}
        }
        // A post that saw the worker spinning or running relies on this look.
        if !remote.mailbox_is_empty() {
            M::mark(Mark::MailboxLastLook);
            tally.parks_avoided.add_owned(1);
            return;
        }
        // The next look begins with the idle set: from then on a thread with work for others finds this worker there,
        // and the look sees earlier work. The look can drop a waker that arms a timer for now, and a frozen clock would
        // not end the sleep. A keeper may have left, or the first descriptor may have come, since `try_keep`. The clock comes
        // last: a worker that has handed it over counts as asleep until `block` ends.
        let stays_awake = self.look_for_the_last_time()
            || self.local.needs_a_look()
            || (self.must_look() && !M::breaks(Bug::IoSleepsUnkept))
            || self.hands_over_the_clock() == Ended::Resumed;
        if stays_awake {
            tally.parks_avoided.add_owned(1);
            return;
        }
        tally.parks.add_owned(1);
        remote.note_sleep();
        self.sleep(keeper);
    }

    /// The look before the worker sleeps: it sees earlier work; later work finds this worker in the idle set.
    /// Returns whether the worker must stay awake.
    pub(super) fn look_for_the_last_time(&self) -> bool {
        if !self.has_others() {
            self.local.unlist();
            // It is off, and has handed on its tasks.
            self.say_nothing_waits();
            return false;
        }
        self.looking.note_look();
        self.enter_idle_set();
        self.say_nothing_waits();
        let remote = self.shared.remote();
        // Claimed while it spun: the work may be gone, but the claim must be consumed. A later claimer
        // finds the worker parked, and notifies it.
        if !remote.scheduler().idle().holds(remote.worker()) {
            M::mark(Mark::IdleClaimedBeforePark);
            return true;
        }
        if remote.is_watchdog() {
            self.end_lapsed_searches();
        }
        // The thread that posted to the common mailbox may have found no idle worker.
        self.take_common();
        let found = self.scan_before_sleep();
        if found {
            self.offer_new_surplus();
        }
        // A user's waker that is dropped with a timer may have woken a task here.
        found || !self.local.is_empty()
    }

    /// Sleeps, and counts what ended the sleep.
    pub(super) fn sleep(&self, keeper: Option<Keeper<'_, M>>) {
        let tally = &self.shared.tally;
        let early_ns = self.early_ns();
        let until_ns = self.leave_timers();
        let until_ns = until_ns.map(|ns| ns.saturating_sub(early_ns));
        let look_ns = self.next_look();
        let until_ns = [until_ns, look_ns];
        let until_ns = until_ns.into_iter().flatten().min();
        let learns = self.spinning.governor().learns();
        let from_ns = if learns { M::now_ns() } else { 0 };
        self.end_to_run();
        let ended = self.block(keeper, until_ns);
        self.note_duty(ended);
        match ended {
            WaitEnd::Rung => {
                tally.unparks_rung.add_owned(1);
                if learns {
                    let slept_ns = M::now_ns().saturating_sub(from_ns);
                    self.spinning.governor().note_sleep(slept_ns);
                }
            }
            // Notified between the announcement and the last test of the OS.
            WaitEnd::Changed => tally.unparks_last_test.add_owned(1),
            WaitEnd::Ready => {
                tally.unparks_ready.add_owned(1);
                self.looks.set_after_ready(true);
            }
            WaitEnd::Deadline => {
                tally.unparks_deadline.add_owned(1);
                self.spinning.set_after_deadline(true);
                if self.local.turns().is_exact() {
                    // Otherwise a timer that is due by the clock of the OS would wait for this worker's clock.
                    M::catch_up();
                }
            }
            WaitEnd::Spurious => {}
        }
    }

    /// Blocks the thread: the keeper in the poller, any other one on its word.
    fn block(&self, keeper: Option<Keeper<'_, M>>, until_ns: Option<u64>) -> WaitEnd {
        let remote = self.shared.remote();
        let awake = || {
            self.begin_to_run();
            self.come_back();
            self.shared.clock.begin();
        };
        let Some(keeper) = keeper else {
            let ended = remote.bell().park(remote.parker(), until_ns);
            awake();
            return match ended {
                ParkEnd::Rung => WaitEnd::Rung,
                ParkEnd::Changed => WaitEnd::Changed,
                ParkEnd::Deadline => WaitEnd::Deadline,
                ParkEnd::Spurious => WaitEnd::Spurious,
            };
        };
        // The worker must run before the events wake tasks: else it would be offered its own tasks.
        let awake = || {
            awake();
            self.leave_idle_set();
            let _ = remote.bell().end_idle();
        };
        let ended = self.looks.with_events(|events| {
            let park = || keeper.park(remote.bell(), until_ns, events, awake);
            self.local.bring(park)
        });
        self.local.pace().note_look(M::now_ns());
        ended
    }

    /// A sleeping worker does not hold up a paused clock: tells the clock when its next timer needs a wake.
    fn hands_over_the_clock(&self) -> Ended {
        let clock = &self.shared.clock;
        if !clock.is_frozen() {
            return Ended::Yes;
        }
        self.local.note_next();
        if self.local.needs_a_look() {
            return Ended::Resumed;
        }
        clock.end_worker(self.shared.remote().worker(), self.local.wake_ns())
    }
}
