//! Parking: an idle worker sleeps, on its word or in its poller.

use super::Worker;
use crate::bell::Announced;
use crate::io::{Driver, ParkChoice, Station as _};
use crate::scheduler::Turns;
use crate::wheel::Ended;
use doorbell_machine::{Counter, Machine, Mark, ParkEnd, ParkIn, WaitEnd};

impl<M: Machine> Worker<M> {
    /// From spinning to parked and back.
    pub(super) fn park(&self) {
        let remote = self.shared.remote();
        if self.looks_further() {
            self.shared.tally.parks_avoided.add_owned(1);
            return;
        }
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
        // Before the announcement: the thread that rings must see where this worker sleeps.
        let form = Driver::choose(&**remote);
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
        // From here on, a thread with work for others finds this worker in the idle set; this look sees
        // earlier work. The look can drop a waker that arms a timer for now, and a frozen clock would not
        // end the sleep. A worker that got its first descriptor since `choose` must park in its poller.
        let stays_awake = self.look_for_the_last_time()
            || self.local.is_due()
            || self.hands_over_the_clock() == Ended::Resumed
            || remote.driver().check(form) == ParkChoice::Outdated;
        if stays_awake {
            tally.parks_avoided.add_owned(1);
            return;
        }
        tally.parks.add_owned(1);
        remote.note_sleep();
        self.sleep(form);
    }

    /// Sleeps, and counts what ended the sleep.
    fn sleep(&self, form: ParkIn) {
        let tally = &self.shared.tally;
        // A frozen clock does not advance while the thread sleeps: the OS cannot time its timers.
        let until_ns = self
            .local
            .due_ns()
            .filter(|_| !self.shared.clock.is_frozen());
        let look_ns = self.watchdog_until_ns();
        let until_ns = [until_ns, look_ns];
        let until_ns = until_ns.into_iter().flatten().min();
        let learns = self.governor.learns();
        let from_ns = if learns { M::now_ns() } else { 0 };
        self.end_to_run();
        match self.block(form, until_ns) {
            WaitEnd::Rung => {
                tally.unparks_rung.add_owned(1);
                if learns {
                    let slept_ns = M::now_ns().saturating_sub(from_ns);
                    self.governor.note_sleep(slept_ns);
                }
            }
            // Notified between the announcement and the last test of the OS.
            WaitEnd::Changed => tally.unparks_last_test.add_owned(1),
            WaitEnd::Ready => {
                tally.unparks_ready.add_owned(1);
                self.looks.set_after_ready(true);
                self.note_ready(self.looks.with_events(|events| events.len()));
            }
            WaitEnd::Deadline => {
                tally.unparks_deadline.add_owned(1);
                self.after_deadline.set(true);
                if self.local.turns() == Turns::ByRank {
                    // Otherwise a timer that is due by the clock of the OS would wait for this worker's clock.
                    M::catch_up();
                }
            }
            WaitEnd::Spurious => {}
        }
    }

    /// Blocks the thread where it was announced: on the word, or in the poller.
    fn block(&self, form: ParkIn, until_ns: Option<u64>) -> WaitEnd {
        let remote = self.shared.remote();
        let awake = || {
            self.begin_to_run();
            self.shared.clock.begin();
        };
        if form == ParkIn::Word {
            let ended = remote.bell().park(remote.parker(), until_ns);
            awake();
            return match ended {
                ParkEnd::Rung => WaitEnd::Rung,
                ParkEnd::Changed => WaitEnd::Changed,
                ParkEnd::Deadline => WaitEnd::Deadline,
                ParkEnd::Spurious => WaitEnd::Spurious,
            };
        }
        // The worker must run before the events wake tasks: else it would be offered its own tasks.
        let awake = || {
            awake();
            self.leave_idle_set();
            let _ = remote.bell().end_idle();
        };
        self.looks.with_events(|events| {
            let park = || Driver::park_then(&**remote, until_ns, events, awake);
            self.local.bring(park)
        })
    }

    /// A sleeping worker does not hold up a paused clock: tells the clock when its next timer is due.
    fn hands_over_the_clock(&self) -> Ended {
        let clock = &self.shared.clock;
        if !clock.is_frozen() {
            return Ended::Yes;
        }
        let due_ns = self.local.look_due_ns();
        if self.local.is_due() {
            return Ended::Resumed;
        }
        clock.end_worker(self.shared.remote().worker(), due_ns)
    }
}
