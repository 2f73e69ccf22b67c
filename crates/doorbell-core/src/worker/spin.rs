//! Spinning: an idle worker serves calls without a pass.

use super::Worker;
use super::governor::Governor;
use doorbell_machine::{Bug, Counter, Machine, Spun};
use std::cell::Cell;

/// A worker that calls keep spinning makes a pass after this time, so that what only a pass does is still done.
const PASS_INTERVAL_NS: u64 = 1_000_000;

/// After two takes in a row that brought only calls without a waiting caller, the last fewer than this, a
/// spinning worker pauses about half a microsecond, so that the next take brings more.
const BURST_TAKE: u64 = 64;
const BURST_PAUSE: u32 = 32;

/// A spinning worker to which nothing is posted for this long returns the parcels that it holds.
const HOLD_NS: u64 = 20_000;

/// How long a spinning worker looks at its own line only, before it looks for work at other workers.
/// A shorter spin touches no other worker's lines.
pub(super) const SPIN_ALONE_NS: u64 = 1_000;

/// After that, it looks for work there once in this time.
const LOOK_AROUND_NS: u64 = 10_000;

/// What decides whether a worker spins before it parks, and for how long.
#[derive(Debug)]
pub(super) struct Spinning {
    governor: Governor,
    /// A timer ended the last park, and nothing was posted since. Spinning would burn CPU for posts that do not come.
    after_deadline: Cell<bool>,
}

impl Spinning {
    pub(super) fn new(governor: Governor) -> Self {
        Spinning {
            governor,
            after_deadline: Cell::new(false),
        }
    }

    pub(super) fn governor(&self) -> &Governor {
        &self.governor
    }

    /// Notes that a timer ended a park, or that something was posted since.
    pub(super) fn set_after_deadline(&self, after_deadline: bool) {
        self.after_deadline.set(after_deadline);
    }
}

/// How spinning ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpinEnd {
    /// There is something to do beyond calls, or a pass is due.
    Busy,
    /// Nothing came until the time was over, or the worker must not spin.
    Quiet,
}

/// State of a spin.
struct Progress {
    /// The spin ends when nothing has come for this long.
    spin_ns: u64,
    /// Since when nothing has come; `None` if something was served since the clock was read.
    quiet_from_ns: Option<u64>,
    /// When the clock was read last.
    looked_ns: u64,
    /// A timer that needs the worker at this moment ends the spin. The pass that follows fires it.
    wake_ns: u64,
    /// The last take brought only calls without a waiting caller.
    in_burst: bool,
}

impl Progress {
    /// How long it has been quiet.
    fn quiet_ns(&self) -> u64 {
        let from_ns = self.quiet_from_ns.unwrap_or(self.looked_ns);
        self.looked_ns.saturating_sub(from_ns)
    }

    /// How long the spin may still last, if nothing comes.
    fn left_ns(&self) -> u64 {
        let quiet_ns = self.spin_ns.saturating_sub(self.quiet_ns());
        quiet_ns.min(self.wake_ns.saturating_sub(self.looked_ns))
    }
}

impl<M: Machine> Worker<M> {
    /// Spins, and serves calls without a pass while they keep coming.
    pub(super) fn spin(&self) -> SpinEnd {
        let (shared, tally) = (&*self.shared, &self.shared.tally);
        let remote = shared.remote();
        if self.skips_spin() {
            return SpinEnd::Quiet;
        }
        let started_ns = M::now_ns();
        let spin_ns = self.spinning.governor.spin_ns(started_ns);
        if spin_ns == 0 {
            return SpinEnd::Quiet;
        }
        if self.is_look_overdue(started_ns) && self.look_around() {
            return SpinEnd::Busy;
        }
        tally.spins.add_owned(1);
        let wake_ns = self.local.wake_ns();
        let mut progress = Progress {
            spin_ns,
            quiet_from_ns: Some(started_ns),
            looked_ns: started_ns,
            wake_ns: self.wake_by_machine_ns(started_ns),
            in_burst: false,
        };
        loop {
            let slice_ns = self.slice(&progress);
            match remote.spin(slice_ns) {
                Spun::Deadline => match self.end_slice(&mut progress, slice_ns) {
                    None => continue,
                    Some(end) => return end,
                },
                Spun::Changed => tally.notified.add_owned(1),
            }
            progress.quiet_from_ns = None;
            // If a pass is requested, that pass takes the mailbox. A call may have taken the worker off.
            if remote.bell().wants_pass()
                || self.serve_in_spin(&mut progress)
                || self.local.is_off()
            {
                return SpinEnd::Busy;
            }
            // A timer came by mail or from a call, or one became due while calls kept coming.
            if self.local.wake_ns() != wake_ns || self.local.needs_a_look() || self.pull_timers() {
                return SpinEnd::Busy;
            }
            // Calls take time as polls do.
            if self.local.pace().count() || wake_ns != u64::MAX {
                progress.looked_ns = M::now_ns();
                let _ = self.local.pace().read(progress.looked_ns);
            }
            if progress.looked_ns.saturating_sub(started_ns) >= PASS_INTERVAL_NS {
                // Tasks found here run after the pass. A theft needs an empty queue, so it is left out then.
                let has_events = self.look_at_descriptors();
                if !has_events || M::breaks(Bug::SpinStealsFull) {
                    self.look_around();
                }
                return SpinEnd::Busy;
            }
        }
    }

    /// When a timer needs this worker, by the machine's clock, which shows `now_ns`.
    fn wake_by_machine_ns(&self, now_ns: u64) -> u64 {
        match self.local.wake_ns() {
            u64::MAX => u64::MAX,
            wake_ns => now_ns.saturating_add(wake_ns.saturating_sub(self.shared.clock.now_ns())),
        }
    }

    /// Whether the worker parks at once. The CPU of a core that is off is left to others, by every policy; a paused
    /// clock waits for the worker to sleep.
    fn skips_spin(&self) -> bool {
        !self.spinning.governor.spins()
            || self.local.is_off()
            || self.is_cpu_wanted()
            || self.shared.clock.is_frozen()
            || self.waits_for_descriptors()
            || (self.spinning.after_deadline.get() && self.spinning.governor.learns())
    }

    /// How long before a timer the OS is to wake the worker. One that would not spin then sleeps until the timer.
    pub(super) fn early_ns(&self) -> u64 {
        match self.spinning.governor.early_ns() {
            early_ns if early_ns > 0 && !self.skips_spin() => early_ns,
            _ => 0,
        }
    }

    /// Whether posts and requests have kept this idle worker from looking at others for [`PASS_INTERVAL_NS`].
    fn is_look_overdue(&self, now_ns: u64) -> bool {
        self.looking.unlooked_for_ns(now_ns) >= PASS_INTERVAL_NS
    }

    /// Whether the workers of its core tell each other when they use the core.
    fn has_core_use(&self) -> bool {
        self.shared.remote().core_use().is_some()
    }

    /// How long to spin on the own line before the next look elsewhere.
    fn slice(&self, progress: &Progress) -> u64 {
        let left_ns = progress.left_ns();
        let slice_ns = match progress.quiet_ns() {
            _ if !self.has_others() && !self.has_core_use() && !self.must_look() => left_ns,
            0 => left_ns.min(SPIN_ALONE_NS),
            _ => left_ns.min(LOOK_AROUND_NS),
        };
        if self.local.returns().holds() {
            slice_ns.min(HOLD_NS)
        } else {
            slice_ns
        }
    }

    /// Nothing came for a slice. Returns how the spin ends, or `None` if it goes on.
    fn end_slice(&self, progress: &mut Progress, slice_ns: u64) -> Option<SpinEnd> {
        self.local.returns().flush();
        let now_ns = M::now_ns();
        let began_ns = progress.quiet_from_ns.map(|_| progress.looked_ns);
        progress.looked_ns = now_ns;
        let quiet_from_ns = now_ns.saturating_sub(slice_ns);
        progress.quiet_from_ns.get_or_insert(quiet_from_ns);
        // Whatever the policy: the other worker of this core cannot run while this one spins.
        if self.is_cpu_wanted() {
            return Some(SpinEnd::Quiet);
        }
        let preempted = self.was_preempted(slice_ns, began_ns, now_ns);
        if preempted || progress.left_ns() == 0 {
            let quiet_ns = progress.quiet_ns().min(progress.spin_ns);
            self.spinning.governor.note_vain(quiet_ns);
            let tally = &self.shared.tally;
            tally.spun_vain_ns.add_owned(quiet_ns);
            // A pass fires the timers that are due. A worker that never parks makes one and comes back.
            let parks = self.spinning.governor.parks() && !self.local.needs_a_look();
            return Some(if parks { SpinEnd::Quiet } else { SpinEnd::Busy });
        }
        // Also while another worker sleeps in the poller, because that one may get no CPU.
        let must_look = self.local.pace().takes_look(now_ns) || self.must_look();
        let has_events = must_look && self.look_at_descriptors();
        if has_events || self.pull_timers() || self.look_around() {
            return Some(SpinEnd::Busy);
        }
        // The looks took time.
        progress.looked_ns = M::now_ns();
        None
    }

    /// Takes what came. Returns whether there is more to do than calls.
    fn serve_in_spin(&self, progress: &mut Progress) -> bool {
        let returns = self.local.returns();
        self.shared.remote().set_serving(true);
        let served = self.take();
        self.shared.remote().set_serving(false);
        // The request may have come since, and is cleared now.
        if served.signals.pass || self.shared.remote().has_injected() || !self.local.is_empty() {
            return true;
        }
        // Claimed, as it noticed before the calls. Whoever claimed it tells it too, but may be slow.
        if self.looking.is_counted() {
            return true;
        }
        // A look takes the cache line from the posters. If no caller waits, look less often.
        let only_posts = served.delivered > 0 && returns.take_fresh() == served.delivered;
        if only_posts && progress.in_burst && served.delivered < BURST_TAKE {
            M::relax(BURST_PAUSE);
        }
        progress.in_burst = only_posts;
        false
    }

    /// Whether a worker of this core that never spins wants to run.
    fn is_cpu_wanted(&self) -> bool {
        let remote = self.shared.remote();
        let core_use = remote.core_use();
        core_use.is_some_and(|core_use| core_use.is_wanted(remote.worker()))
    }

    /// Whether the OS gave the CPU to another thread during a slice in which nothing came.
    fn was_preempted(&self, slice_ns: u64, began_ns: Option<u64>, now_ns: u64) -> bool {
        let Some(began_ns) = began_ns.filter(|_| self.spinning.governor.learns()) else {
            return false;
        };
        let preempted = self
            .spinning
            .governor
            .was_preempted(began_ns, now_ns, slice_ns);
        if preempted {
            self.shared.tally.preemptions.add_owned(1);
        }
        preempted
    }
}
