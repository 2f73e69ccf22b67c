//! The ledger: everything that a run starts, and what became of it. It is not part of the simulated
//! machine.

use super::rank_order::RankOrder;
use crate::trace::{post_note, run_note};
use doorbell_core::wheel::Window;
use doorbell_machine::{Counter, sim, sim::SimCounter};
use std::sync::Arc;

/// Everything that a run starts, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Accepted closures: posts and calls.
    posted: SimCounter,
    ran: SimCounter,
    dropped: SimCounter,
    /// Whether workers end while programs run. Then a refused closure is rightly dropped.
    ends: SimCounter,
    /// Whether all is over, and the workers end. Then a timer rightly ends unfired.
    closes: SimCounter,
    /// Launched tasks, and tasks whose futures have been dropped.
    launched: SimCounter,
    ended: SimCounter,
    /// Timers that were awaited to their end, and the greatest lateness of one.
    timers: SimCounter,
    latest_ns: SimCounter,
    /// How late a timer may be; `None` if that is not judged.
    late_max_ns: Option<u64>,
    steps: SimCounter,
    /// The rank order of the urgent scheduler, if it is judged.
    order: Option<Arc<RankOrder>>,
}

/// The worker on which something must happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) worker: usize,
    /// The number of its thread.
    pub(super) thread: u32,
}

/// Something that must happen exactly once. It fails the run if it happens twice or is lost.
#[derive(Debug)]
pub(super) struct Once {
    ledger: Arc<Ledger>,
    what: &'static str,
    home: Option<Home>,
    /// Whether its waiter may give up; then it may be dropped without having run.
    is_withdrawable: bool,
    times: SimCounter,
    /// Its number in traces.
    item: u32,
}

impl Once {
    /// Starts one. `home` is the only worker that may run it; `None` allows any.
    pub(super) fn new(ledger: &Arc<Ledger>, what: &'static str, home: Option<Home>) -> Self {
        let item = ledger.posted.add_shared(1) as u32;
        sim::note(post_note(item));
        Once {
            ledger: Arc::clone(ledger),
            what,
            home,
            is_withdrawable: false,
            times: SimCounter::default(),
            item,
        }
    }

    /// Marks it as withdrawable: it runs at most once if its waiter gives up.
    pub(super) fn or_withdrawn(self) -> Self {
        let mut it = self;
        it.is_withdrawable = true;
        it
    }

    /// Records that it happens now.
    pub(super) fn happens(&self) {
        sim::note(run_note(self.item));
        let before = self.times.add_shared(1);
        self.ledger.ran.add_shared(1);
        if before > 0 {
            sim::fail(format!("once: a {} ran {} times", self.what, before + 1));
        }
        let here = sim::thread();
        if let Some(home) = self.home.filter(|home| here != Some(home.thread)) {
            let (what, cpu) = (self.what, sim::cpu());
            sim::fail(format!(
                "right core: a {what} for {home:?} ran on thread {here:?}, CPU {cpu:?}"
            ));
        }
    }

    /// How often it has happened.
    pub(super) fn times(&self) -> u64 {
        self.times.get()
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        if self.times() > 0 {
            return;
        }
        self.ledger.dropped.add_shared(1);
        if !self.ledger.ends() && !self.is_withdrawable {
            sim::fail(format!("lost: a {} was dropped and had not run", self.what));
        }
    }
}

/// What has started and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Balance {
    pub(super) posts: u64,
    pub(super) tasks: u64,
}

impl Ledger {
    /// A ledger that judges rank order, if asked to, and how late timers are.
    pub(super) fn judging(judges_order: bool, late_max_ns: Option<u64>) -> Self {
        Ledger {
            order: judges_order.then(Arc::default),
            late_max_ns,
            ..Ledger::default()
        }
    }

    /// The rank order, if it is judged.
    pub(super) fn order(&self) -> Option<&Arc<RankOrder>> {
        self.order.as_ref()
    }

    /// From now on workers may end while programs run.
    pub(super) fn let_end(&self) {
        self.ends.set(1);
    }

    /// Whether workers end while programs run.
    pub(super) fn ends(&self) -> bool {
        self.ends.get() != 0
    }

    /// From now on the workers end, because all is over.
    pub(super) fn note_close(&self) {
        self.closes.set(1);
    }

    pub(super) fn note_launched(&self) {
        self.launched.add_shared(1);
    }

    pub(super) fn note_ended(&self) {
        self.ended.add_shared(1);
    }

    pub(super) fn note_step(&self) {
        self.steps.add_shared(1);
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Records that a timer has fired and its task runs. A paused clock must stand inside the timer's window.
    pub(super) fn note_timer(&self, window: Window, now_ns: u64, stands: bool) {
        self.timers.add_shared(1);
        if now_ns < window.from_ns {
            let early_ns = window.from_ns - now_ns;
            sim::fail(format!("never early: a timer fired {early_ns} ns too soon"));
        }
        let late_ns = now_ns.saturating_sub(window.latest_ns);
        if stands && late_ns > 0 {
            sim::fail(format!(
                "quiescence: a clock that stood still went {late_ns} ns beyond a timer"
            ));
        }
        if self.late_max_ns.is_some_and(|most_ns| late_ns > most_ns) {
            sim::fail(format!(
                "lateness: the task of a timer ran {late_ns} ns late, where nothing goes wrong"
            ));
        }
        self.latest_ns.set(self.latest_ns.get().max(late_ns));
    }

    /// Records that a timer has ended, but has not fired: its worker has ended or refused it.
    pub(super) fn note_unfired(&self) {
        if !self.ends() && self.closes.get() == 0 {
            sim::fail("lost: a timer ended unfired");
        }
    }

    /// Checks, when a paused clock advances, that no post is outstanding.
    pub(super) fn check_quiescence(&self) {
        let posts = self.balance().posts;
        if posts > 0 {
            sim::fail(format!(
                "quiescence: the clock went on before {posts} posts had run"
            ));
        }
    }

    pub(super) fn timers(&self) -> u64 {
        self.timers.get()
    }

    /// The greatest lateness of a timer that was awaited to its end.
    pub(super) fn latest_ns(&self) -> u64 {
        self.latest_ns.get()
    }

    /// What has started and not ended.
    pub(super) fn balance(&self) -> Balance {
        Balance {
            posts: self
                .posted
                .get()
                .wrapping_sub(self.ran.get())
                .wrapping_sub(self.dropped.get()),
            tasks: self.launched.get().wrapping_sub(self.ended.get()),
        }
    }
}
