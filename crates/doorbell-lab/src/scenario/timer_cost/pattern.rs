//! The order in which sleeps are created and dropped, and its timing.

use std::borrow::Cow;
use std::hint::black_box;
use std::iter;
use std::pin::pin;
use std::task::Context;
use std::time::{Duration, Instant};

use super::super::timers::{Random, Shelf, Timers};

/// The deadline of a sleep that is dropped long before.
pub(super) const AWAY: Duration = Duration::from_secs(10);
/// The deadline of a sleep that stays pending. It is earlier, so that no new sleep is the earliest.
pub(super) const GUARD: Duration = Duration::from_secs(8);
/// The same where each new sleep must be the earliest: it is later than all of them.
pub(super) const GUARD_FAR: Duration = Duration::from_hours(2);
/// How much earlier each sleep is than the one before: a step that the coarsest timers distinguish.
pub(super) const STEP: Duration = Duration::from_millis(1);
/// How many sleeps are pending at once before they are dropped.
pub(super) const BATCH: u32 = 1_000;
/// The range of the deadlines of many pending sleeps, in seconds.
const PENDING_S: [f64; 2] = [20.0, 3_600.0];
/// Makes the deadlines the same in every run and for every contestant.
const SEED: u64 = 0x0D00_4BE1;

/// The order of creation, and the sleeps that stay pending meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Each is dropped before the next is created.
    OneByOne,
    /// [`BATCH`] are created and polled, then dropped.
    Batches,
    /// One by one, each due earlier than all before.
    Earliest,
    /// One by one, while this many others are pending.
    Pending(u32),
    /// One by one, by two tasks on two workers at the same time.
    BothCores,
    /// No sleep, only a reading of the clock.
    Clock,
}

impl Pattern {
    /// The patterns that create sleeps.
    pub(super) fn all(pending: u32) -> [Self; 5] {
        [
            Self::OneByOne,
            Self::Batches,
            Self::Earliest,
            Self::Pending(pending),
            Self::BothCores,
        ]
    }

    /// The name in the table.
    pub(super) fn label(self) -> Cow<'static, str> {
        let label = match self {
            Self::OneByOne => "one by one",
            Self::Batches => "batches of 1,000",
            Self::Earliest => "the earliest there is",
            Self::Pending(count) if count.is_multiple_of(1_000_000) => {
                return format!("{} M pending", count / 1_000_000).into();
            }
            Self::Pending(count) => return format!("{} k pending", count / 1_000).into(),
            Self::BothCores => "both cores at once",
            Self::Clock => "the clock alone",
        };
        label.into()
    }

    /// How many tasks run the pattern at the same time.
    pub(super) fn tasks(self) -> usize {
        match self {
            Self::BothCores => 2,
            _ => 1,
        }
    }

    /// How far ahead sleep number `index` of `operations` is due.
    pub(super) fn ahead(self, index: u32, operations: u32) -> Duration {
        match self {
            Self::Earliest => AWAY + STEP * (operations - index),
            _ => AWAY,
        }
    }

    /// How many sleeps stay pending.
    pub(super) fn standing_count(self) -> usize {
        match self {
            Self::Pending(count) => count as usize + 1,
            _ => 1,
        }
    }

    /// How far ahead the sleeps that stay pending are due, the earliest first.
    pub(super) fn standing(self) -> impl Iterator<Item = Duration> {
        let (guard, count) = match self {
            Self::Earliest => (GUARD_FAR, 0),
            Self::Pending(count) => (GUARD, count),
            _ => (GUARD, 0),
        };
        let mut random = Random::seeded(SEED);
        let [low, high] = PENDING_S;
        let others = move |_| Duration::from_secs_f64(random.between(low, high));
        iter::once(guard).chain((0..count).map(others))
    }
}

/// The result of one task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// The mean time of an operation.
    pub(super) op_ns: f64,
    /// How many sleeps were pending at their first poll.
    pub(super) pending: u64,
}

/// Creates, polls and drops sleeps in the order of the pattern, and times that.
pub(super) fn time<T: Timers>(
    timers: &T,
    pattern: Pattern,
    operations: u32,
    cx: &mut Context<'_>,
) -> Timing {
    let mut shelf = Shelf::with_room_for(BATCH as usize);
    let start = Instant::now();
    let pending = match pattern {
        Pattern::Batches => in_batches(timers, operations, &mut shelf, cx),
        Pattern::Clock => {
            (0..operations).for_each(|_| T::read_clock());
            u64::from(operations)
        }
        _ => one_by_one(timers, pattern, operations, cx),
    };
    let span = start.elapsed();
    Timing {
        op_ns: span.as_secs_f64() * 1e9 / f64::from(operations.max(1)),
        pending,
    }
}

fn one_by_one<T: Timers>(
    timers: &T,
    pattern: Pattern,
    operations: u32,
    cx: &mut Context<'_>,
) -> u64 {
    let mut pending = 0;
    for index in 0..operations {
        let sleep = pin!(timers.sleep(pattern.ahead(index, operations)));
        pending += u64::from(black_box(sleep.poll(cx)).is_pending());
    }
    pending
}

fn in_batches<T: Timers>(
    timers: &T,
    operations: u32,
    shelf: &mut Shelf<T::Sleep>,
    cx: &mut Context<'_>,
) -> u64 {
    let mut pending = 0;
    for batch in (0..operations).step_by(BATCH as usize) {
        for _ in batch..operations.min(batch + BATCH) {
            let sleep = shelf.put(timers.sleep(AWAY));
            pending += u64::from(black_box(sleep.poll(cx)).is_pending());
        }
        shelf.clear();
    }
    pending
}
