//! What a worker keeps about groups.

use super::DEFAULT;
use std::cell::Cell;

/// Time between two looks of a busy worker for groups that lack tasks here.
const BALANCE_NS: u64 = 250_000;

/// The most groups for which such a look searches at other workers.
pub(crate) const LOOKS_MAX: usize = 4;

/// Only the worker's thread uses it.
#[derive(Debug, Default)]
pub(crate) struct WorkerGroups {
    /// Polls are timed, because tasks of groups are here, or ran on some worker lately.
    on: Cell<bool>,
    /// The groups that may have tasks in this worker's queues, as bits; without the default one.
    here: Cell<u64>,
    /// The group of the task under poll; the default one between polls.
    running: Cell<u8>,
    /// The time that was read last.
    now_ns: Cell<u64>,
    balanced_ns: Cell<u64>,
    /// The group at which the last walk ended.
    cursor: Cell<u8>,
}

impl WorkerGroups {
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    pub(crate) fn set_on(&self, on: bool) {
        self.on.set(on);
    }

    /// Whether tasks of groups may be in this worker's queues.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.here.get() != 0
    }

    /// Notes that a task of the group was queued here or stolen.
    pub(crate) fn meet(&self, group: u8) {
        self.on.set(true);
        if group != DEFAULT {
            self.here.set(self.here.get() | 1 << group);
        }
    }

    /// Drops from the set the groups without tasks here, by `has`. Returns what is left.
    pub(crate) fn prune(&self, has: impl Fn(u8) -> bool) -> u64 {
        let mut left = self.here.get();
        while left != 0 {
            let group = left.trailing_zeros() as u8;
            left &= left - 1;
            if !has(group) {
                self.here.set(self.here.get() & !(1 << group));
            }
        }
        self.here.get()
    }

    #[inline(always)]
    pub(crate) fn running(&self) -> u8 {
        self.running.get()
    }

    pub(crate) fn set_running(&self, group: u8) {
        self.running.set(group);
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    pub(crate) fn set_now(&self, now_ns: u64) {
        self.now_ns.set(now_ns);
    }

    /// Whether it is time to look for groups that lack tasks here. If it is, the interval begins anew.
    #[inline]
    pub(crate) fn is_time_to_balance(&self) -> bool {
        let now_ns = self.now_ns.get();
        let is_time = self.on.get() && now_ns.saturating_sub(self.balanced_ns.get()) >= BALANCE_NS;
        if is_time {
            self.balanced_ns.set(now_ns);
        }
        is_time
    }

    /// All groups below `opened`, each once. The walk begins after the group at which the last one ended.
    pub(crate) fn walk(&self, opened: usize) -> impl Iterator<Item = u8> {
        let from = usize::from(self.cursor.get());
        (1..=opened).map(move |step| {
            let group = ((from + step) % opened) as u8;
            self.cursor.set(group);
            group
        })
    }
}

/// The numbers in a set of groups.
pub(crate) fn members(set: u64) -> impl Iterator<Item = u8> {
    let mut left = set;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let group = left.trailing_zeros() as u8;
        left &= left - 1;
        Some(group)
    })
}
