//! References that a worker owes to the task under poll: whatever timers it arms, drops, polls and
//! gives away in its polls, the task is freed once, and not before the last of them is gone.

use super::Bench;
use crate::scheduler::RemoteRef;
use crate::worker::timer::RawTimer;
use doorbell_machine::Host;
use proptest::collection::vec;
use proptest::prelude::*;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Arm a timer that is due, or one that never is.
    Arm { due: bool },
    /// Drop the oldest timer on the worker.
    Drop,
    /// Drop the newest on another thread, during the poll.
    DropElsewhere,
    /// Poll one with another waker, or with the task's.
    Poll { own: bool },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => any::<bool>().prop_map(|due| Op::Arm { due }),
        2 => Just(Op::Drop),
        1 => Just(Op::DropElsewhere),
        2 => any::<bool>().prop_map(|own| Op::Poll { own }),
    ]
}

fn apply(op: Op, timers: &mut Vec<RawTimer>, remote: &RemoteRef<Host>, cx: &mut Context<'_>) {
    match op {
        Op::Arm { due } => {
            let when_ns = if due { 0 } else { u64::MAX - 1 };
            timers.push(RawTimer::arm(remote, when_ns, cx.waker()).unwrap());
        }
        Op::Drop if !timers.is_empty() => drop(timers.remove(0)),
        Op::DropElsewhere => {
            let timer = timers.pop();
            std::thread::scope(|scope| {
                scope.spawn(move || drop(timer));
            });
        }
        Op::Poll { own } => {
            if let Some(timer) = timers.last_mut() {
                let _ = timer.poll(&mut if own {
                    Context::from_waker(cx.waker())
                } else {
                    Context::from_waker(Waker::noop())
                });
            }
        }
        Op::Drop => {}
    }
}

/// Runs a task whose polls do this. It ends by itself, or with its worker.
fn run(polls: &[Vec<Op>], ends: bool) {
    let rig = Bench::new();
    let (remote, program) = (rig.remote.clone(), polls.to_vec());
    let mut timers = Vec::new();
    let mut polls_done = 0;
    let join = rig.spawn(poll_fn(move |cx| {
        for op in program.get(polls_done).into_iter().flatten() {
            apply(*op, &mut timers, &remote, cx);
        }
        polls_done += 1;
        if polls_done < program.len() {
            cx.waker().wake_by_ref();
            Poll::Pending
        } else if ends {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    drop(join);
    rig.run();
    rig.on_worker(|| rig.local.expire());
    rig.run();
    rig.end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 400 }))]

    #[test]
    fn a_task_is_freed_once_whatever_its_timers_do(
        polls in vec(vec(op(), 0..8), 1..5),
        ends in any::<bool>(),
    ) {
        run(&polls, ends);
    }
}

#[test]
fn miri_a_timer_given_away_in_the_poll_that_armed_it() {
    let arm = Op::Arm { due: false };
    for ends in [false, true] {
        run(&[vec![arm, Op::DropElsewhere]], ends);
        run(&[vec![arm, arm], vec![Op::Drop, Op::DropElsewhere]], ends);
        run(
            &[vec![
                arm,
                Op::Poll { own: false },
                Op::Poll { own: true },
                Op::Drop,
            ]],
            ends,
        );
        run(
            &[vec![Op::Arm { due: true }], vec![arm, Op::Drop, Op::Drop]],
            ends,
        );
    }
}

/// What a timer costs the word of its task: nothing, armed and dropped in one poll.
#[test]
fn the_count_is_settled_when_the_poll_ends() {
    let rig = Bench::new();
    let remote = rig.remote.clone();
    let mut kept = Vec::new();
    let mut polls = 0;
    let mut join = rig.spawn(poll_fn(move |cx| {
        let arm = || RawTimer::arm(&remote, u64::MAX - 1, cx.waker()).unwrap();
        polls += 1;
        match polls {
            1 => {}
            2 => {
                (0..100).for_each(|_| drop(arm()));
                kept.extend([arm(), arm()]);
            }
            3 => kept.clear(),
            _ => return Poll::Ready(()),
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }));
    let poll = || {
        rig.serve();
        rig.on_worker(|| rig.local.run_one());
        rig.local
            .remote()
            .task_list()
            .with(|list| list.iter().next().map(|task| task.header().state.refs()))
            .flatten()
    };
    let before = poll();
    assert_eq!(poll(), before.map(|refs| refs + 2));
    assert_eq!(poll(), before);
    poll();
    super::output(&mut join).unwrap();
    drop(join);
    rig.end();
}
