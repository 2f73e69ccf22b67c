//! The task cell and async-task's side by side: the same steps, the same visible outcomes.
//!
//! A waker of each task is kept to the end. Without one, async-task drops the future of a
//! detached task that nobody can wake any more; here the worker keeps it until it closes.

use super::{Bench, Count, CountsDrop, poll_once};
use crate::task::Join;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// What a poll of the future does.
#[derive(Clone, Copy, Debug)]
enum Script {
    Pending,
    WakeItself,
    Ready,
    Panic,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Run,
    Wake,
    WakeByValue,
    CloneWaker,
    DropWaker,
    PollHandle,
    Cancel,
    DropHandle,
}

/// How the handle ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Output,
    Cancelled,
    Panicked,
}

/// What can be seen from outside after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    polls: usize,
    futures_dropped: usize,
    outputs_dropped: usize,
    queued: usize,
    ended: Option<Ended>,
}

/// The future, and what it counts.
#[derive(Clone, Default)]
struct Probe {
    polls: Count,
    futures_dropped: Count,
    outputs_dropped: Count,
    wakers: Arc<Mutex<Vec<Waker>>>,
}

impl Probe {
    fn future(&self, script: Vec<Script>) -> impl Future<Output = CountsDrop> + Send + use<> {
        let (probe, owned) = (self.clone(), self.futures_dropped.on_drop());
        let mut script = script.into_iter();
        std::future::poll_fn(move |cx| {
            let _owned = &owned;
            probe.polls.add();
            probe.wakers.lock().unwrap().push(cx.waker().clone());
            match script.next().unwrap_or(Script::Pending) {
                Script::Pending => Poll::Pending,
                Script::WakeItself => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Script::Ready => Poll::Ready(probe.outputs_dropped.on_drop()),
                Script::Panic => resume_unwind(Box::new("script")),
            }
        })
    }

    /// A waker for a step that uses one; the first is kept to the end.
    fn waker(&self, step: Step) -> Option<Waker> {
        let mut wakers = self.wakers.lock().unwrap();
        match step {
            Step::WakeByValue | Step::DropWaker if wakers.len() > 1 => wakers.pop(),
            _ => wakers.last().cloned(),
        }
    }

    fn use_waker(&self, step: Step) {
        let Some(waker) = self.waker(step) else {
            return;
        };
        match step {
            Step::Wake => waker.wake_by_ref(),
            Step::WakeByValue => waker.wake(),
            Step::CloneWaker => self.wakers.lock().unwrap().push(waker),
            _ => drop(waker),
        }
    }

    fn seen(&self, queued: usize, ended: Option<Ended>) -> Seen {
        Seen {
            polls: self.polls.get(),
            futures_dropped: self.futures_dropped.get(),
            outputs_dropped: self.outputs_dropped.get(),
            queued,
            ended,
        }
    }

    fn drop_wakers(&self) {
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap());
        drop(wakers);
    }
}

struct Ours {
    bench: Bench,
    probe: Probe,
    join: Option<Join<CountsDrop>>,
    ended: Option<Ended>,
}

impl Ours {
    fn new(script: Vec<Script>) -> Self {
        let (bench, probe) = (Bench::new(), Probe::default());
        let join = Some(bench.spawn(probe.future(script)));
        Ours {
            bench,
            probe,
            join,
            ended: None,
        }
    }

    fn poll_handle(&mut self) {
        let Some(join) = &mut self.join else { return };
        if let Poll::Ready(output) = poll_once(join) {
            self.ended = Some(match output {
                Ok(_) => Ended::Output,
                Err(error) if error.is_cancelled() => Ended::Cancelled,
                Err(_) => Ended::Panicked,
            });
            self.join = None;
        }
    }

    fn step(&mut self, step: Step) -> Seen {
        match step {
            Step::Run => {
                self.bench.on_worker(|| self.bench.local.run_one());
            }
            Step::PollHandle => self.poll_handle(),
            Step::Cancel => {
                self.bench
                    .on_worker(|| self.join.iter().for_each(Join::cancel));
                self.poll_handle();
            }
            Step::DropHandle => self.join = None,
            _ => self.bench.on_worker(|| self.probe.use_waker(step)),
        }
        let queued = self.bench.local.queued();
        self.probe.seen(queued, self.ended)
    }

    fn end(mut self) -> Seen {
        self.join = None;
        self.probe.drop_wakers();
        self.bench.end();
        self.probe.seen(0, self.ended)
    }
}

type Queue = Arc<Mutex<VecDeque<async_task::Runnable>>>;

/// async-task's handle: cancelling it is a future of its own.
enum Handle {
    Task(async_task::Task<CountsDrop>),
    Cancelling(Pin<Box<dyn Future<Output = Option<CountsDrop>>>>),
    Gone,
}

struct Theirs {
    queue: Queue,
    probe: Probe,
    handle: Handle,
    ended: Option<Ended>,
}

impl Theirs {
    fn new(script: Vec<Script>) -> Self {
        let (queue, probe) = (Queue::default(), Probe::default());
        let to = Arc::clone(&queue);
        let future = probe.future(script);
        let builder = async_task::Builder::new().propagate_panic(true);
        let (runnable, task) =
            builder.spawn(|()| future, move |it| to.lock().unwrap().push_back(it));
        runnable.schedule();
        Theirs {
            queue,
            probe,
            handle: Handle::Task(task),
            ended: None,
        }
    }

    fn run_one(&self) -> bool {
        let next = self.queue.lock().unwrap().pop_front();
        next.map(async_task::Runnable::run).is_some()
    }

    fn poll_handle(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| match &mut self.handle {
            Handle::Task(task) => Pin::new(task).poll(&mut cx).map(Some),
            Handle::Cancelling(task) => task.as_mut().poll(&mut cx),
            Handle::Gone => Poll::Pending,
        }));
        self.ended = Some(match polled {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(Some(_))) => Ended::Output,
            Ok(Poll::Ready(None)) => Ended::Cancelled,
            Err(_) => Ended::Panicked,
        });
        self.handle = Handle::Gone;
    }

    fn step(&mut self, step: Step) -> Seen {
        match step {
            Step::Run => {
                self.run_one();
            }
            Step::PollHandle => self.poll_handle(),
            Step::Cancel => {
                self.handle = match std::mem::replace(&mut self.handle, Handle::Gone) {
                    Handle::Task(task) => Handle::Cancelling(Box::pin(task.cancel())),
                    other => other,
                };
                self.poll_handle();
            }
            Step::DropHandle => {
                if let Handle::Task(task) = std::mem::replace(&mut self.handle, Handle::Gone) {
                    task.detach();
                }
            }
            _ => self.probe.use_waker(step),
        }
        let queued = self.queue.lock().unwrap().len();
        self.probe.seen(queued, self.ended)
    }

    fn end(mut self) -> Seen {
        // Dropping the handle cancels the task, as the close of a worker does.
        self.handle = Handle::Gone;
        self.probe.drop_wakers();
        let left = std::mem::take(&mut *self.queue.lock().unwrap());
        drop(left);
        while self.run_one() {}
        self.probe.seen(0, self.ended)
    }
}

fn scripts() -> impl Strategy<Value = Vec<Script>> {
    let script = prop_oneof![
        4 => Just(Script::Pending),
        3 => Just(Script::WakeItself),
        2 => Just(Script::Ready),
        1 => Just(Script::Panic),
    ];
    prop::collection::vec(script, 0..6)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => Just(Step::Run),
        3 => Just(Step::Wake),
        1 => Just(Step::WakeByValue),
        1 => Just(Step::CloneWaker),
        1 => Just(Step::DropWaker),
        2 => Just(Step::PollHandle),
        1 => Just(Step::Cancel),
        1 => Just(Step::DropHandle),
    ];
    prop::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn the_same_steps_have_the_same_outcomes(script in scripts(), steps in steps()) {
        let (mut ours, mut theirs) = (Ours::new(script.clone()), Theirs::new(script));
        for step in steps {
            prop_assert_eq!(ours.step(step), theirs.step(step), "{:?}", step);
        }
        prop_assert_eq!(ours.end(), theirs.end());
    }
}
