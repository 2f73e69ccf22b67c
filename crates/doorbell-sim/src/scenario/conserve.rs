//! Promise 7 of the README: no worker idles for long while a task that it may run waits elsewhere.
//!
//! The oracle looks at all workers every 5 µs. A worker *idles* if it is inside no poll and no call, is on,
//! and nothing keeps it from its CPU. A run fails under one of two rules. Both need a worker at which tasks
//! wait at every look while another worker of the scheduler idles at every look:
//!
//! | rule | what waits | for | while |
//! |---|---|---|---|
//! | fast | two tasks, or one where tasks run by rank | 50 µs | no thread involved lacks its CPU |
//! | slow | one task behind the same poll, or as many as above | 1.05 ms | at most one thread that may claim here lacks its CPU |
//!
//! Beside that, while all threads have their CPUs, no worker sleeps for 50 µs in no set and untold (it was taken for a
//! task, and that task does not come), and no push token is held for 50 µs and 2 µs for each worker: workers that parked rely
//! on its holder, which looks at all others.
//!
//! A thread *lacks its CPU* if it could run, but a fault or another thread keeps it from running.

use super::scheduler::Workers;
use doorbell_core::bell::{Look, WorkerState};
use doorbell_core::class::Class;
use doorbell_core::scheduler::{Scheduler, Turns};
use doorbell_machine::sim::{self, SimCounter};
use doorbell_machine::{Counter, Sim};

/// Time between two looks.
const LOOK_NS: u64 = 5_000;
/// Two events within this time count as simultaneous: one look to either side.
const TOGETHER_NS: u64 = 2 * LOOK_NS;
/// By when a worker that got several tasks at once has told another one of them, if it has its CPU.
const TELLING_NS: u64 = 4 * LOOK_NS;
/// Limit of the fast rule.
const FAST_NS: u64 = 50_000;
/// A round of a push token's holder takes so much longer for each worker of the scheduler: it reads several lines of each, and
/// on a large machine one costs up to 3 µs.
const ROUND_NS: u64 = 2_000;
/// Limit of the slow rule: the promised 1 ms, and the time until a woken worker is seen to run.
const SLOW_NS: u64 = 1_000_000 + FAST_NS;
/// By when an unserved claim has lapsed: at the watchdog's second look after it, 500 µs each, plus a wake.
const LAPSE_NS: u64 = 1_000_000 + FAST_NS;
/// A smaller scheduler has no worker left to notice that another one gets no CPU.
const SCHEDULER_MIN: usize = 3;

/// How long tasks have waited at a worker, by one of the rules.
#[derive(Clone, Copy, Debug, Default)]
struct Track {
    /// Since when tasks wait.
    begun_ns: u64,
    /// Since when they wait without an excuse.
    from_ns: u64,
    /// The workers that have idled since then.
    idled: u64,
}

impl Track {
    fn begin(now_ns: u64, idled: u64) -> Self {
        Track {
            begun_ns: now_ns,
            from_ns: now_ns,
            idled,
        }
    }

    /// Records one more look. Returns how long the rule has been broken.
    fn look(&mut self, now_ns: u64, waits: bool, is_excused: bool, idle: u64) -> u64 {
        if !waits {
            *self = Track::begin(now_ns, 0);
        } else if is_excused || self.idled & idle == 0 {
            (self.from_ns, self.idled) = (now_ns, idle);
        } else {
            self.idled &= idle;
        }
        now_ns - self.from_ns
    }
}

/// Since when something has held at each look, if it has.
#[derive(Clone, Copy, Debug, Default)]
struct Since(Option<u64>);

impl Since {
    /// Records one more look. Returns for how long it has held.
    fn look(&mut self, now_ns: u64, holds: bool) -> u64 {
        if !holds {
            self.0 = None;
            return 0;
        }
        now_ns - *self.0.get_or_insert(now_ns)
    }
}

/// Records one more look at the push token of so many workers. Returns whether it has been held for too long while all
/// threads have their CPUs.
fn keeps_token(since: &mut Since, now_ns: u64, is_held: bool, lacks: bool, workers: u64) -> bool {
    since.look(now_ns, is_held && !lacks) > FAST_NS + workers * ROUND_NS
}

/// What is known of one worker.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    fast: Track,
    slow: Track,
    /// At the last look it searched on its own account and lacked its CPU; or that search has ended since,
    /// and it may not have reached the step after it.
    ends: bool,
    /// Its pulse at the last look.
    pulse: u64,
    /// How often it has started or stopped being a watchdog.
    turns: u32,
    /// When it last lacked its CPU, if it has lacked it since its tasks began to wait, with gaps of at most
    /// [`TELLING_NS`]: it may not have told another worker of them. 0 if it had its CPU for longer.
    untold_ns: u64,
    /// Since when it sleeps in no set and untold.
    left_out: Since,
    /// How long it has counted as searching while a thread (its claimer or itself) lacks its CPU.
    owes: Track,
}

/// The oracle.
struct Conserve<'a, const BUG: u8> {
    workers: &'a Workers<BUG>,
    seen: Vec<Seen>,
    /// Since when each scheduler's push token is held.
    tokens: Vec<Since>,
    /// Threads that are no workers, by their numbers.
    foreign: Vec<u32>,
    /// Since when each thread lacks its CPU, by thread number.
    lacks_ns: Vec<Option<u64>>,
    /// The threads that lack their CPU, with the same times. They are few, and each worker is compared with all of them.
    without_cpu: Vec<(usize, u64)>,
    /// How many events each thread had at the last look.
    did: Vec<usize>,
    /// Which threads lack their CPU by a fault.
    away: Vec<bool>,
    /// The thread that runs on each CPU of the workers.
    runs_on: Vec<Option<u32>>,
}

/// Checks promise 7 until told to stop. The caller starts `foreign` other threads directly after the one
/// that calls this, so their numbers follow.
pub(super) fn spin<const BUG: u8>(workers: &Workers<BUG>, foreign: usize, stop: &SimCounter) {
    let first = sim::thread().map_or(0, |own| own + 1);
    let foreign: Vec<u32> = (first..).take(foreign).collect();
    let mut oracle = Conserve {
        workers,
        seen: vec![Seen::default(); workers.len()],
        tokens: vec![Since::default(); workers.schedulers().count()],
        lacks_ns: vec![None; first as usize + foreign.len()],
        without_cpu: Vec::new(),
        did: vec![0; first as usize + foreign.len()],
        away: Vec::new(),
        runs_on: Vec::new(),
        foreign,
    };
    let mut looked_ns = 0;
    while stop.get() == 0 {
        // Works instead of sleeping, since a wake could come late.
        sim::work(LOOK_NS);
        let now_ns = sim::time_ns();
        // The time between the looks is unknown: start again.
        if now_ns - looked_ns > 2 * TOGETHER_NS {
            for seen in &mut oracle.seen {
                (seen.fast.idled, seen.slow.idled) = (0, 0);
            }
        }
        looked_ns = now_ns;
        oracle.look_at_threads(now_ns);
        sim::unseen(|| oracle.look(now_ns)).unwrap_or_else(sim::fail);
    }
}

/// What is broken, and what the scheduler's words say of its workers.
fn report<const BUG: u8>(scheduler: &Scheduler<Sim<BUG>>, broken: &str) -> String {
    let bits = |has: &dyn Fn(usize) -> bool| {
        let workers = 0..scheduler.remotes().len();
        workers.fold(0, |bits, it| bits | u64::from(has(it)) << it)
    };
    format!(
        "work conserving: {:?} {broken}; listed {:#b}, searching {:#b}, watchdogs {:#b}, push token held: {}",
        scheduler.class(),
        bits(&|it| scheduler.work().holds(it)),
        bits(&|it| scheduler.idle().is_searching(it)),
        bits(&|it| scheduler.remotes()[it].is_watchdog()),
        scheduler.push_is_under_way(),
    )
}

impl<const BUG: u8> Conserve<'_, BUG> {
    /// Records which threads lack their CPU and which thread each CPU runs.
    fn look_at_threads(&mut self, now_ns: u64) {
        for (thread, lacks_ns) in (0..).zip(&mut self.lacks_ns) {
            let lacks = sim::is_ready(thread) || sim::is_away(thread);
            // A thread that had an event since the last look has had its CPU in between.
            let did = sim::events_of(thread);
            let did_nothing = std::mem::replace(&mut self.did[thread as usize], did) == did;
            *lacks_ns = lacks.then(|| lacks_ns.filter(|_| did_nothing).unwrap_or(now_ns));
        }
        self.without_cpu.clear();
        let all = self.lacks_ns.iter().enumerate();
        self.without_cpu
            .extend(all.filter_map(|(thread, lacks_ns)| lacks_ns.map(|since| (thread, since))));
        let cpus = 0..self.workers.cores();
        self.runs_on = cpus.map(sim::runs_on).collect();
        let threads = 0..self.lacks_ns.len() as u32;
        self.away = threads.map(sim::is_away).collect();
    }

    fn look(&mut self, now_ns: u64) -> Result<(), String> {
        let workers = self.workers;
        let mut schedulers = workers.schedulers().enumerate();
        schedulers.try_for_each(|(at, scheduler)| self.look_at(at, scheduler, now_ns))
    }

    /// Looks at one scheduler.
    fn look_at(
        &mut self,
        at: usize,
        scheduler: &Scheduler<Sim<BUG>>,
        now_ns: u64,
    ) -> Result<(), String> {
        let level_ns: Vec<u64> = self.lacking(|class| class >= scheduler.class()).collect();
        let idle = self.idle(at, scheduler);
        let lacks = !level_ns.is_empty();
        let is_unclear = self.note_claims(at, scheduler, lacks, now_ns, idle)
            // Workers that parked rely on the holder of the push token, until a watchdog looks.
            || (lacks && scheduler.push_is_under_way());
        let least = match self.workers.turns(at) {
            Turns::ByArrival => 2,
            Turns::ByRank => 1,
        };
        self.check_left_out(at, scheduler, now_ns)?;
        self.check_token(at, scheduler, now_ns)?;
        let cores = self.workers.cores();
        let is_small = cores < SCHEDULER_MIN;
        for (worker, remote) in scheduler.remotes().iter().enumerate() {
            let number = self.workers.number(at * cores + worker) as usize;
            let is_inside = remote.is_inside();
            // No other worker takes from the inject queue of a worker that makes progress, unless tasks run
            // by rank.
            let inject = u64::from(remote.has_injected());
            let waiting = remote.queued_len() + if least == 1 { inject } else { 0 };
            let (lacks_ns, without_cpu) = (&self.lacks_ns, &self.without_cpu);
            let seen = &mut self.seen[at * cores + worker];
            let stands = std::mem::replace(&mut seen.pulse, remote.pulse()) == remote.pulse();
            let after_ns = seen.fast.begun_ns.saturating_sub(TOGETHER_NS);
            let mut left = without_cpu
                .iter()
                .filter(|(_, since_ns)| *since_ns >= after_ns);
            // Workers are woken one after another while there is work for one more.
            let goes_on = seen.fast.idled & !idle != 0;
            let is_excused = is_unclear
                || goes_on
                || lacks_ns[number].is_some()
                || level_ns.iter().any(|since_ns| *since_ns >= after_ns)
                || left.any(|(thread, _)| self.away[*thread])
                || (!is_inside && !without_cpu.is_empty());
            let fast_ns = seen.fast.look(now_ns, waiting >= least, is_excused, idle);
            let begun_ns = seen.slow.begun_ns;
            let together = |it: u64| it.abs_diff(begun_ns) <= TOGETHER_NS;
            let untold_ns = seen.untold_ns.max(begun_ns) + TELLING_NS;
            let is_untold = |it: u64| together(it) || it <= untold_ns;
            if lacks_ns[number].is_some_and(is_untold) {
                seen.untold_ns = now_ns;
            }
            let is_excused = seen.untold_ns == now_ns
                || level_ns.len() > 1
                || (is_small && !level_ns.is_empty())
                || without_cpu.iter().any(|(_, since_ns)| together(*since_ns));
            let is_listed = is_inside && scheduler.work().holds(worker);
            let waits = is_listed && (waiting >= least || (waiting + inject > 0 && stands));
            let slow_ns = seen.slow.look(now_ns, waits, is_excused, idle);
            if !waits {
                seen.untold_ns = 0;
            }
            if fast_ns > FAST_NS || slow_ns > SLOW_NS {
                let since_ns = seen.fast.begun_ns;
                let broken = format!(
                    "{waiting} tasks ({inject} or more in the inject queue) have waited at worker {worker} since {since_ns} ns, without an excuse for {fast_ns} ns, and {slow_ns} ns, while others idled: {idle:#b}"
                );
                return Err(report(scheduler, &broken));
            }
        }
        Ok(())
    }

    /// Whether the scheduler's push token has been held for too long.
    fn check_token(
        &mut self,
        at: usize,
        scheduler: &Scheduler<Sim<BUG>>,
        now_ns: u64,
    ) -> Result<(), String> {
        let is_held = scheduler.push_is_under_way();
        let lacks = !self.without_cpu.is_empty();
        let workers = scheduler.remotes().len() as u64;
        if keeps_token(&mut self.tokens[at], now_ns, is_held, lacks, workers) {
            return Err(report(scheduler, "the push token is not given back"));
        }
        Ok(())
    }

    /// Whether a worker of the scheduler has slept for too long in no set and untold.
    fn check_left_out(
        &mut self,
        at: usize,
        scheduler: &Scheduler<Sim<BUG>>,
        now_ns: u64,
    ) -> Result<(), String> {
        let cores = self.workers.cores();
        // A worker that is alone enters no set.
        let all_run = cores > 1 && self.without_cpu.is_empty();
        for (worker, remote) in scheduler.remotes().iter().enumerate() {
            let idle = scheduler.idle();
            let is_left_out = all_run
                && remote.bell().look() == Look::Parked
                && !remote.is_off()
                && !idle.holds(worker)
                && !idle.is_searching(worker);
            let left_out = &mut self.seen[at * cores + worker].left_out;
            let left_out_ns = left_out.look(now_ns, is_left_out);
            if left_out_ns > FAST_NS {
                let since_ns = now_ns - left_out_ns;
                let class = scheduler.class();
                return Err(format!(
                    "claims: {class:?} worker {worker} has slept in no set, untold, since {since_ns} ns"
                ));
            }
        }
        Ok(())
    }

    /// For each thread of the given classes that lacks its CPU: since when. Threads that are no workers
    /// count as Fair.
    fn lacking(&self, is_of: impl Fn(Class) -> bool) -> impl Iterator<Item = u64> {
        let cores = self.workers.cores();
        let classes: Vec<Class> = self.workers.schedulers().map(Scheduler::class).collect();
        let workers = (0..self.workers.len()).filter(|worker| is_of(classes[worker / cores]));
        let workers = workers.map(|worker| self.workers.number(worker));
        let foreign = self.foreign.iter().copied();
        let foreign = foreign.filter(|_| is_of(Class::Fair));
        let all = workers
            .chain(foreign)
            .filter_map(|it| self.lacks_ns[it as usize]);
        all.collect::<Vec<_>>().into_iter()
    }

    /// Notes which workers are claimed or searching while a thread lacks its CPU. Returns whether any may
    /// be: other wakers rely on such a worker until its claim lapses.
    fn note_claims(
        &mut self,
        at: usize,
        scheduler: &Scheduler<Sim<BUG>>,
        lacks: bool,
        now_ns: u64,
        idle: u64,
    ) -> bool {
        let cores = self.workers.cores();
        let lacks_ns = &self.lacks_ns;
        let searches = |worker: usize| scheduler.idle().is_searching(worker);
        let mut is_unclear =
            lacks && scheduler.idle().anyone_searches() && !(0..cores).any(searches);
        let bit = |bits: u64, worker: usize| bits | 1 << worker;
        // A watchdog counts only if it has been one since the last look.
        let mut watchdogs = 0;
        for (worker, remote) in scheduler.remotes().iter().enumerate() {
            let (is_one, turns) = (remote.is_watchdog(), remote.watchdog_turns());
            let before = std::mem::replace(&mut self.seen[at * cores + worker].turns, turns);
            if is_one && before == turns {
                watchdogs = bit(watchdogs, worker);
            }
        }
        let idle = idle & watchdogs;
        for (worker, seen) in self.seen[at * cores..].iter_mut().take(cores).enumerate() {
            let remote = &scheduler.remotes()[worker];
            let searches = searches(worker);
            let owed_ns = seen.owes.look(now_ns, searches && lacks, false, idle);
            let lapses = cores >= SCHEDULER_MIN && owed_ns > LAPSE_NS;
            // It serves calls: the work that it was claimed for waits until they end.
            let serves = remote.is_inside() && remote.state() == WorkerState::Spinning;
            // A worker that searches by itself stays in the idle set; a lapse would clear both of its bits.
            let lacks_own = lacks_ns[self.workers.number(at * cores + worker) as usize].is_some();
            seen.ends = lacks_own && scheduler.idle().holds(worker) && (searches || seen.ends);
            is_unclear |= searches && (serves || (lacks && !lapses));
            is_unclear |= seen.ends && !searches;
        }
        is_unclear
    }

    /// The workers of a scheduler that idle.
    fn idle(&self, at: usize, scheduler: &Scheduler<Sim<BUG>>) -> u64 {
        let cores = self.workers.cores();
        let classes: Vec<Class> = self.workers.schedulers().map(Scheduler::class).collect();
        let of =
            |thread: u32| (0..self.workers.len()).find(|it| self.workers.number(*it) == thread);
        let idles = |worker: &usize| {
            let remote = &scheduler.remotes()[*worker];
            let number = self.workers.number(at * cores + worker);
            let is_below = |worker: usize| classes[worker / cores] < scheduler.class();
            // The thread that notified it may still have to ring it, and the thread that claimed it may
            // still have to notify it. Either may lack its CPU.
            let is_told = || {
                matches!(
                    remote.bell().look(),
                    Look::Notified | Look::NotifiedFromBelow
                )
            };
            let is_known =
                || remote.state() != WorkerState::Parked || scheduler.idle().holds(*worker);
            let is_rung = || self.without_cpu.is_empty() || (!is_told() && is_known());
            let gives_way = |thread| thread == number || of(thread).is_some_and(is_below);
            let is_free = || self.runs_on[*worker].is_none_or(gives_way);
            !remote.is_inside()
                && !remote.is_off()
                && self.lacks_ns[number as usize].is_none()
                && is_rung()
                && is_free()
        };
        let bit = |idle: u64, worker: usize| idle | 1 << worker;
        (0..scheduler.remotes().len()).filter(idles).fold(0, bit)
    }
}

#[cfg(test)]
mod tests {
    use super::{FAST_NS, ROUND_NS, Since, keeps_token};

    const WORKERS: u64 = 8;
    const MOST_NS: u64 = FAST_NS + WORKERS * ROUND_NS;

    #[test]
    fn a_push_token_is_held_for_too_long_only_while_all_threads_have_their_cpus() {
        let mut track = Since::default();
        let mut keeps =
            |now_ns, is_held, lacks| keeps_token(&mut track, now_ns, is_held, lacks, WORKERS);
        assert!(!keeps(1_000, true, false));
        assert!(!keeps(1_000 + MOST_NS, true, false));
        assert!(keeps(1_001 + MOST_NS, true, false));
        for (is_held, lacks) in [(false, false), (true, true)] {
            assert!(!keeps(2_000 + MOST_NS, is_held, lacks));
            assert!(!keeps(1_001 + 2 * MOST_NS, true, false), "it begins anew");
        }
    }
}
