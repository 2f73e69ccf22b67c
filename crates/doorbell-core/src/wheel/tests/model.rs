//! The two bases against a sorted set.

use crate::wheel::entry::{self, Entry};
use crate::wheel::levels::{LOOKS_MAX, WheelLevels};
use crate::wheel::{Base, Gate, TimerReleased, VISIT_AGAIN_NS, VISIT_LOOKS, Wheel, Window};
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

/// How much later than its deadline a timer may fire.
#[derive(Clone, Copy, Debug)]
enum Slack {
    None,
    By(u64),
    ForEver,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Arm(Base, When, Slack),
    /// So many at the same time.
    ArmMany(Base, When, Slack, u8),
    Cancel(usize),
    Reset(usize, When, Slack),
    Advance(When),
    /// To the time at which the wheel asks for a wake.
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

fn any_slack() -> impl Strategy<Value = Slack> {
    prop_oneof![
        4 => Just(Slack::None),
        2 => (1..200_u64).prop_map(Slack::By),
        2 => (0..1_u64 << 34).prop_map(Slack::By),
        1 => any::<u64>().prop_map(Slack::By),
        1 => Just(Slack::ForEver),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    let base = || prop_oneof![Just(Base::Local), Just(Base::Global)];
    let timer = || (base(), any_when(), any_slack());
    prop_oneof![
        6 => timer().prop_map(|(base, when, slack)| Op::Arm(base, when, slack)),
        1 => (timer(), 2..80_u8).prop_map(|((base, when, slack), n)| Op::ArmMany(base, when, slack, n)),
        3 => any::<usize>().prop_map(Op::Cancel),
        3 => (any::<usize>(), any_when(), any_slack())
            .prop_map(|(timer, when, slack)| Op::Reset(timer, when, slack)),
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

pub(super) struct Known {
    pub(super) entry: NonNull<Entry<Host, Arc<()>>>,
    base: Base,
    window: Window,
}

pub(super) struct World {
    pub(super) wheel: Wheel<Host, Arc<()>>,
    /// Each entry has a share of it.
    owner: Arc<()>,
    now_ns: u64,
    pub(super) timers: BTreeMap<usize, Known>,
    /// The sorted set of each base: deadline and number.
    order: [BTreeSet<(u64, usize)>; 2],
    /// Of each base: whether a timer that left it unfired may still count in a slot.
    is_stale: [bool; 2],
    fired: Arc<Mutex<Vec<usize>>>,
    armed: usize,
}

impl World {
    pub(super) fn new(now_ns: u64) -> World {
        let gate = Arc::new(<Host as Machine>::Line::new(Gate::default));
        World {
            wheel: Wheel::new(now_ns, gate),
            owner: Arc::default(),
            now_ns,
            timers: BTreeMap::new(),
            order: [BTreeSet::new(), BTreeSet::new()],
            is_stale: [false; 2],
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
                Some(number) => self.timers[&number].window.from_ns.saturating_add(ns),
                None => self.now_ns,
            },
        }
    }

    fn window(&self, when: When, slack: Slack) -> Window {
        let from_ns = self.time(when);
        let latest_ns = match slack {
            Slack::None => from_ns,
            Slack::By(ns) => from_ns.saturating_add(ns),
            Slack::ForEver => u64::MAX,
        };
        Window { from_ns, latest_ns }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Arm(base, when, slack) => self.arm(base, self.window(when, slack)),
            Op::ArmMany(base, when, slack, count) => {
                let window = self.window(when, slack);
                (0..count).for_each(|_| self.arm(base, window));
            }
            Op::Cancel(timer) => {
                if let Some(number) = self.pick(timer) {
                    self.cancel(number);
                }
            }
            Op::Reset(timer, when, slack) => {
                if let Some(number) = self.pick(timer) {
                    self.reset(number, self.window(when, slack));
                }
            }
            Op::Advance(when) => self.advance(self.time(when)),
            Op::AdvanceToNext => {
                let wake_ns = self.next_of_both().latest_ns;
                if wake_ns < u64::MAX {
                    self.advance(wake_ns);
                }
            }
        }
        self.check();
    }

    fn next(&self) -> [Window; 2] {
        Base::BOTH.map(|base| self.wheel.next(base).expect("nobody visits"))
    }

    pub(super) fn next_of_both(&self) -> Window {
        let [local, global] = self.next();
        local.and(global)
    }

    pub(super) fn arm(&mut self, base: Base, window: impl Into<Window>) {
        let window = window.into();
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
            self.wheel.hang(entry, window).unwrap();
        }
        self.order[base as usize].insert((window.from_ns, number));
        let known = Known {
            entry,
            base,
            window,
        };
        self.timers.insert(number, known);
    }

    pub(super) fn cancel(&mut self, number: usize) {
        let known = self.timers.remove(&number).unwrap();
        self.order[known.base as usize].remove(&(known.window.from_ns, number));
        self.is_stale[known.base as usize] = true;
        // SAFETY: it hangs in the wheel, and this test has its handle.
        unsafe {
            self.unlink(known.base, known.entry);
            self.wheel.recycle(known.entry);
        }
    }

    /// # Safety
    /// The entry hangs in that base.
    unsafe fn unlink(&self, base: Base, entry: NonNull<Entry<Host, Arc<()>>>) {
        // SAFETY: passed on.
        let unlink = |base: &mut WheelLevels<_, _>| unsafe { base.unlink(entry.as_ptr()) };
        self.wheel.with(base, unlink).unwrap();
    }

    fn reset(&mut self, number: usize, window: Window) {
        let Known { base, entry, .. } = self.timers[&number];
        // SAFETY: it hangs in the wheel.
        unsafe {
            self.unlink(base, entry);
            self.wheel.hang(entry, window).unwrap();
        }
        let known = self.timers.get_mut(&number).unwrap();
        let order = &mut self.order[known.base as usize];
        order.remove(&(known.window.from_ns, number));
        order.insert((window.from_ns, number));
        self.is_stale[known.base as usize] = true;
        known.window = window;
    }

    /// Exactly the due ones fire, each once.
    pub(super) fn advance(&mut self, to_ns: u64) {
        self.now_ns = self.now_ns.max(to_ns);
        let mut due: Vec<usize> = Vec::new();
        for order in &mut self.order {
            while let Some(&(from_ns, number)) = order.first()
                && from_ns <= self.now_ns
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
        for next in self.next() {
            assert!(next.from_ns > self.now_ns || next == Window::NEVER);
        }
        for (order, is_stale) in self.order.iter().zip(&mut self.is_stale) {
            *is_stale &= !order.is_empty();
        }
    }

    /// The wheel's own word about what is pending and next.
    pub(super) fn check(&self) {
        assert_eq!(self.wheel.len(), self.timers.len());
        for (at, next) in self.next().into_iter().enumerate() {
            let order = &self.order[at];
            let of_base = order.iter().map(|(_, number)| self.timers[number].window);
            let Some(nearest) = of_base.clone().reduce(Window::and) else {
                assert_eq!(next, Window::NEVER);
                continue;
            };
            // What was due when it was armed is due at once.
            let nearest = nearest.not_before(self.now_ns);
            let few = order.len() <= LOOKS_MAX;
            assert!(next.from_ns <= nearest.from_ns, "{next:?}, not {nearest:?}");
            assert!(
                next.latest_ns <= nearest.latest_ns,
                "{next:?}, not {nearest:?}"
            );
            assert!(self.now_ns <= next.from_ns && next.from_ns <= next.latest_ns);
            if few {
                assert_eq!(next.from_ns, nearest.from_ns);
            }
            let have_slack = || of_base.clone().any(|it| it.latest_ns > it.from_ns);
            if !self.is_stale[at] || (few && !have_slack()) {
                assert_eq!(next.latest_ns, nearest.latest_ns);
            }
        }
    }

    /// Until all have fired, by the times that the wheel names.
    pub(super) fn finish(mut self) {
        // Each look fires something or makes a slot finer, of which there are ten sizes.
        let mut looks = 0;
        let looks_max = 11 * self.timers.len();
        while !self.timers.is_empty() {
            let next = self.next_of_both();
            // Where no timer asks for a wake, the worker looks for another reason.
            self.advance(if next.latest_ns < u64::MAX {
                next.latest_ns
            } else {
                next.from_ns
            });
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

/// The wakes that a worker needs for so many timers of one time, if `cancelled` is one that was due before.
fn wakes(count: usize, ahead_ns: u64, cancelled: Option<u64>) -> usize {
    let mut world = World::new(0);
    (0..count).for_each(|_| world.arm(Base::Global, ahead_ns));
    if let Some(cancelled_ns) = cancelled {
        world.arm(Base::Global, cancelled_ns);
        world.cancel(count);
    }
    let mut wakes = 0;
    while !world.timers.is_empty() {
        world.advance(world.next_of_both().latest_ns);
        wakes += 1;
    }
    world.finish();
    wakes
}

#[test]
fn a_cancelled_timer_costs_a_wake_where_it_shared_a_slot_with_many() {
    // Six bits a level, all digits set.
    for level in 1..11_u32 {
        let ahead_ns = u64::MAX >> (64 - (6 * (level + 1)).min(64));
        assert_eq!(wakes(LOOKS_MAX + 1, ahead_ns, None), 1, "level {level}");
        let cancelled = Some(ahead_ns - 1);
        assert_eq!(wakes(LOOKS_MAX, ahead_ns, cancelled), 1, "level {level}");
        assert_eq!(wakes(LOOKS_MAX + 1, ahead_ns, cancelled), 2);
    }
}

#[test]
fn miri_a_small_run_of_the_model() {
    let mut world = World::new(60);
    for when in [0, 61, 64, 4_095, 4_096, 1 << 40, u64::MAX - 1, u64::MAX] {
        world.apply(Op::Arm(Base::Global, When::Exactly(when), Slack::By(70)));
        world.apply(Op::Arm(Base::Local, When::Exactly(when), Slack::None));
    }
    world.apply(Op::Cancel(3));
    world.apply(Op::Reset(5, When::Exactly(62), Slack::ForEver));
    for when in [60, 61, 62, 64, 5_000] {
        world.apply(Op::Advance(When::Exactly(when)));
    }
    world.finish();
}

/// More timers of the poll under way than a round looks at are due after one of another task.
#[test]
fn timers_that_a_visit_must_leave_hide_no_other_one() {
    const UNDER_WAY: u16 = 8;
    let own = 3 * VISIT_LOOKS;
    let mut world = World::new(0);
    world.arm(Base::Global, 1_u64);
    for at in 0..own {
        world.arm(Base::Global, 2 + at as u64);
    }
    for known in world.timers.values().skip(1) {
        // SAFETY: this thread has the wheel; the entry hangs in it.
        unsafe { known.entry.as_ref() }.polls.set(UNDER_WAY);
    }
    let now_ns = 10_000;
    let again_ns = now_ns + VISIT_AGAIN_NS;
    let looks = |now_ns| {
        let taken = world
            .wheel
            .with(Base::Global, |base| base.take(now_ns, Some(UNDER_WAY)));
        let (taken, next_ns) = taken.unwrap();
        let fired: u64 = taken
            .into_iter()
            .flatten()
            .map(TimerReleased::end::<Host>)
            .sum();
        (fired, next_ns)
    };
    for _ in 0..3 {
        assert_eq!(looks(now_ns), (0, now_ns), "there is more");
    }
    assert_eq!(looks(now_ns), (1, again_ns), "all are seen");
    // The next visit looks at what was left once more, and then need not come at once either.
    for _ in 0..2 {
        assert_eq!(looks(now_ns + 1), (0, now_ns + 1));
    }
    assert_eq!(looks(now_ns + 1), (0, again_ns + 1));
    // The worker itself fires them at its next look.
    assert_eq!(
        world.wheel.with(Base::Global, |base| base.next()).unwrap(),
        Window::at(now_ns + 1)
    );
    world.wheel.close(&<Host as Machine>::Parker::new());
}

#[test]
fn a_visit_publishes_a_timer_that_it_left_whichever_it_saw_first() {
    const UNDER_WAY: u16 = 8;
    for left in [0, 1] {
        let mut world = World::new(0);
        world.arm(Base::Global, 1_u64);
        world.arm(Base::Global, 2_u64);
        for (at, known) in world.timers.values().enumerate() {
            let polls = if at == left { UNDER_WAY } else { 0 };
            // SAFETY: this thread has the wheel; the entry hangs in it.
            unsafe { known.entry.as_ref() }.polls.set(polls);
        }
        let taken = world
            .wheel
            .with(Base::Global, |base| base.take(10, Some(UNDER_WAY)));
        let (taken, next_ns) = taken.unwrap();
        let fired: u64 = taken
            .into_iter()
            .flatten()
            .map(TimerReleased::end::<Host>)
            .sum();
        assert_eq!((fired, next_ns), (1, 10 + VISIT_AGAIN_NS), "{left}");
        world.wheel.close(&<Host as Machine>::Parker::new());
    }
}
