//! Every order of arming, cancelling, resetting and expiring a few timers with few deadlines.

use super::{Rig, Timer};
use crate::worker::timer::Reset;

/// Deadlines, from one nanosecond before the start; the start is the last of its slot.
const FIRST: i64 = -1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Arm(usize, i64),
    Cancel(usize),
    Reset(usize, i64),
    /// The clock goes on by so much, and the worker looks.
    Expire(u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Off,
    Armed(i64),
    Fired,
}

/// What the timers should be like.
#[derive(Clone)]
struct Model<const N: usize> {
    now: i64,
    timers: [State; N],
}

impl<const N: usize> Model<N> {
    fn new() -> Self {
        Model {
            now: 0,
            timers: [State::Off; N],
        }
    }

    /// What can be done next. Timers are alike, so the first that is off stands for all.
    fn ops(&self, deadlines: &[i64], steps: &[u64]) -> Vec<Op> {
        let mut ops: Vec<Op> = steps.iter().copied().map(Op::Expire).collect();
        let mut fresh = true;
        for (i, state) in self.timers.iter().enumerate() {
            match state {
                State::Off if fresh => {
                    fresh = false;
                    ops.extend(deadlines.iter().map(|&when| Op::Arm(i, when)));
                }
                State::Off => {}
                State::Armed(_) | State::Fired => {
                    ops.push(Op::Cancel(i));
                    ops.extend(deadlines.iter().map(|&when| Op::Reset(i, when)));
                }
            }
        }
        ops
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Arm(i, when) | Op::Reset(i, when) => self.timers[i] = State::Armed(when),
            Op::Cancel(i) => self.timers[i] = State::Off,
            Op::Expire(by) => {
                self.now += by.cast_signed();
                for state in &mut self.timers {
                    if matches!(state, State::Armed(when) if *when <= self.now) {
                        *state = State::Fired;
                    }
                }
            }
        }
    }
}

struct Real<const N: usize> {
    rig: Rig,
    start: u64,
    timers: [Option<Timer>; N],
}

impl<const N: usize> Real<N> {
    fn new() -> Self {
        let rig = Rig::at_edge();
        Real {
            start: rig.now(),
            rig,
            timers: [const { None }; N],
        }
    }

    fn time(&self, when: i64) -> u64 {
        self.start.checked_add_signed(when).unwrap()
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Arm(i, when) => self.timers[i] = Some(self.rig.arm(self.time(when))),
            Op::Cancel(i) => {
                let timer = self.timers[i].take();
                self.rig.enter(|| drop(timer));
            }
            Op::Reset(i, when) => {
                let when_ns = self.time(when);
                let timer = self.timers[i].as_mut().unwrap();
                let fired = timer.wakes.get() == 1;
                let reset = self.rig.enter(|| timer.raw.reset(when_ns));
                // T8: after expiry it says so, and a new one does what was asked.
                assert_eq!(reset == Reset::Elsewhere, fired);
                if fired {
                    let old = self.timers[i].take();
                    self.rig.enter(|| drop(old));
                    self.timers[i] = Some(self.rig.arm(when_ns));
                }
            }
            Op::Expire(by) => {
                self.rig.expire_at(self.rig.now() + by);
            }
        }
    }

    fn check(&mut self, model: &Model<N>) {
        let mut pending = 0;
        let mut nearest = None;
        for (timer, state) in self.timers.iter_mut().zip(&model.timers) {
            let Some(timer) = timer else {
                assert!(*state == State::Off);
                continue;
            };
            self.rig.enter(|| timer.check(*state == State::Fired));
            if let State::Armed(when) = *state {
                pending += 1;
                nearest = Some(nearest.unwrap_or(i64::MAX).min(when));
            }
        }
        assert_eq!(self.rig.pending(), pending);
        assert!(self.rig.entries() <= N.max(1), "entries are not used again");
        // The worker looks in time, also where a timer was reset to earlier.
        if let Some(nearest) = nearest {
            let due_ns = self.rig.local.due_ns().unwrap();
            assert!(due_ns <= self.time(nearest.max(FIRST)));
            assert!(self.rig.remote().next_global_ns() <= self.time(nearest));
        }
    }
}

/// Runs every sequence of at most `left` more operations; returns how many there were.
fn explore<const N: usize>(
    done: &mut Vec<Op>,
    model: &Model<N>,
    left: usize,
    deadlines: &[i64],
    steps: &[u64],
) -> usize {
    if left == 0 {
        replay::<N>(done);
        return 1;
    }
    let mut sequences = 0;
    for op in model.ops(deadlines, steps) {
        let mut after = model.clone();
        after.apply(op);
        done.push(op);
        sequences += explore(done, &after, left - 1, deadlines, steps);
        done.pop();
    }
    sequences
}

/// Runs one sequence, looks at everything after each step, and ends the worker.
fn replay<const N: usize>(ops: &[Op]) {
    let mut model = Model::<N>::new();
    let mut real = Real::<N>::new();
    for &op in ops {
        model.apply(op);
        real.apply(op);
        real.check(&model);
    }
    // Late, and to the last.
    model.apply(Op::Expire(1 << 20));
    real.apply(Op::Expire(1 << 20));
    real.check(&model);
    let Real { rig, timers, .. } = real;
    rig.enter(|| drop(timers));
    assert_eq!(rig.pending(), 0);
    rig.close();
    assert_eq!(rig.entries(), 0);
}

#[test]
fn t8_two_timers_in_every_order() {
    let sequences = explore(
        &mut Vec::new(),
        &Model::<2>::new(),
        5,
        &[-1, 0, 1, 2],
        &[0, 1],
    );
    assert!((20_000..500_000).contains(&sequences), "{sequences}");
}

#[test]
fn t8_four_timers_in_every_order() {
    let sequences = explore(&mut Vec::new(), &Model::<4>::new(), 6, &[0, 1], &[1]);
    assert!((5_000..500_000).contains(&sequences), "{sequences}");
}

#[test]
fn t8_five_timers_of_coarse_and_fine_slots() {
    // The start is the last nanosecond of a slot of 4,096: beside it and far from it.
    let sequences = explore(
        &mut Vec::new(),
        &Model::<5>::new(),
        5,
        &[1, 64, 4_097],
        &[64],
    );
    assert!((5_000..500_000).contains(&sequences), "{sequences}");
}

#[test]
fn miri_t8_one_order_of_each_kind() {
    replay::<2>(&[
        Op::Arm(0, 1),
        Op::Arm(1, 70),
        Op::Reset(1, 0),
        Op::Expire(0),
        Op::Reset(1, 5_000),
        Op::Reset(0, 0),
        Op::Expire(1),
        Op::Cancel(0),
        Op::Arm(0, 1),
    ]);
}
