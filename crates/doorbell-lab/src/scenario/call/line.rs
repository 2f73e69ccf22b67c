//! The physical limit: one cache line moves between two CPUs, without any software beyond loads and stores.

use std::hint;

use super::super::contestant::{Contestant, Observed, Speed, Stage};
use super::meter::Meter;
use super::word::{Callee, Seen, Word};
use crate::error::LabError;
use crate::measure::{Pin, Samples};

const THREAD: &str = "line-callee";

/// Two pinned threads that spin on one word.
#[derive(Debug)]
pub(crate) struct Line {
    stage: Stage,
    callee: Option<Callee>,
}

impl Line {
    /// A contestant that is not set up yet.
    pub(crate) fn new(stage: Stage) -> Self {
        Self {
            stage,
            callee: None,
        }
    }

    /// The current limit: the median round trip of `calls` calls, in nanoseconds.
    ///
    /// # Errors
    /// As for [`Contestant`]'s methods.
    pub(crate) fn probe_ns(stage: Stage, calls: u32) -> Result<f64, LabError> {
        let mut line = Self::new(stage);
        let mut samples = Samples::with_room_for(calls);
        line.setup()?;
        let warmed = line.run((calls / 10).max(1), &mut Samples::default());
        let ran = warmed.and_then(|_| line.run(calls, &mut samples));
        line.teardown()?;
        ran?;
        let [p50_ns] = samples.percentiles_ns([50.0], stage.clock.step_ns());
        Ok(p50_ns.unwrap_or(0.0))
    }
}

impl Contestant for Line {
    fn name(&self) -> &'static str {
        "line"
    }

    fn variant(&self) -> &'static str {
        "both sides spin: the limit"
    }

    fn speed(&self) -> Speed {
        Speed::Fast
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let cpu = self.stage.placement.callee_cpu;
        self.callee = Some(Callee::start(THREAD, cpu, answer)?);
        Ok(())
    }

    fn run(&mut self, calls: u32, samples: &mut Samples) -> Result<Observed, LabError> {
        let word = self.callee.as_ref().ok_or(LabError::NotSetUp)?.word();
        let _here = Pin::to(self.stage.placement.caller_cpu)?;
        let mut meter = Meter::begin(self.stage.clock, word.served(), samples);
        for _ in 0..calls {
            let start = meter.start();
            let asked = word.ask();
            let answer = loop {
                if let Some(answer) = word.answer_to(asked) {
                    break answer;
                }
                hint::spin_loop();
            };
            meter.stop(start, answer);
        }
        meter.finish(word.served(), samples)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        // The callee spins, so it needs no wake.
        let stopped = self.callee.take().map(|callee| callee.stop(|_| Ok(())));
        stopped.unwrap_or(Ok(()))
    }
}

/// The callee: answers until told to stop, and returns how many calls it ran.
#[allow(clippy::unnecessary_wraps, reason = "one form for both callees")]
fn answer(word: &Word) -> Result<u64, LabError> {
    let mut served = 0;
    loop {
        match word.peek() {
            Seen::Call(request) => {
                word.reply(request);
                served += 1;
            }
            Seen::Nothing(_) => hint::spin_loop(),
            Seen::Stop => return Ok(served),
        }
    }
}
