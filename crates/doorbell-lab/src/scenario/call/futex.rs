//! The cheapest call to a sleeping thread: one futex word.
//!
//! If the caller also sleeps, each call costs four system calls (two waits, two wakes) and two interrupts;
//! if it spins, half of that. Anything beyond this is a runtime's own cost.

use rustix::io::Errno;
use rustix::thread::futex;

use super::super::contestant::{Contestant, Observed, Speed, Stage};
use super::meter::{Answer, Meter, fall_asleep};
use super::word::{Callee, Seen, Word};
use crate::error::LabError;
use crate::measure::{Pin, Samples};

const THREAD: &str = "futex-callee";

/// How the caller waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// It sleeps: a call wakes the callee, and the answer wakes the caller.
    Parks,
    /// It spins: a call wakes the callee.
    Spins,
}

/// Two pinned threads, and one word on which they park.
#[derive(Debug)]
pub(crate) struct Futex {
    stage: Stage,
    caller: Caller,
    callee: Option<Callee>,
}

impl Futex {
    /// A contestant that is not set up yet.
    pub(crate) fn new(stage: Stage, caller: Caller) -> Self {
        Self {
            stage,
            caller,
            callee: None,
        }
    }
}

impl Contestant for Futex {
    fn name(&self) -> &'static str {
        "futex"
    }

    fn variant(&self) -> &'static str {
        match self.caller {
            Caller::Parks => "both parked",
            Caller::Spins => "callee parked",
        }
    }

    fn speed(&self) -> Speed {
        Speed::Parked
    }

    fn setup(&mut self) -> Result<(), LabError> {
        let cpu = self.stage.placement.callee_cpu;
        let answers: fn(&Word) -> Result<u64, LabError> = match self.caller {
            Caller::Parks => |word| answer(word, wake),
            Caller::Spins => |word| answer(word, |_| Ok(())),
        };
        self.callee = Some(Callee::start(THREAD, cpu, answers)?);
        Ok(())
    }

    fn run(&mut self, calls: u32, samples: &mut Samples) -> Result<Observed, LabError> {
        let word = self.callee.as_ref().ok_or(LabError::NotSetUp)?.word();
        let _here = Pin::to(self.stage.placement.caller_cpu)?;
        let mut meter = Meter::begin(self.stage.clock, word.served(), samples);
        for _ in 0..calls {
            fall_asleep();
            let start = meter.start();
            let answer = call(word, self.caller)?;
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

fn call(word: &Word, caller: Caller) -> Result<Answer, LabError> {
    let asked = word.ask();
    wake(word)?;
    loop {
        if let Some(answer) = word.answer_to(asked) {
            return Ok(answer);
        }
        match caller {
            Caller::Parks => park(word, asked)?,
            Caller::Spins => std::hint::spin_loop(),
        }
    }
}

/// The callee: answers until told to stop, and returns how many calls it ran. `tell` reports each answer to
/// the caller.
fn answer(word: &Word, tell: impl Fn(&Word) -> Result<(), LabError>) -> Result<u64, LabError> {
    let mut served = 0;
    loop {
        match word.peek() {
            Seen::Call(request) => {
                word.reply(request);
                tell(word)?;
                served += 1;
            }
            Seen::Nothing(value) => park(word, value)?,
            Seen::Stop => return Ok(served),
        }
    }
}

/// Wakes the other side. At most one side waits.
fn wake(word: &Word) -> Result<(), LabError> {
    futex::wake(word.raw(), futex::Flags::PRIVATE, 1)
        .map(drop)
        .map_err(|errno| LabError::System {
            what: "waking a futex",
            source: errno.into(),
        })
}

/// Sleeps while the word holds `value`; may return earlier.
fn park(word: &Word, value: u32) -> Result<(), LabError> {
    match futex::wait(word.raw(), futex::Flags::PRIVATE, value, None) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(errno) => Err(LabError::System {
            what: "waiting for a futex",
            source: errno.into(),
        }),
    }
}
