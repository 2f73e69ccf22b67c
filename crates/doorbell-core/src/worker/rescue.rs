//! How a worker of a higher class helps its ward: a worker of a lower class on the same core that is stuck in long
//! polls. It looks at the ward's descriptors and sweeps the ward's queue ([`Rescue`]). [`Seen`] and [`Pace`] decide
//! when, [`Share`] how much time that may take, and [`Sweeps`] how often it may sweep. The caller is a task of the
//! helping worker.

use crate::io::Driver;
use crate::scheduler::{Member, RemoteRef};
use crate::worker::{Local, Sweep};
use doorbell_machine::{Bug, Machine, PollEvents};

/// A ward is taken to be stuck after this long inside one poll, and for as long as its polls take this long on average.
pub const STUCK_NS: u64 = 250_000;

/// The average is judged over at least this much CPU time of the ward.
const JUDGED_NS: u64 = 2 * STUCK_NS;

/// A ward that does not get [`JUDGED_NS`] of CPU time within this time is not stuck: other threads have its CPU.
const JUDGED_WITHIN_NS: u64 = 16_000_000;

/// A rescuing worker may run for three tenths of this period. Its clients may need as much of the same CPU, which
/// leaves four tenths to the ward.
const PERIOD_NS: i64 = 2_000_000;
const PART_NS: i64 = part_of(PERIOD_NS);

/// The longest pause: a worker whose time went to other work still rescues once in this time.
const PAUSE_MAX_NS: i64 = 20_000_000;

/// While it rescues, it checks its share, and whether the polls are still long, at least this often.
pub const TURN_NS: u64 = 4_000_000;

const BACK_OFF_MIN_NS: u64 = 250_000;
const BACK_OFF_MAX_NS: u64 = 16_000_000;
/// The same while other threads have the ward's CPU.
const STARVED_BACK_OFF_MAX_NS: u64 = 64_000_000;

/// The most looks at the descriptors in one turn.
const LOOKS: usize = 4;

const fn part_of(time_ns: i64) -> i64 {
    time_ns / 10 * 3
}

/// What a ward was doing at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    now_ns: u64,
    /// Its CPU time, or the clock where that is not known.
    ran_ns: u64,
    pulse: u64,
    sleeps: u64,
    is_inside: bool,
}

/// What became of the poll that a ward was inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The poll is over.
    Brief,
    /// The poll goes on, and the ward had the CPU for at least half of the time.
    Stuck,
    /// The poll goes on, but the ward had the CPU for less than half of the time.
    Starved,
}

impl Seen {
    /// Looks at the ward.
    pub fn of<M: Machine>(ward: &Member<M>) -> Self {
        let now_ns = M::now_ns();
        Seen {
            now_ns,
            ran_ns: ward.cpu_time_ns().unwrap_or(now_ns),
            pulse: ward.pulse(),
            sleeps: ward.sleeps(),
            is_inside: ward.is_inside(),
        }
    }

    /// Whether it is inside a poll or a call.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.is_inside
    }

    /// Whether it idles, and has done nothing since `before`.
    #[must_use]
    pub fn idles_since(&self, before: &Seen) -> bool {
        !self.is_inside && self.is_same(before)
    }

    /// What became of the poll that it was inside at `before`.
    #[must_use]
    pub fn since(&self, before: &Seen) -> Then {
        if !self.is_inside || !self.is_same(before) {
            return Then::Brief;
        }
        let took_ns = self.now_ns.saturating_sub(before.now_ns);
        let ran_ns = self.ran_ns.saturating_sub(before.ran_ns);
        if ran_ns >= took_ns / 2 {
            Then::Stuck
        } else {
            Then::Starved
        }
    }

    fn is_same(&self, before: &Seen) -> bool {
        self.pulse == before.pulse && self.sleeps == before.sleeps
    }
}

/// How long the polls of a stuck ward take, in its own CPU time: time that other threads take does not count.
#[derive(Debug)]
pub struct Pace(Seen);

impl Pace {
    /// Starts with a ward that is stuck.
    #[must_use]
    pub fn new(seen: Seen) -> Self {
        Pace(seen)
    }

    /// Whether its polls are still long: it is inside one, has not slept, and they took long on average.
    pub fn is_slow(&mut self, now: Seen) -> bool {
        if !now.is_inside || now.sleeps != self.0.sleeps {
            return false;
        }
        let ran_ns = now.ran_ns.saturating_sub(self.0.ran_ns);
        if ran_ns < JUDGED_NS {
            return now.now_ns.saturating_sub(self.0.now_ns) < JUDGED_WITHIN_NS;
        }
        let polls = now.pulse.wrapping_sub(self.0.pulse).saturating_add(1);
        self.0 = now;
        ran_ns / polls >= STUCK_NS
    }
}

/// How long to leave the ward alone after a look at it.
#[derive(Debug)]
pub struct BackOffs {
    next_ns: u64,
    /// The same for a ward whose CPU other threads have.
    starved_ns: u64,
}

impl Default for BackOffs {
    fn default() -> Self {
        BackOffs {
            next_ns: BACK_OFF_MIN_NS,
            starved_ns: BACK_OFF_MIN_NS,
        }
    }
}

impl BackOffs {
    /// The back-off after a look with this result. It doubles each time, up to 16 ms, or 64 ms for a starved ward; a
    /// stuck ward resets it.
    pub fn after(&mut self, then: Then) -> u64 {
        if then == Then::Stuck {
            *self = BackOffs::default();
        }
        let (next_ns, max_ns) = match then {
            Then::Starved => (&mut self.starved_ns, STARVED_BACK_OFF_MAX_NS),
            Then::Brief | Then::Stuck => (&mut self.next_ns, BACK_OFF_MAX_NS),
        };
        let now_ns = *next_ns;
        *next_ns = (2 * now_ns).min(max_ns);
        now_ns
    }
}

/// When the queue of a ward may be swept again. A sweep puts tasks back behind the task that the ward polled before,
/// so with one sweep in each poll that task would get all turns. Within one poll the order stays.
#[derive(Debug, Default)]
pub struct Sweeps {
    /// The pulse of the ward at the last sweep.
    last: Option<u64>,
}

impl Sweeps {
    /// Whether a sweep may begin now. If so, notes that it does.
    pub fn may_begin(&mut self, now: &Seen) -> bool {
        let polls = self.last.map(|last| now.pulse.wrapping_sub(last));
        let may = polls != Some(1);
        if may {
            self.last = Some(now.pulse);
        }
        may
    }
}

/// How much a worker may run while it rescues, whatever it runs: three tenths of the time.
#[derive(Debug)]
pub struct Share {
    /// When [`Share::pause_ns`] was last called, and for how long the worker had run by then.
    asked_ns: (u64, u64),
    /// The time left, in ns; negative if the worker has run for longer than its share.
    left: i64,
}

impl Share {
    /// Starts at `now_ns`, when the worker has run for `ran_ns`.
    #[must_use]
    pub fn new(now_ns: u64, ran_ns: u64) -> Self {
        Share {
            asked_ns: (now_ns, ran_ns),
            left: PART_NS,
        }
    }

    /// How long the worker must leave the ward alone, if it has run for `ran_ns` at `now_ns`; mostly 0.
    pub fn pause_ns(&mut self, now_ns: u64, ran_ns: u64) -> u64 {
        let since =
            |now: u64, then: u64| i64::try_from(now.saturating_sub(then)).unwrap_or(i64::MAX);
        let (then_ns, had_run_ns) = std::mem::replace(&mut self.asked_ns, (now_ns, ran_ns));
        let earned = part_of(since(now_ns, then_ns));
        let left = (self.left + earned).saturating_sub(since(ran_ns, had_run_ns));
        self.left = left.clamp(PART_NS - part_of(PAUSE_MAX_NS), PART_NS);
        if self.left > 0 {
            return 0;
        }
        ((PART_NS - self.left) / 3 * 10).unsigned_abs()
    }
}

/// Helps a stuck ward, in turns. Between two turns the worker must run the tasks that were raised to it.
#[derive(Debug)]
pub struct Rescue<M: Machine> {
    ward: RemoteRef<M>,
    events: PollEvents,
    sweep: Sweep<M>,
    sweeps: Sweeps,
    /// A sweep is due: something may wait at the ward that no descriptor reports.
    is_due: bool,
    share: Share,
}

impl<M: Machine> Rescue<M> {
    /// Helps `ward`. The caller runs on the helping worker.
    pub fn new(ward: RemoteRef<M>) -> Self {
        let (now_ns, ran_ns) = times_here::<M>();
        Rescue {
            events: PollEvents::new(),
            sweep: Sweep::new(ward.clone()),
            sweeps: Sweeps::default(),
            is_due: true,
            share: Share::new(now_ns, ran_ns),
            ward,
        }
    }

    /// The next turn is the first one, or the first after a pause: tasks may have come to the ward meanwhile.
    pub fn begin(&mut self) {
        self.is_due = true;
    }

    /// One turn: wakes the tasks of the ward's ready descriptors, and sweeps the ward's queue if that is due. Rescuable
    /// tasks are raised to the caller's worker, if that worker [rescues](Local::set_rescues).
    ///
    /// `is_told`: the ward's descriptors have reported something since the last turn. If the turn then finds nothing,
    /// the ward has taken it, mostly between two polls, and a sweep is due.
    ///
    /// Returns whether more may be ready there.
    pub fn turn(&mut self, is_told: bool) -> bool {
        let mut found = 0;
        let mut may_be_more = true;
        for _ in 0..LOOKS {
            let now = self.look();
            found += now;
            may_be_more = now == PollEvents::CAPACITY;
            if !may_be_more {
                break;
            }
        }
        self.is_due |= is_told && found == 0;
        if self.is_due && self.sweeps.may_begin(&Seen::of(&self.ward)) {
            self.is_due = false;
            self.sweep.run();
        }
        may_be_more
    }

    /// Wakes the tasks of the ward's ready descriptors. Returns how many were ready.
    fn look(&mut self) -> usize {
        Local::<M>::bring_mail(|| Driver::look(&*self.ward, &mut self.events))
    }

    /// How long the caller's worker must leave the ward alone from now on; mostly 0.
    pub fn pause_ns(&mut self) -> u64 {
        let (now_ns, ran_ns) = times_here::<M>();
        let pause_ns = self.share.pause_ns(now_ns, ran_ns);
        if M::breaks(Bug::RescueNeverPauses) {
            return 0;
        }
        pause_ns
    }
}

/// The clock, and the CPU time of the caller's thread.
fn times_here<M: Machine>() -> (u64, u64) {
    let now_ns = M::now_ns();
    (now_ns, M::cpu_time_ns(M::thread_number()).unwrap_or(now_ns))
}

#[cfg(test)]
mod tests {
    use super::{
        BackOffs, JUDGED_NS, JUDGED_WITHIN_NS, PART_NS, PAUSE_MAX_NS, PERIOD_NS, Pace, STUCK_NS,
        Seen, Share, Sweeps, Then,
    };

    fn seen(now_ns: u64, pulse: u64) -> Seen {
        Seen {
            now_ns,
            ran_ns: now_ns,
            pulse,
            sleeps: 3,
            is_inside: true,
        }
    }

    #[test]
    fn a_ward_is_slow_as_long_as_its_polls_are() {
        let mut pace = Pace::new(seen(0, 7));
        // Nothing is judged of a short time.
        assert!(pace.is_slow(seen(JUDGED_NS - 1, 1_000)));
        // One poll that has lasted from then on.
        assert!(pace.is_slow(seen(JUDGED_NS, 7)));
        // As many as take just so long, the one that goes on among them; then one more.
        assert!(pace.is_slow(seen(JUDGED_NS + 4 * STUCK_NS, 7 + 3)));
        assert!(!pace.is_slow(seen(JUDGED_NS + 8 * STUCK_NS, 7 + 3 + 4)));
    }

    #[test]
    fn a_ward_that_slept_or_idles_is_not_slow() {
        let mut pace = Pace::new(seen(0, 7));
        let slept = Seen {
            sleeps: 4,
            ..seen(1, 7)
        };
        let idles = Seen {
            is_inside: false,
            ..seen(1, 7)
        };
        assert!(!pace.is_slow(slept) && !pace.is_slow(idles));
        for brief in [slept, idles, seen(1, 8)] {
            assert_eq!(brief.since(&seen(0, 7)), Then::Brief);
        }
        assert_eq!(seen(1, 7).since(&seen(0, 7)), Then::Stuck);
        assert!(idles.idles_since(&seen(0, 7)) && !idles.idles_since(&seen(0, 6)));
        assert!(!seen(1, 7).idles_since(&seen(0, 7)) && !slept.idles_since(&seen(0, 7)));
    }

    #[test]
    fn what_others_take_of_its_cpu_makes_no_poll_long() {
        let ran = |now_ns, pulse, ran_ns| Seen {
            ran_ns,
            ..seen(now_ns, pulse)
        };
        assert_eq!(ran(200, 7, 100).since(&seen(0, 7)), Then::Stuck);
        assert_eq!(ran(200, 7, 99).since(&seen(0, 7)), Then::Starved);
        let mut pace = Pace::new(seen(0, 7));
        assert!(pace.is_slow(ran(JUDGED_WITHIN_NS - 1, 7, JUDGED_NS - 1)));
        assert!(!pace.is_slow(ran(JUDGED_WITHIN_NS, 7, JUDGED_NS - 1)));
        let brief = ran(JUDGED_WITHIN_NS, 7 + 2, JUDGED_NS);
        assert!(!pace.is_slow(brief));
    }

    /// Runs for `batch_ns` at a time, and pauses as it is told. Which part of `rounds` of that it ran.
    fn runs(batch_ns: u64, rounds: u64) -> f64 {
        let mut share = Share::new(0, 0);
        let mut now_ns = 0;
        for round in 1..=rounds {
            now_ns += batch_ns;
            now_ns += share.pause_ns(now_ns, round * batch_ns);
        }
        (rounds * batch_ns) as f64 / now_ns as f64
    }

    #[test]
    fn a_worker_runs_three_tenths_of_the_time_however_long_its_batches_are() {
        for batch_ns in [10_000, 100_000, 1_000_000, 5_000_000] {
            let part = runs(batch_ns, 10_000);
            assert!((0.29..0.31).contains(&part), "{batch_ns} ns: {part}");
        }
        assert!(runs(20_000_000, 100) < 0.51);
    }

    #[test]
    fn back_offs_grow_up_to_their_limits_and_begin_anew_behind_a_stuck_poll() {
        let mut back_offs = BackOffs::default();
        let mut after = |then| [(); 10].map(|()| back_offs.after(then) / 250_000);
        let brief = [1, 2, 4, 8, 16, 32, 64, 64, 64, 64];
        assert_eq!(after(Then::Brief), brief);
        let starved = [1, 2, 4, 8, 16, 32, 64, 128, 256, 256];
        assert_eq!(after(Then::Starved), starved);
        assert_eq!(after(Then::Stuck), [1; 10]);
        assert_eq!(after(Then::Brief)[..3], [2, 4, 8]);
        assert_eq!(after(Then::Starved), starved);
    }

    #[test]
    fn between_two_sweeps_another_task_has_a_turn() {
        let mut sweeps = Sweeps::default();
        let may: Vec<bool> = [7, 7, 8, 9, 10, 11]
            .map(|pulse| sweeps.may_begin(&seen(0, pulse)))
            .into();
        assert_eq!(may, [true, true, false, true, false, true]);
    }

    #[test]
    fn a_throttle_is_of_a_period_at_least_and_ends() {
        let mut share = Share::new(5, 7);
        assert_eq!(share.pause_ns(5, 7), 0);
        let part_ns = PART_NS.unsigned_abs();
        assert_eq!(share.pause_ns(5, 7 + part_ns - 1), 0);
        let period_ns = PERIOD_NS.unsigned_abs();
        assert_eq!(share.pause_ns(5, 7 + part_ns), period_ns);
        let pause_max_ns = PAUSE_MAX_NS.unsigned_abs();
        assert_eq!(share.pause_ns(5, u64::MAX), pause_max_ns);
        // A long time in which it did not run earns no more than a part.
        assert_eq!(share.pause_ns(u64::MAX / 4, u64::MAX), 0);
        assert_eq!(share.left, PART_NS);
    }
}
