//! The cheapest call between two threads that both sleep: one futex word.
//!
//! Each call is four system calls (two waits, two wakes) and two interrupts. What a runtime adds to
//! this is its own.

use rustix::io::Errno;
use rustix::thread::futex;

use super::super::contestant::{Contestant, Observed, Speed, Stage};
use super::meter::{Answer, Meter};
use super::word::{Callee, Seen, Word};
use crate::error::LabError;
use crate::measure::{Pin, Samples};

const THREAD: &str = "futex-callee";

/// Two pinned threads that park on one word.
#[derive(Debug)]
pub struct Futex {
    stage: Stage,
    callee: Option<Callee>,
}

impl Futex {
    /// Not yet set up.
    pub fn new(stage: Stage) -> Self {
        Self {
            stage,
            callee: None,
        }
    }
}

impl Contestant for Futex {
    fn name(&self) -> &'static str {
        "futex"
    }

    fn variant(&self) -> &'static str {
        "both sides park"
    }

    fn speed(&self) -> Speed {
        Speed::Parked
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
            let answer = call(word)?;
            meter.stop(start, answer);
        }
        meter.finish(word.served(), samples)
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.callee
            .take()
            .map_or(Ok(()), |callee| callee.stop(wake))
    }
}

fn call(word: &Word) -> Result<Answer, LabError> {
    let asked = word.ask();
    wake(word)?;
    loop {
        if let Some(answer) = word.answer_to(asked) {
            return Ok(answer);
        }
        park(word, asked)?;
    }
}

/// The callee: answers until told to stop and returns how many calls it ran.
fn answer(word: &Word) -> Result<u64, LabError> {
    let mut served = 0;
    loop {
        match word.peek() {
            Seen::Call(request) => {
                word.reply(request);
                wake(word)?;
                served += 1;
            }
            Seen::Nothing(value) => park(word, value)?,
            Seen::Stop => return Ok(served),
        }
    }
}

/// Wakes the other side; only one of the two can be waiting.
fn wake(word: &Word) -> Result<(), LabError> {
    futex::wake(word.raw(), futex::Flags::PRIVATE, 1)
        .map(drop)
        .map_err(|errno| LabError::System {
            what: "waking a futex",
            source: errno.into(),
        })
}

/// Sleeps for as long as the word holds `value`; may return earlier.
fn park(word: &Word, value: u32) -> Result<(), LabError> {
    match futex::wait(word.raw(), futex::Flags::PRIVATE, value, None) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(errno) => Err(LabError::System {
            what: "waiting for a futex",
            source: errno.into(),
        }),
    }
}
