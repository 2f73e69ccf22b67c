//! The two bases against a sorted set.

use crate::wheel::entry::{self, Entry};
use crate::wheel::levels::LOOKS_MAX;
use crate::wheel::{Base, Gate, TimerReleased, VISIT_AGAIN_NS, Wheel, WheelInner};
use doorbell_machine::{Cell as _, Host, Line as _, Machine};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// A time, said with respect to the wheel's.
#[derive(Clone, Copy, Debug)]
enum When {
    Exactly(u64),
    Ahead(u64),
    Ago(u64),
    FromEnd(u64),
    /// As the timer with this number, a little later.
    Beside(usize, u64),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Arm(Base, When),
    /// So many at the same time.
    ArmMany(Base, When, u8),
    Cancel(usize),
    Reset(usize, When),
    Advance(When),
    /// To the time that the wheel names.
    AdvanceToNext,
}

fn any_when() -> impl Strategy<Value = When> {
    const YEAR_NS: u64 = 31_557_600_000_000_000;
    prop_oneof![
        Just(When::Exactly(0)),
        Just(When::Exactly(u64::MAX)),
        Just(When::Exactly(i64::MAX as u64)),
        Just(When::Exactly(1 << 63)),
        any::<u64>().prop_map(When::Exactly),
        Just(When::Ahead(0)),
        Just(When::Ahead(1)),
        (0..200_u64).prop_map(When::Ahead),
        (0..1_u64 << 34).prop_map(When::Ahead),
        (0..300 * YEAR_NS).prop_map(When::Ahead),
        (0..64_u32, 0..3_u64).prop_map(|(bit, more)| When::Ahead((1 << bit) - 1 + more)),
        any::<u64>().prop_map(When::Ago),
        (0..100_u64).prop_map(When::Ago),
        (0..200_u64).prop_map(When::FromEnd),
        (any::<usize>(), 0..3_u64).prop_map(|(timer, more)| When::Beside(timer, more)),
    ]
}

fn any_advance() -> impl Strategy<Value = When> {
    // Not too far too often: at the end of time nothing is left to test.
    prop_oneof![
        8 => (0..100_u64).prop_map(When::Ahead),
        8 => (0..1_u64 << 34).prop_map(When::Ahead),
        4 => (0..58_u32, 0..3_u64).prop_map(|(bit, more)| When::Ahead((1 << bit) - 1 + more)),
        8 => (any::<usize>(), 0..3_u64).prop_map(|(timer, more)| When::Beside(timer, more)),
        1 => (0..200_u64).prop_map(When::FromEnd),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    let base = || prop_oneof![Just(Base::Local), Just(Base::Global)];
    prop_oneof![
        6 => (base(), any_when()).prop_map(|(base, when)| Op::Arm(base, when)),
        1 => (base(), any_when(), 2..80_u8).prop_map(|(base, when, n)| Op::ArmMany(base, when, n)),
        3 => any::<usize>().prop_map(Op::Cancel),
        3 => (any::<usize>(), any_when()).prop_map(|(timer, when)| Op::Reset(timer, when)),
        4 => any_advance().prop_map(Op::Advance),
        3 => Just(Op::AdvanceToNext),
    ]
}

/// Notes the number of the timer that it belongs to.
struct Note {
    number: usize,
    fired: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.fired.lock().unwrap().push(self.number);
    }
}

struct Known {
    entry: NonNull<Entry<Host, Arc<()>>>,
    base: Base,
    when_ns: u64,
}

struct World {
    wheel: Wheel<Host, Arc<()>>,
    /// Each entry has a share of it.
    owner: Arc<()>,
    now_ns: u64,
    timers: BTreeMap<usize, Known>,
    /// The sorted set of each base: time and number.
    order: [BTreeSet<(u64, usize)>; 2],
    fired: Arc<Mutex<Vec<usize>>>,
    armed: usize,
}

impl World {
    fn new(now_ns: u64) -> World {
        let gate = Arc::new(<Host as Machine>::Line::new(Gate::default));
        World {
            wheel: Wheel::new(now_ns, gate),
            owner: Arc::default(),
            now_ns,
            timers: BTreeMap::new(),
            order: [BTreeSet::new(), BTreeSet::new()],
            fired: Arc::default(),
            armed: 0,
        }
    }

    fn pick(&self, timer: usize) -> Option<usize> {
        let at = timer.checked_rem(self.timers.len())?;
        self.timers.keys().nth(at).copied()
    }

    fn time(&self, when: When) -> u64 {
        match when {
            When::Exactly(ns) => ns,
            When::Ahead(ns) => self.now_ns.saturating_add(ns),
            When::Ago(ns) => self.now_ns.saturating_sub(ns),
            When::FromEnd(ns) => u64::MAX - ns,
            When::Beside(timer, ns) => match self.pick(timer) {
                Some(number) => self.timers[&number].when_ns.saturating_add(ns),
                None => self.now_ns,
            },
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Arm(base, when) => self.arm(base, self.time(when)),
            Op::ArmMany(base, when, count) => {
                let when_ns = self.time(when);
                (0..count).for_each(|_| self.arm(base, when_ns));
            }
            Op::Cancel(timer) => {
                if let Some(number) = self.pick(timer) {
                    self.cancel(number);
                }
            }
            Op::Reset(timer, when) => {
                if let Some(number) = self.pick(timer) {
                    self.reset(number, self.time(when));
                }
            }
            Op::Advance(when) => self.advance(self.time(when)),
            Op::AdvanceToNext => {
                let [local_ns, global_ns] = self.next_ns();
                if local_ns.min(global_ns) < u64::MAX {
                    self.advance(local_ns.min(global_ns));
                }
            }
        }
        self.check();
    }

    fn next_ns(&self) -> [u64; 2] {
        self.wheel.next_ns().expect("nobody visits")
    }

    fn arm(&mut self, base: Base, when_ns: u64) {
        let number = self.armed;
        self.armed += 1;
        let waker = Waker::from(Arc::new(Note {
            number,
            fired: Arc::clone(&self.fired),
        }));
        let entry = self.wheel.take_entry(|| Arc::clone(&self.owner));
        // SAFETY: taken, so it is this test's alone, and hangs nowhere.
        unsafe {
            let it = entry.as_ref();
            it.base.set(base);
            it.waker.with_mut(|cell| *cell = Some(waker));
            it.set(entry::ARMED);
            self.wheel.hang(entry, when_ns).unwrap();
        }
        self.order[base as usize].insert((when_ns, number));
        let known = Known {
            entry,
            base,
            when_ns,
        };
        self.timers.insert(number, known);
    }

    fn cancel(&mut self, number: usize) {
        let known = self.timers.remove(&number).unwrap();
        self.order[known.base as usize].remove(&(known.when_ns, number));
        // SAFETY: it hangs in the wheel, and this test has its handle.
        unsafe {
            self.wheel.with(|inner| inner.unlink(known.entry)).unwrap();
            self.wheel.recycle(known.entry);
        }
    }

    fn reset(&mut self, number: usize, when_ns: u64) {
        let known = self.timers.get_mut(&number).unwrap();
        // SAFETY: it hangs in the wheel.
        unsafe {
            self.wheel.with(|inner| inner.unlink(known.entry)).unwrap();
            self.wheel.hang(known.entry, when_ns).unwrap();
        }
        let order = &mut self.order[known.base as usize];
        order.remove(&(known.when_ns, number));
        order.insert((when_ns, number));
        known.when_ns = when_ns;
    }

    /// Exactly the due ones fire, each once.
    fn advance(&mut self, to_ns: u64) {
        self.now_ns = self.now_ns.max(to_ns);
        let mut due: Vec<usize> = Vec::new();
        for order in &mut self.order {
            while let Some(&(when_ns, number)) = order.first()
                && when_ns <= self.now_ns
            {
                order.pop_first();
                due.push(number);
            }
        }
        let count = self.wheel.expire(self.now_ns);
        let mut fired = std::mem::take(&mut *self.fired.lock().unwrap());
        assert_eq!(count, fired.len() as u64);
        fired.sort_unstable();
        due.sort_unstable();
        assert_eq!(fired, due, "at {}", self.now_ns);
        for number in due {
            let known = self.timers.remove(&number).unwrap();
            // SAFETY: fired, so it is this test's, the handle's.
            unsafe { self.wheel.recycle(known.entry) };
        }
        for next_ns in self.next_ns() {
            assert!(next_ns > self.now_ns || next_ns == u64::MAX);
        }
    }

    /// The wheel's own word about what is pending and next.
    fn check(&self) {
        assert_eq!(self.wheel.len(), self.timers.len());
        for (order, next_ns) in self.order.iter().zip(self.next_ns()) {
            let Some(&(first_ns, _)) = order.first() else {
                assert_eq!(next_ns, u64::MAX);
                continue;
            };
            // What was due when it was armed is due at once.
            let first_ns = first_ns.max(self.now_ns);
            assert!(next_ns <= first_ns, "{next_ns} is later than {first_ns}");
            assert!(next_ns >= self.now_ns);
            if order.len() <= LOOKS_MAX {
                assert_eq!(next_ns, first_ns);
            }
        }
    }

    /// Until all have fired, by the times that the wheel names.
    fn finish(mut self) {
        // Each look fires something or makes a slot finer, of which there are ten sizes.
        let mut looks = 0;
        let looks_max = 11 * self.timers.len();
        while !self.timers.is_empty() {
            let [local_ns, global_ns] = self.next_ns();
            self.advance(local_ns.min(global_ns));
            self.check();
            looks += 1;
            assert!(looks <= looks_max);
        }
        assert_eq!(self.wheel.len(), 0);
        self.wheel.close(&<Host as Machine>::Parker::new());
        assert_eq!(Arc::strong_count(&self.owner), 1, "an entry is left");
    }
}

fn any_start() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        any::<u64>(),
        0..1_u64 << 50,
        (0..100_u64).prop_map(|ns| i64::MAX as u64 - ns),
        (0..100_u64).prop_map(|ns| u64::MAX - ns),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 1_500 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_bases_are_as_a_sorted_set(
        start_ns in any_start(),
        ops in proptest::collection::vec(any_op(), 1..120),
    ) {
        let mut world = World::new(start_ns);
        for op in ops {
            world.apply(op);
        }
        world.finish();
    }
}

/// The looks that a worker needs for so many timers of one time.
fn looks(count: usize, ahead_ns: u64) -> usize {
    let mut world = World::new(0);
    (0..count).for_each(|_| world.arm(Base::Global, ahead_ns));
    let mut looks = 0;
    while !world.timers.is_empty() {
        let [_, global_ns] = world.next_ns();
        world.advance(global_ns);
        looks += 1;
    }
    world.finish();
    looks
}

#[test]
fn a_long_slot_costs_at_most_one_more_look_for_each_level_below() {
    // Six bits a level, all digits set: each level's slot begins at another time.
    for level in 0..11_u32 {
        let ahead_ns = u64::MAX >> (64 - (6 * (level + 1)).min(64));
        assert_eq!(looks(LOOKS_MAX, ahead_ns), 1, "level {level}");
        assert_eq!(looks(LOOKS_MAX + 1, ahead_ns), 1 + level as usize);
    }
    // All digits below are zero: the slot begins when they are due.
    assert_eq!(looks(LOOKS_MAX + 1, 1 << 30), 1);
}

#[test]
fn miri_a_small_run_of_the_model() {
    let mut world = World::new(60);
    for when in [0, 61, 64, 4_095, 4_096, 1 << 40, u64::MAX - 1, u64::MAX] {
        world.apply(Op::Arm(Base::Global, When::Exactly(when)));
        world.apply(Op::Arm(Base::Local, When::Exactly(when)));
    }
    world.apply(Op::Cancel(3));
    world.apply(Op::Reset(5, When::Exactly(62)));
    for when in [60, 61, 62, 64, 5_000] {
        world.apply(Op::Advance(When::Exactly(when)));
    }
    world.finish();
}

#[test]
fn a_visit_publishes_a_timer_that_it_left_whichever_it_saw_first() {
    const UNDER_WAY: u16 = 8;
    for left in [0, 1] {
        let mut world = World::new(0);
        world.arm(Base::Global, 1);
        world.arm(Base::Global, 2);
        for (at, known) in world.timers.values().enumerate() {
            let polls = if at == left { UNDER_WAY } else { 0 };
            // SAFETY: this thread has the wheel; the entry hangs in it.
            unsafe { known.entry.as_ref() }.polls.set(polls);
        }
        let look = |inner: &mut WheelInner<Host, Arc<()>>| inner.take(10, Some(UNDER_WAY));
        let (taken, next_ns) = world.wheel.with(look).unwrap();
        let fired: u64 = taken.into_iter().flatten().map(TimerReleased::end).sum();
        assert_eq!((fired, next_ns), (1, 10 + VISIT_AGAIN_NS), "{left}");
        world.wheel.close(&<Host as Machine>::Parker::new());
    }
}
