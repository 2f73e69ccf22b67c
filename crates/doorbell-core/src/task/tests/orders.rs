//! Every order of what can happen to one task, up to five steps: everything is dropped once.

use super::{Bench, Count, CountsDrop, WakerSlot};
use crate::task::Join;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

const STEPS: [Step; 8] = [
    Step::Run,
    Step::Wake,
    Step::WakeElsewhere,
    Step::PollHandle,
    Step::DropHandle,
    Step::Cancel,
    Step::DropWaker,
    Step::Close,
];

#[derive(Clone, Copy, Debug)]
enum Step {
    Run,
    Wake,
    WakeElsewhere,
    PollHandle,
    DropHandle,
    Cancel,
    DropWaker,
    Close,
}

/// A task that is ready at its `polls`-th poll.
struct Life {
    bench: Bench,
    slot: WakerSlot,
    join: Option<Join<CountsDrop>>,
    joined: Option<bool>,
    polls: Count,
    futures: Count,
    outputs_made: Count,
    outputs_dropped: Count,
}

impl Life {
    fn new(polls: usize) -> Self {
        let bench = Bench::new();
        let counts: [Count; 4] = std::array::from_fn(|_| Count::default());
        let [polled, futures, made, dropped] = counts.clone();
        let slot = WakerSlot::default();
        let (mine, owned) = (slot.clone(), futures.on_drop());
        let join = bench.spawn(poll_fn(move |cx| {
            let _owned = &owned;
            mine.put(cx);
            if polled.add() + 1 < polls {
                return Poll::Pending;
            }
            made.add();
            Poll::Ready(dropped.on_drop())
        }));
        let [polls, futures, outputs_made, outputs_dropped] = counts;
        Life {
            bench,
            slot,
            join: Some(join),
            joined: None,
            polls,
            futures,
            outputs_made,
            outputs_dropped,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Run => {
                self.bench.run();
            }
            Step::Wake => {
                let waker = self.slot.0.lock().unwrap().clone();
                self.bench.on_worker(|| waker.map(Waker::wake));
            }
            Step::WakeElsewhere => {
                let waker = self.slot.0.lock().unwrap().clone();
                waker.iter().for_each(Waker::wake_by_ref);
            }
            Step::PollHandle => self.poll_handle(),
            Step::DropHandle => drop(self.join.take()),
            Step::Cancel => self.join.iter().for_each(Join::cancel),
            Step::DropWaker => drop(self.slot.take()),
            Step::Close => self.bench.on_worker(|| self.bench.local.close()),
        }
    }

    fn poll_handle(&mut self) {
        let (Some(join), None) = (&mut self.join, self.joined) else {
            return;
        };
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = Pin::new(join).poll(&mut cx) {
            self.joined = Some(output.is_ok());
        }
    }

    /// Ends it all, and asks what became of future and output.
    fn end(mut self, polls: usize, steps: &[Step]) {
        self.step(Step::Close);
        self.poll_handle();
        assert!(self.join.is_none() || self.joined.is_some(), "{steps:?}");
        if let Some(ok) = self.joined {
            assert_eq!(usize::from(ok), self.outputs_made.get(), "{steps:?}");
        }
        self.step(Step::DropHandle);
        self.step(Step::DropWaker);
        self.bench.end();
        assert_eq!(self.futures.get(), 1, "{steps:?}");
        assert_eq!(
            self.outputs_made.get(),
            usize::from(self.polls.get() == polls),
            "{steps:?}"
        );
        assert_eq!(
            self.outputs_made.get(),
            self.outputs_dropped.get(),
            "{steps:?}"
        );
        assert!(self.polls.get() <= polls, "{steps:?}");
    }
}

fn every_order(length: u32, polls: usize) {
    let base = STEPS.len();
    for number in 0..base.pow(length) {
        let steps: Vec<Step> = (0..length)
            .map(|place| STEPS[number / base.pow(place) % base])
            .collect();
        let mut life = Life::new(polls);
        for step in &steps {
            life.step(*step);
        }
        life.end(polls, &steps);
    }
}

#[test]
fn every_order_of_five_steps_drops_everything_once() {
    for polls in 1..=3 {
        every_order(5, polls);
    }
}

#[test]
fn miri_every_order_of_two_steps_drops_everything_once() {
    for polls in 1..=2 {
        every_order(2, polls);
    }
}
