//! Request and reply over two bounded(1) channels, with pinned threads.
//!
//! A receiver of crossbeam-channel spins and yields for a while before it parks. So with prompt answers
//! neither side sleeps.

use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::super::contestant::{Contestant, Observed, Speed, Stage};
use super::meter::{Answer, Meter, Tally};
use crate::error::LabError;
use crate::measure::{Pin, Samples, spawn_pinned};

const THREAD: &str = "crossbeam-callee";

/// A call: a function and its argument. It needs no box, an advantage for the channel.
struct Request {
    work: fn(&Tally) -> Answer,
    on: &'static Tally,
}

#[derive(Debug)]
struct Callee {
    requests: Sender<Request>,
    replies: Receiver<Answer>,
    thread: JoinHandle<()>,
}

/// Two channels between two pinned threads.
#[derive(Debug)]
pub(crate) struct Crossbeam {
    stage: Stage,
    tally: &'static Tally,
    callee: Option<Callee>,
}

impl Crossbeam {
    /// A contestant that is not set up yet.
    pub(crate) fn new(stage: Stage) -> Self {
        Self {
            stage,
            tally: Tally::leaked(),
            callee: None,
        }
    }
}

impl Contestant for Crossbeam {
    fn name(&self) -> &'static str {
        "crossbeam"
    }

    fn variant(&self) -> &'static str {
        "bounded(1) each way"
    }

    fn speed(&self) -> Speed {
        Speed::Fast
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let (requests, inject) = bounded::<Request>(1);
        let (outbox, replies) = bounded(1);
        let thread = spawn_pinned(THREAD, self.stage.placement.callee_cpu, move || {
            for request in inject {
                if outbox.send((request.work)(request.on)).is_err() {
                    break;
                }
            }
        })?;
        self.callee = Some(Callee {
            requests,
            replies,
            thread,
        });
        Ok(())
    }

    fn run(&mut self, calls: u32, samples: &mut Samples) -> Result<Observed, LabError> {
        let Callee {
            requests, replies, ..
        } = self.callee.as_ref().ok_or(LabError::NotSetUp)?;
        let _here = Pin::to(self.stage.placement.caller_cpu)?;
        let mut meter = Meter::begin(self.stage.clock, self.tally.served(), samples);
        for _ in 0..calls {
            let start = meter.start();
            let request = Request {
                work: Tally::serve,
                on: self.tally,
            };
            requests.send(request).map_err(|_| gone())?;
            let answer = replies.recv().map_err(|_| gone())?;
            meter.stop(start, answer);
        }
        meter.finish(self.tally.served(), samples)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        let Some(Callee {
            requests,
            replies,
            thread,
        }) = self.callee.take()
        else {
            return Ok(());
        };
        drop((requests, replies));
        thread
            .join()
            .map_err(|_| LabError::ThreadPanicked { thread: THREAD })
    }
}

fn gone() -> LabError {
    LabError::CallLost {
        reason: "the channel's other end is gone",
    }
}
