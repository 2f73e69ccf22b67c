//! What must hold of every run, beside what the [ledger](super::ledger) checks while it happens.

use super::class::RT;
use super::scheduler::Workers;
use doorbell_core::bell::Look;
use doorbell_core::switches::{Switches, TimerPull};
use doorbell_core::worker::WorkerCounts;
use doorbell_machine::Counter;
use doorbell_machine::sim::{self, SimCounter};
use std::sync::Arc;

/// How long a lower worker may keep the CPU of an urgent worker that is ready or notified: an interrupt, a
/// context switch, and the rest of the waker's work.
const ORDER_NS: u64 = 30_000;
/// Time between two looks at that.
const LOOK_ORDER_NS: u64 = 2_000;
/// How long a paused clock is released and held, at most.
const HOLD_EVERY_NS: u64 = 20_000;
const HOLD_NS: u64 = 2_000;
/// How long everything outstanding may take to finish after the last fault.
const QUIET_MAX_NS: u64 = 2_000_000_000;

/// Waits until nothing is outstanding.
pub(super) fn until_quiet<const BUG: u8>(workers: &Workers<BUG>) {
    let until_ns = sim::time_ns().saturating_add(QUIET_MAX_NS);
    loop {
        let left = workers.ledger.balance();
        if (left.posts, left.tasks) == (0, 0) {
            return;
        }
        if sim::time_ns() >= until_ns {
            return sim::fail(format!(
                "nothing lost: after all faults {left:?} never ended"
            ));
        }
        sim::sleep(20_000);
    }
}

/// Checks, until told to stop, that no lower worker keeps the CPU of an urgent worker that could run.
///
/// A sleeping urgent worker that was notified waits for its ring. That must come soon, unless a worker of a
/// lower class waits for a CPU meanwhile: it may be the one that has to ring.
pub(super) fn spin_order<const BUG: u8>(workers: &Workers<BUG>, stop: &SimCounter) {
    let cores = workers.cores();
    let urgent = RT * cores..(RT + 1) * cores;
    let lower = || (0..workers.len()).filter(|worker| !urgent.contains(worker));
    // Not checked before its first sleep: a worker requests its policy when it first has its CPU.
    let mut since_ns = vec![(u64::MAX, u64::MAX); cores];
    while stop.get() == 0 {
        // Works instead of sleeping, since a wake could come late.
        sim::work(LOOK_ORDER_NS);
        let now_ns = sim::time_ns();
        let has_cpu = |worker: usize| sim::runs_on(worker % cores) == Some(workers.number(worker));
        let waits = |worker: usize| sim::is_ready(workers.number(worker));
        let anyone_waits = lower().any(waits);
        for (core, (ready_ns, told_ns)) in since_ns.iter_mut().enumerate() {
            let worker = urgent.start + core;
            let is_told = sim::unseen(|| {
                let remote = workers.remote(worker);
                let look = remote.bell().look();
                let is_told = matches!(look, Look::Notified | Look::NotifiedFromBelow);
                is_told || !remote.queue().is_empty()
            });
            let is_under = waits(worker) && lower().any(|it| it % cores == core && has_cpu(it));
            let is_asleep = sim::is_asleep(workers.number(worker));
            if is_asleep || (*ready_ns < u64::MAX && !is_under) {
                *ready_ns = now_ns;
            }
            if !is_told || !is_asleep || anyone_waits {
                *told_ns = now_ns;
            }
            let under_ns = now_ns.saturating_sub(*ready_ns);
            let told_ns = now_ns.saturating_sub(*told_ns);
            if under_ns > ORDER_NS || told_ns > ORDER_NS {
                sim::fail(format!(
                    "class order: urgent worker {core} is below another for {under_ns} ns, or not rung for {told_ns} ns"
                ));
            }
        }
    }
}

/// Holds a paused clock now and then, and checks that it stands still meanwhile.
pub(super) fn hold_often<const BUG: u8>(workers: &Workers<BUG>, stop: &SimCounter) {
    while stop.get() == 0 {
        sim::sleep(sim::random() % HOLD_EVERY_NS);
        let _hold = workers.clock.hold();
        let held_ns = workers.clock.now_ns();
        if sim::random().is_multiple_of(2) {
            sim::sleep(sim::random() % HOLD_NS);
        }
        let still_ns = workers.clock.now_ns();
        if still_ns != held_ns {
            sim::fail(format!(
                "quiescence: the clock went on by {} ns while it was held",
                still_ns - held_ns
            ));
        }
    }
}

/// Checks the counts of workers that have ended.
pub(crate) fn check_counts(counts: &[WorkerCounts], switches: Switches) {
    let of_posts = Switches {
        timer_pull: TimerPull::default(),
        ..switches
    };
    for (worker, it) in counts.iter().enumerate() {
        let needed = it.rings - it.rings_awake - it.rings_helped;
        let ended_by_rings = it.unparks_rung + it.unparks_last_test;
        let ended_alone = it.unparks_deadline + it.unparks_ready + it.parks_avoided;
        let holds = [
            (
                "parks end",
                it.parks == ended_by_rings + it.unparks_deadline + it.unparks_ready,
            ),
            // `needed` can be larger: at most one extra ring comes each time the worker wakes up by itself.
            ("each ring ends one park", ended_by_rings <= needed),
            ("rings <= parks", needed <= ended_by_rings + ended_alone),
            // At most two helpers ring in place of one late ringer.
            ("helped <= 2 rings", it.rings_helped <= 2 * needed),
            (
                "no ring to a worker that is awake",
                it.rings_awake == 0 || of_posts != Switches::default(),
            ),
            (
                "rings for stalled posters are rings",
                it.rings_for_stalled <= needed,
            ),
            ("takes bring something", it.takes <= it.delivered),
            ("thefts are searches", it.thefts <= it.searches),
            ("no closure panicked", it.posts_panicked == 0),
        ];
        if let Some((what, _)) = holds.into_iter().find(|(_, holds)| !holds) {
            sim::fail(format!(
                "counts: {what} does not hold of worker {worker}: {it:?}"
            ));
        }
    }
}

/// Checks that the workers' memory is freed and has no other user.
pub(crate) fn check_freed<const BUG: u8>(workers: Arc<Workers<BUG>>) {
    match Workers::free(workers) {
        Ok(0) => {}
        Ok(remotes) => sim::fail(format!(
            "all counts back to zero: {remotes} remotes are not freed"
        )),
        Err(users) => sim::fail(format!(
            "all counts back to zero: the workers have {users} users"
        )),
    }
}

/// Checks what is left of the schedulers after their workers have ended.
pub(crate) fn check_quiescence<const BUG: u8>(workers: &Workers<BUG>) {
    for scheduler in workers.schedulers() {
        let idle = scheduler.idle();
        if idle.any() || idle.anyone_searches() {
            sim::fail(format!("counts: {idle:?} after all workers have ended"));
        }
        if scheduler.push_is_under_way() {
            sim::fail("counts: the push token is held after all workers have ended".to_owned());
        }
    }
    let left = workers.ledger.balance();
    if (left.posts, left.tasks) != (0, 0) {
        sim::fail(format!(
            "nothing lost: {left:?} after all workers have ended"
        ));
    }
}
