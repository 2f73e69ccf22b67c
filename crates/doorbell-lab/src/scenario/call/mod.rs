//! `doorbell lab call`: how long a call to another core takes, and what it disturbs.
//!
//! A call is a closure that runs on another core while its caller waits for the answer. Here the closure
//! counts itself, and the answers prove that each ran exactly once.

mod doorbell;
mod word;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use crossbeam_channel::{Receiver, Sender, bounded};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use crate::error::check_count;
use crate::frame::{Contestant, Outcome, Plan, Stage, Work};
use crate::measure::{Clock, Pin, Samples, Tick, current_cpu};
use crate::peers::{Host as _, Tokio, Workers, current_thread, join, thread_on};
use crate::tools::spin;

/// A contestant that parks makes so many times fewer calls than one that spins; so does a reading of the limit.
const PARKED_DIVISOR: u32 = 20;
const LIMIT_DIVISOR: u32 = 5;
/// The fewest calls of a reading: enough for a median, although some calls are not timed.
const LIMIT_CALLS_MIN: u32 = 100;
/// So long the caller waits before a call to a thread that shall sleep.
const FALLS_ASLEEP: Duration = Duration::from_micros(50);
/// One call in so many reports its CPU.
const REPORT_EVERY: u64 = 64;

pub(super) const PLAN: Plan = Plan {
    scenario: "call",
    work: |options| {
        let calls = options.calls();
        let at_most = Duration::from_mins(1) + Duration::from_millis(1) * calls;
        Work::of(calls, (calls / 10).max(1), (calls / 4).max(1)).at_most(at_most)
    },
    contestants: |stage| Ok(contestants(stage)),
    compared: "p50_ns",
    limit: Some(|stage| {
        let calls = (stage.options.calls() / LIMIT_DIVISOR).max(LIMIT_CALLS_MIN);
        word::limit_ns(stage, calls)
    }),
    ..Plan::NEW
};

fn contestants(stage: &Stage) -> Vec<Contestant> {
    let mut all = vec![word::line(stage), crossbeam(stage)];
    all.extend(word::futexes(stage).map(|one| one.with_less(PARKED_DIVISOR)));
    all.push(tokio_one(stage));
    all.push(tokio_two(stage).with_less(PARKED_DIVISOR));
    all.extend(doorbell::contestants(stage));
    all
}

/// The answer of a call: its number, and now and then the CPU on which it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    serial: u64,
    cpu: Option<u32>,
}

fn reports_cpu(serial: u64) -> bool {
    serial.is_multiple_of(REPORT_EVERY)
}

/// How many calls ran, in a line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Tally {
    served: AtomicU64,
}

impl Tally {
    fn leaked() -> &'static Self {
        Box::leak(Box::default())
    }

    /// The work of a call.
    #[inline]
    fn serve(&self) -> Answer {
        // ORDER: relaxed; the contestant orders request and answer, and the number only has to be exact.
        let serial = self.served.fetch_add(1, Ordering::Relaxed) + 1;
        Answer {
            serial,
            cpu: reports_cpu(serial).then(current_cpu),
        }
    }

    fn served(&self) -> u64 {
        // ORDER: relaxed; read after the last answer has arrived, when no call is in progress.
        self.served.load(Ordering::Relaxed)
    }
}

/// Times calls, and checks that each was answered once.
#[derive(Debug)]
struct Meter {
    clock: Clock,
    samples: Samples,
    calls: u32,
    served: u64,
    reported: u32,
    crossed: u32,
    wrong: Option<Error>,
}

impl Meter {
    /// For so many calls, after those that were served before.
    fn begin(clock: Clock, calls: u32, served: u64) -> Self {
        Self {
            clock,
            samples: Samples::with_room_for(calls),
            calls,
            served,
            reported: 0,
            crossed: 0,
            wrong: None,
        }
    }

    #[inline(always)]
    fn start(&self) -> Tick {
        self.clock.now()
    }

    #[inline(always)]
    fn stop(&mut self, start: Tick, answer: Answer) {
        let end = self.clock.now();
        self.served += 1;
        if answer.serial != self.served && self.wrong.is_none() {
            self.wrong = check_answers(self.served, answer.serial).err();
        }
        match answer.cpu {
            None => self.samples.record(self.clock.ns_between(start, end)),
            // A call that reports its CPU is not timed.
            Some(cpu) => {
                self.reported += 1;
                self.crossed += u32::from(cpu != current_cpu());
            }
        }
    }

    /// The figures; an error if not so many were served.
    fn finish(self, served: u64) -> Result<Outcome> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        check_answers(self.served, served)?;
        let step_ns = self.clock.step_ns;
        let times = self.samples.percentiles_ns([50.0, 99.0], step_ns);
        let times = ["p50_ns", "p99_ns"].into_iter().zip(times);
        let times = times.filter_map(|(name, ns)| Some((name, ns?)));
        let crossed = 100.0 * f64::from(self.crossed) / f64::from(self.reported.max(1));
        let crossed = (self.reported > 0).then_some(("crossed_percent", crossed));
        Ok(Outcome::of(self.calls.into(), []).and(times).and(crossed))
    }
}

/// Who calls: the clock that times the calls, and the CPU of the thread that makes them.
#[derive(Debug, Clone, Copy)]
struct Caller {
    clock: Clock,
    cpu: usize,
}

impl Caller {
    fn of(stage: &Stage) -> Self {
        Self {
            clock: stage.clock,
            cpu: stage.placement.caller_cpu,
        }
    }

    /// Makes so many calls, each after `before`, which is not timed. `served` says how many were served so far.
    #[inline(always)]
    fn call(
        self,
        calls: u32,
        served: impl Fn() -> u64,
        before: impl Fn(),
        call: impl Fn() -> Result<Answer>,
    ) -> Result<Outcome> {
        let _here = Pin::to(self.cpu)?;
        let mut meter = Meter::begin(self.clock, calls, served());
        for _ in 0..calls {
            before();
            let start = meter.start();
            let answer = call()?;
            meter.stop(start, answer);
        }
        meter.finish(served())
    }
}

fn check_answers(expected: u64, found: u64) -> Result<()> {
    check_count("answers in a row", expected, found)
}

fn lost(reason: &str) -> Error {
    anyhow!("a call was never answered: {reason}")
}

/// Request and reply over two bounded(1) channels, with pinned threads.
///
/// A receiver of crossbeam-channel spins and yields for a while before it parks. So with prompt answers
/// neither side sleeps.
fn crossbeam(stage: &Stage) -> Contestant {
    type Running = (
        Sender<fn(&Tally) -> Answer>,
        Receiver<Answer>,
        JoinHandle<()>,
    );
    let ([_, there], tally, caller) = (stage.cpus(), Tally::leaked(), Caller::of(stage));
    let start = move || -> Result<Running> {
        let (requests, inject) = bounded::<fn(&Tally) -> Answer>(1);
        let (outbox, replies) = bounded(1);
        let thread = thread_on("crossbeam-callee", Some(there), move || {
            for work in inject {
                if outbox.send(work(tally)).is_err() {
                    break;
                }
            }
        })?;
        Ok((requests, replies, thread))
    };
    let run = move |(requests, replies, _): &mut Running, calls| {
        let call = || {
            let sent = requests.send(Tally::serve).ok();
            let answer = sent.and_then(|()| replies.recv().ok());
            answer.ok_or_else(|| lost("the channel's other end is gone"))
        };
        caller.call(calls, || tally.served(), || (), call)
    };
    let variant = "bounded(1) each way";
    let stop = |(requests, replies, thread): Running| {
        drop((requests, replies));
        join(thread)
    };
    Contestant::new("crossbeam", variant, start, run, stop)
}

/// tokio as it is commonly used: one multi-thread runtime, and a spawned task for each call.
///
/// The workers are not pinned. A spawned task may run on the caller's CPU, and mostly does: the column
/// `crossed %` shows how often it did not.
fn tokio_one(stage: &Stage) -> Contestant {
    let (clock, tally) = (stage.clock, Tally::leaked());
    let run = move |peer: &mut Tokio, calls| {
        let mut meter = Meter::begin(clock, calls, tally.served());
        // The caller is a task too; the main thread only waits for it.
        let caller = peer.0.spawn(async move {
            for _ in 0..calls {
                let start = meter.start();
                let answer = tokio::spawn(async { tally.serve() }).await;
                let answer = answer.map_err(|_| lost("the spawned task did not end"))?;
                meter.stop(start, answer);
            }
            anyhow::Ok(meter)
        });
        let meter = peer.0.block_on(caller);
        let meter = meter.map_err(|_| lost("the calling task panicked"))??;
        meter.finish(tally.served())
    };
    let start = || Tokio::start(&Workers::Free(2));
    Contestant::of("one runtime, spawn", start, run)
}

type Job = Box<dyn FnOnce() + Send>;

/// tokio across CPUs: a current-thread runtime on each of two pinned threads.
///
/// The caller sends a closure to a task of the other runtime and awaits its answer. That is the
/// thread-per-core style with tokio. Between calls both runtimes park.
fn tokio_two(stage: &Stage) -> Contestant {
    type Running = (Runtime, mpsc::UnboundedSender<Job>, JoinHandle<()>);
    let ([here, there], clock, tally) = (stage.cpus(), stage.clock, Tally::leaked());
    let start = move || -> Result<Running> {
        let (jobs, mut inject) = mpsc::unbounded_channel::<Job>();
        let (callee, caller) = (current_thread()?, current_thread()?);
        let thread = thread_on("crossbeam-callee", Some(there), move || {
            callee.block_on(async {
                while let Some(job) = inject.recv().await {
                    job();
                }
            });
        })?;
        Ok((caller, jobs, thread))
    };
    let run = move |(caller, jobs, _): &mut Running, calls| {
        let _here = Pin::to(here)?;
        let mut meter = Meter::begin(clock, calls, tally.served());
        caller.block_on(async {
            for _ in 0..calls {
                spin(FALLS_ASLEEP);
                let start = meter.start();
                let (reply, answer) = oneshot::channel();
                let job = Box::new(move || {
                    // The caller awaits the answer and does not drop the receiver.
                    let _ = reply.send(tally.serve());
                });
                let sent = jobs.send(job);
                sent.map_err(|_| lost("the callee's task is gone"))?;
                let answer = answer.await;
                let answer = answer.map_err(|_| lost("the callee dropped the call"))?;
                meter.stop(start, answer);
            }
            anyhow::Ok(())
        })?;
        meter.finish(tally.served())
    };
    let variant = "two runtimes, mpsc, both parked";
    Contestant::new("tokio", variant, start, run, |(caller, jobs, thread)| {
        drop((caller, jobs));
        join(thread)
    })
}

#[cfg(test)]
mod tests;
