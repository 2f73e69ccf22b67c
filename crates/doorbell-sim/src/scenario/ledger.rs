//! The ledger: what was begun, and what came of it. It is no part of the simulated machine.

use crate::trace::{post_note, run_note};
use doorbell_machine::{Counter, sim, sim::SimCounter};
use std::sync::Arc;

/// What was begun and what came of it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Closures that were accepted: posts and calls.
    posted: SimCounter,
    ran: SimCounter,
    dropped: SimCounter,
    /// Whether workers end while programs run: what is refused then is dropped, and that is right.
    ends: SimCounter,
    /// Tasks that were launched, and those whose futures are gone.
    launched: SimCounter,
    ended: SimCounter,
    /// Timers that were awaited to their end, and the latest of them.
    timers: SimCounter,
    latest_ns: SimCounter,
    steps: SimCounter,
    /// Reads by tasks that were rescued.
    rescues: SimCounter,
}

/// The worker on which something must happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) worker: usize,
    /// The number of its thread.
    pub(super) thread: u32,
}

/// One thing that must happen once: it says so itself when it happens twice or is lost.
#[derive(Debug)]
pub(super) struct Once {
    ledger: Arc<Ledger>,
    what: &'static str,
    home: Option<Home>,
    /// Whoever waits for it may go, and then it may be dropped.
    is_withdrawable: bool,
    times: SimCounter,
    /// Its number in traces.
    item: u32,
}

impl Once {
    /// Something that was begun now, for that worker if any will not do.
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

    /// The same, and it is at most once if whoever waits for it goes.
    pub(super) fn or_withdrawn(self) -> Self {
        let mut it = self;
        it.is_withdrawable = true;
        it
    }

    /// It happens now.
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

/// What is left when all should be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Balance {
    pub(super) posts: u64,
    pub(super) tasks: u64,
}

impl Ledger {
    /// Workers will end while programs run.
    pub(super) fn let_end(&self) {
        self.ends.set(1);
    }

    /// Whether workers end while programs run.
    pub(super) fn ends(&self) -> bool {
        self.ends.get() != 0
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

    pub(super) fn note_rescue(&self) {
        self.rescues.add_shared(1);
    }

    pub(super) fn rescues(&self) -> u64 {
        self.rescues.get()
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// A timer for that time has fired, and its task runs. A clock that stands still goes on to
    /// that very time.
    pub(super) fn note_timer(&self, due_ns: u64, now_ns: u64, stands: bool) {
        self.timers.add_shared(1);
        if now_ns < due_ns {
            let early_ns = due_ns - now_ns;
            sim::fail(format!("never early: a timer fired {early_ns} ns too soon"));
        }
        let late_ns = now_ns.saturating_sub(due_ns);
        if stands && late_ns > 0 {
            sim::fail(format!(
                "quiescence: a clock that stood still went {late_ns} ns beyond a timer"
            ));
        }
        self.latest_ns.set(self.latest_ns.get().max(late_ns));
    }

    /// A clock that stands still goes on: nothing must be left to do.
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

    /// What was begun and is not over.
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
