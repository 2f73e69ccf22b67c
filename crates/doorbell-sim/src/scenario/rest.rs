//! The oracle of the timer trees: what must hold of a scheduler while all of its workers sleep.

use super::scheduler::Workers;
use doorbell_core::bell::{Look, WorkerState};
use doorbell_core::scheduler::Scheduler;
use doorbell_core::tree::Tree;
use doorbell_machine::{Sim, sim};

/// How much longer than until the first timer of all the workers may sleep: the tree notes times in units of 1,024 ns,
/// and a worker that could not enter a wheel tries again 20 us later.
const SENTRY_LATE_NS: u64 = 1_024 + 20_000;
/// By when workers that have nothing to do sleep.
const RESTS_NS: u64 = 1_000_000;
/// Time between two looks at that.
const LOOK_NS: u64 = 20_000;
/// How often a worker may wake by itself meanwhile. A watchdog looks no more often than each 250 us; a worker may have
/// to try a wheel again, or have been relieved as the sentry.
const WAKES_MAX: u64 = 8;

/// Whether a scheduler was seen at rest: every worker is parked, or is the caller, which is inside a poll. No operation
/// on its timer tree is under way then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    AtRest,
    Busy,
}

/// Checks the timer trees, of a scheduler that is at rest now all words. The caller is no worker, or is inside a poll.
pub(super) fn check_trees<const BUG: u8>(workers: &Workers<BUG>) {
    for (at, scheduler) in trees(workers) {
        let _ = check_tree(workers, at, scheduler);
    }
}

/// Checks that each scheduler with a timer tree comes to rest, and the tree then. Nothing is left to do, except timers.
pub(super) fn check_rest<const BUG: u8>(workers: &Workers<BUG>) {
    let wakes = || workers.counts().into_iter().map(|it| it.unparks_deadline);
    let before: Vec<u64> = wakes().collect();
    for (at, scheduler) in trees(workers) {
        let by_ns = sim::time_ns() + RESTS_NS;
        while check_tree(workers, at, scheduler) == Seen::Busy {
            if sim::time_ns() > by_ns {
                let class = scheduler.class();
                return sim::fail(format!(
                    "tree: {class:?} workers do not fall asleep, although they have nothing to do"
                ));
            }
            sim::sleep(LOOK_NS);
        }
    }
    let most = wakes().zip(before).map(|(now, before)| now - before).max();
    if most.is_some_and(|most| most > WAKES_MAX) {
        sim::fail(format!(
            "tree: a worker without work woke by itself {most:?} times"
        ));
    }
}

/// The schedulers that have timer trees which count, by number.
fn trees<const BUG: u8>(
    workers: &Workers<BUG>,
) -> impl Iterator<Item = (usize, &Scheduler<Sim<BUG>>)> {
    let is_used = !workers.clock.is_frozen();
    let all = workers.schedulers().enumerate();
    all.filter(move |(_, scheduler)| is_used && scheduler.tree().is_some())
}

fn check_tree<const BUG: u8>(
    workers: &Workers<BUG>,
    at: usize,
    scheduler: &Scheduler<Sim<BUG>>,
) -> Seen {
    let remotes = scheduler.remotes();
    // A throttled worker sleeps too, but is not parked by its bell.
    let is_parked = |worker: usize| remotes[worker].state() == WorkerState::Parked;
    let number = |worker: usize| workers.number(at * workers.cores() + worker);
    let parked: Vec<bool> = sim::unseen(|| (0..remotes.len()).map(is_parked).collect());
    let until_ns = |worker: usize| sim::parked_until_ns(number(worker)).filter(|_| parked[worker]);
    let until_ns: Vec<Option<u64>> = (0..remotes.len()).map(until_ns).collect();
    let is_caller = |worker: usize| sim::thread() == Some(number(worker));
    let mut all = until_ns.iter().enumerate();
    let seen = if all.all(|(worker, until_ns)| until_ns.is_some() || is_caller(worker)) {
        Seen::AtRest
    } else {
        Seen::Busy
    };
    let checked = sim::unseen(|| {
        check_sleepers(scheduler, &until_ns)?;
        if seen == Seen::AtRest {
            let counts = |worker: usize| remotes[worker].has_left_timers();
            let check = |tree: &Tree<_>| tree.check_at_rest(counts);
            scheduler.tree().map_or(Ok(()), check)?;
            check_sentry(scheduler, &until_ns)?;
        }
        Ok::<(), String>(())
    });
    if let Err(why) = checked {
        let class = scheduler.class();
        sim::fail(format!("tree: {class:?}: {why}; parked until {until_ns:?}"));
    }
    seen
}

/// No worker whose thread sleeps counts as active.
fn check_sleepers<const BUG: u8>(
    scheduler: &Scheduler<Sim<BUG>>,
    until_ns: &[Option<u64>],
) -> Result<(), String> {
    let mut asleep = (0..until_ns.len()).filter(|worker| until_ns[*worker].is_some());
    let is_active = |worker: &usize| scheduler.tree().is_some_and(|it| it.is_active(*worker));
    match asleep.find(is_active) {
        Some(worker) => Err(format!("worker {worker} is asleep, and counts as active")),
        None => Ok(()),
    }
}

/// If all workers sleep, one of them wakes for the first timer of all, whatever the switch says.
fn check_sentry<const BUG: u8>(
    scheduler: &Scheduler<Sim<BUG>>,
    until_ns: &[Option<u64>],
) -> Result<(), String> {
    let remotes = scheduler.remotes();
    // One that was told wakes when its ring comes.
    let is_told = remotes.iter().any(|it| it.bell().look() != Look::Parked);
    if is_told || until_ns.contains(&None) {
        return Ok(());
    }
    let timers_ns = remotes.iter().map(|it| it.next_global_ns());
    let (first_ns, wakes_ns) = (timers_ns.min(), until_ns.iter().flatten().min());
    let (Some(first_ns), Some(wakes_ns)) = (first_ns, wakes_ns) else {
        return Ok(());
    };
    if *wakes_ns > first_ns.saturating_add(SENTRY_LATE_NS) {
        return Err(format!("no worker wakes for the timer of {first_ns} ns"));
    }
    Ok(())
}
