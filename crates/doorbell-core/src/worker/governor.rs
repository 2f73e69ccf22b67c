//! The idle governor: how long a worker spins before it parks.
//!
//! A spinning worker is reached without a syscall, but it burns its CPU. So it spins longer if a wake
//! came soon after it parked, and less if none did. What it spins in vain is paid from a budget. If
//! another program wanted its CPU, it does not spin for a while.
//!
//! Source: growing and shrinking follow the kernel's `haltpoll` governor; the budget and the reaction to
//! preemption do not.

use std::cell::Cell;

/// How an idle worker waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IdlePolicy {
    /// It parks at once.
    Park,
    /// It spins for a fixed time, then it parks, until shortly before its first timer; then it spins again.
    Spin {
        /// For how long, in ns; zero is `Park`.
        spin_ns: u64,
    },
    /// It spins for as long as that pays, and then parks.
    Adaptive {
        /// The longest it spins at a time, in ns.
        spin_max_ns: u64,
        /// The share of its time that it may spin in vain: 0.05 is 5 per cent of one CPU.
        budget: f64,
    },
    /// It never parks.
    NeverPark,
}

/// The shortest spin worth its cost. If a spin would be shorter, the worker parks at once.
const SPIN_MIN_NS: u64 = 5_000;

/// The first spin, and the first one again after a worker that did not spin saw a wake come soon.
const SPIN_START_NS: u64 = 10_000;

/// A worker can save up the budget of at most this much time.
const SAVED_OVER_NS: f64 = 20_000_000.0;

/// If two readings of the clock are further apart than the spin between them by more than this, the OS gave the
/// CPU to another thread.
const PREEMPTED_NS: u64 = 20_000;

/// A worker with the policy `Spin` is woken at most this long before its timer. The OS wakes a thread later than asked, mostly
/// by less than this.
const EARLY_NS: u64 = 100_000;

/// A worker that was preempted does not spin for this long.
const BLIND_NS: u64 = 10_000_000;

/// One worker's governor. Not `Sync`.
#[derive(Debug)]
pub(super) struct Governor {
    policy: IdlePolicy,
    /// How long to spin, as learned.
    spin_ns: Cell<u64>,
    /// How much may be spun in vain now.
    saved_ns: Cell<u64>,
    /// The time up to which `saved_ns` was computed.
    saved_at_ns: Cell<u64>,
    blind_until_ns: Cell<u64>,
}

impl Governor {
    pub(super) fn new(policy: IdlePolicy) -> Self {
        let spin_ns = match policy {
            IdlePolicy::Park => 0,
            IdlePolicy::Spin { spin_ns } => spin_ns,
            IdlePolicy::Adaptive { spin_max_ns, .. } => spin_max_ns.min(SPIN_START_NS),
            IdlePolicy::NeverPark => u64::MAX,
        };
        Governor {
            policy,
            spin_ns: Cell::new(spin_ns),
            saved_ns: Cell::new(0),
            saved_at_ns: Cell::new(0),
            blind_until_ns: Cell::new(0),
        }
    }

    /// Whether the worker spins at all.
    #[inline]
    pub(super) fn spins(&self) -> bool {
        self.spin_ns.get() > 0
    }

    /// Whether the worker parks when it has spun long enough.
    pub(super) fn parks(&self) -> bool {
        self.policy != IdlePolicy::NeverPark
    }

    /// How long before a timer the OS is to wake the worker, which then spins up to the timer.
    pub(super) fn early_ns(&self) -> u64 {
        match self.policy {
            IdlePolicy::Spin { spin_ns } => spin_ns.min(EARLY_NS),
            _ => 0,
        }
    }

    /// Whether the governor needs to know how long a park lasted, and whether a timer ended it.
    pub(super) fn learns(&self) -> bool {
        matches!(self.policy, IdlePolicy::Adaptive { .. })
    }

    /// How long to spin from now on, in ns.
    pub(super) fn spin_ns(&self, now_ns: u64) -> u64 {
        let IdlePolicy::Adaptive { budget, .. } = self.policy else {
            return self.spin_ns.get();
        };
        if now_ns < self.blind_until_ns.get() {
            return 0;
        }
        let passed_ns = now_ns.saturating_sub(self.saved_at_ns.replace(now_ns));
        let saved_ns = self.saved_ns.get() as f64 + passed_ns as f64 * budget;
        self.saved_ns
            .set(saved_ns.min(SAVED_OVER_NS * budget) as u64);
        let spin_ns = self.spin_ns.get().min(self.saved_ns.get());
        if spin_ns < SPIN_MIN_NS { 0 } else { spin_ns }
    }

    /// Notes time that was spun in vain.
    pub(super) fn note_vain(&self, spun_ns: u64) {
        let left_ns = self.saved_ns.get().saturating_sub(spun_ns);
        self.saved_ns.set(left_ns);
    }

    /// Spinning for `spun_ns` took from `from_ns` to `now_ns`. Returns whether the OS gave the CPU to another thread
    /// meanwhile. If so, the worker parks, and does not spin for [`BLIND_NS`].
    pub(super) fn was_preempted(&self, from_ns: u64, now_ns: u64, spun_ns: u64) -> bool {
        let took_ns = now_ns.saturating_sub(from_ns);
        let preempted = self.learns() && took_ns > spun_ns.saturating_add(PREEMPTED_NS);
        if preempted {
            self.blind_until_ns.set(now_ns.saturating_add(BLIND_NS));
        }
        preempted
    }

    /// The worker slept for this long, and was then rung.
    pub(super) fn note_sleep(&self, slept_ns: u64) {
        let IdlePolicy::Adaptive { spin_max_ns, .. } = self.policy else {
            return;
        };
        let spin_ns = self.spin_ns.get();
        let next_ns = if slept_ns <= spin_max_ns {
            // A longer spin would have caught this wake.
            (spin_ns * 2).max(SPIN_START_NS)
        } else if spin_ns / 2 < SPIN_MIN_NS {
            0
        } else {
            spin_ns / 2
        };
        self.spin_ns.set(next_ns.min(spin_max_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::{BLIND_NS, Governor, IdlePolicy, SPIN_START_NS};

    const MS: u64 = 1_000_000;

    fn adaptive(budget: f64) -> Governor {
        Governor::new(IdlePolicy::Adaptive {
            spin_max_ns: 50_000,
            budget,
        })
    }

    #[test]
    fn fixed_policies_neither_learn_nor_pay() {
        for (policy, spin_ns) in [
            (IdlePolicy::Park, 0),
            (IdlePolicy::Spin { spin_ns: 7 }, 7),
            (IdlePolicy::NeverPark, u64::MAX),
        ] {
            let governor = Governor::new(policy);
            assert_eq!(governor.spins(), spin_ns > 0);
            for step in 0..10 {
                assert_eq!(governor.spin_ns(step), spin_ns);
                governor.note_vain(1_000);
                governor.note_sleep(1 << (5 * step));
                assert!(!governor.was_preempted(0, MS, 1));
            }
        }
    }

    #[test]
    fn it_spins_longer_while_wakes_come_soon_and_not_at_all_while_they_do_not() {
        let governor = adaptive(1.0);
        let mut now_ns = 100 * MS;
        let mut spun = Vec::new();
        for slept_ns in [20_000, 20_000, 20_000, MS, MS, MS, MS, MS, 20_000] {
            spun.push(governor.spin_ns(now_ns) / 1_000);
            governor.note_sleep(slept_ns);
            now_ns += MS;
        }
        spun.push(governor.spin_ns(now_ns) / 1_000);
        assert_eq!(spun, [10, 20, 40, 50, 25, 12, 6, 0, 0, 10]);
        assert_eq!(SPIN_START_NS, 10_000);
    }

    #[test]
    fn what_it_spins_in_vain_stays_within_its_budget() {
        let governor = adaptive(0.05);
        let mut vain_ns = 0;
        let mut now_ns = 100 * MS;
        let began_ns = now_ns;
        for _ in 0..10_000 {
            // Every sleep is so short that spinning longer looks worth while.
            let spun_ns = governor.spin_ns(now_ns);
            governor.note_vain(spun_ns);
            governor.note_sleep(30_000);
            vain_ns += spun_ns;
            now_ns += spun_ns + 30_000;
        }
        let share = vain_ns as f64 / (now_ns - began_ns) as f64;
        assert!((0.04..=0.055).contains(&share), "{share}");
    }

    #[test]
    fn a_worker_that_was_preempted_does_not_spin_for_a_while() {
        let governor = adaptive(1.0);
        let now_ns = 100 * MS;
        assert!(governor.spin_ns(now_ns) > 0);
        assert!(!governor.was_preempted(now_ns, now_ns + 29_000, 10_000));
        assert!(governor.was_preempted(now_ns, now_ns + 31_000, 10_000));
        let until_ns = now_ns + 31_000 + BLIND_NS;
        assert_eq!(governor.spin_ns(until_ns - 1), 0);
        assert!(governor.spin_ns(until_ns) > 0);
    }
}
