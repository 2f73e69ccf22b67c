//! The shared word of the two contestants without a library between caller and callee.
//!
//! The caller makes call number n by writing 2n - 1, and the callee answers it by writing 2n.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use crossbeam_utils::CachePadded;
use rustix::io::Errno;
use rustix::thread::futex;

use super::{Answer, FALLS_ASLEEP, Meter, miscounted, reports_cpu};
use crate::error::LabError;
use crate::frame::{Contestant, Outcome, Stage};
use crate::measure::{Pin, current_cpu, spawn_pinned};
use crate::peers::join;
use crate::tools::spin;

const THREAD: &str = "word-callee";

/// The caller writes it to end the callee. No call has this number.
const STOP: u32 = u32::MAX;

/// What caller and callee share.
#[derive(Debug, Default)]
struct Word {
    word: CachePadded<AtomicU32>,
    /// The callee's CPU, written before the answers that report it.
    cpu: CachePadded<AtomicU32>,
}

impl Word {
    /// The word itself, to wait on.
    fn raw(&self) -> &AtomicU32 {
        &self.word
    }

    /// How many calls have been answered.
    fn served(&self) -> u64 {
        // ORDER: relaxed; the caller reads it between calls, when it has acquired the last answer.
        u64::from(self.word.load(Ordering::Relaxed) / 2)
    }

    /// Makes the next call. Returns the value that the word keeps until the answer.
    #[inline(always)]
    fn ask(&self) -> u32 {
        // ORDER: relaxed; between an answer and the next request only the caller writes. The release below
        // pairs with the acquire in `peek`: the callee sees what the caller did before the call.
        let asked = self.word.load(Ordering::Relaxed) + 1;
        self.word.store(asked, Ordering::Release);
        asked
    }

    /// The answer to `asked`, if it has come.
    #[inline(always)]
    fn answer_to(&self, asked: u32) -> Option<Answer> {
        // ORDER: pairs with the release in `reply`: the caller sees the call's effects and its CPU.
        let word = self.word.load(Ordering::Acquire);
        if word == asked {
            return None;
        }
        let serial = u64::from(word / 2);
        // ORDER: relaxed; made visible by the acquire above.
        let cpu = || self.cpu.load(Ordering::Relaxed);
        Some(Answer {
            serial,
            cpu: reports_cpu(serial).then(cpu),
        })
    }

    /// Reads the word: odd for a request.
    #[inline(always)]
    fn peek(&self) -> u32 {
        // ORDER: pairs with the release in `ask` and in `stop`.
        self.word.load(Ordering::Acquire)
    }

    /// Runs the call and answers it.
    #[inline(always)]
    fn reply(&self, asked: u32) {
        let answer = asked + 1;
        if reports_cpu(u64::from(answer / 2)) {
            // ORDER: relaxed; made visible by the release below.
            self.cpu.store(current_cpu(), Ordering::Relaxed);
        }
        // ORDER: pairs with the acquire in `answer_to`.
        self.word.store(answer, Ordering::Release);
    }

    /// Tells the callee to end.
    fn stop(&self) {
        // ORDER: release pairs with the acquire in `peek`, as for every other write of the word.
        self.word.store(STOP, Ordering::Release);
    }
}

/// How one side waits while the word has this value, and how it tells the other one.
type Wait = fn(&Word, u32) -> Result<(), LabError>;
type Tell = fn(&Word) -> Result<(), LabError>;

/// A thread that answers.
#[derive(Debug)]
struct Callee {
    word: Arc<Word>,
    thread: JoinHandle<Result<u64, LabError>>,
    tell: Tell,
}

impl Callee {
    fn start(
        cpu: usize,
        wait: impl Fn(&Word, u32) -> Result<(), LabError> + Send + 'static,
        answered: impl Fn(&Word) -> Result<(), LabError> + Send + 'static,
        tell: Tell,
    ) -> Result<Self, LabError> {
        let word = Arc::new(Word::default());
        let shared = Arc::clone(&word);
        let thread = spawn_pinned(THREAD, cpu, move || {
            let mut served = 0;
            loop {
                match shared.peek() {
                    STOP => return Ok(served),
                    asked if asked % 2 == 1 => {
                        shared.reply(asked);
                        answered(&shared)?;
                        served += 1;
                    }
                    value => wait(&shared, value)?,
                }
            }
        })?;
        Ok(Self { word, thread, tell })
    }

    #[inline(always)]
    fn call(&self, wait: Wait) -> Result<Answer, LabError> {
        let asked = self.word.ask();
        (self.tell)(&self.word)?;
        loop {
            if let Some(answer) = self.word.answer_to(asked) {
                return Ok(answer);
            }
            wait(&self.word, asked)?;
        }
    }

    fn stop(self) -> Result<(), LabError> {
        let expected = self.word.served();
        self.word.stop();
        (self.tell)(&self.word)?;
        let found = join(self.thread, THREAD)??;
        if found == expected {
            Ok(())
        } else {
            Err(miscounted(expected, found))
        }
    }
}

/// The physical limit: one cache line moves between two CPUs, without any software beyond loads and stores.
pub(super) fn line(stage: &Stage) -> Contestant {
    let (stage, there) = (stage.clone(), stage.placement.callee_cpu);
    let start = move || Callee::start(there, spins, nothing, nothing);
    let run = move |callee: &mut Callee, calls| {
        let _here = Pin::to(stage.placement.caller_cpu)?;
        let word = &*callee.word;
        let mut meter = Meter::begin(stage.clock, calls, word.served());
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
        meter.finish(word.served())
    };
    Contestant::new(
        "line",
        "both sides spin: the limit",
        start,
        run,
        Callee::stop,
    )
}

/// A reading of the limit.
pub(super) fn limit_ns(stage: &Stage, calls: u32) -> Result<f64, LabError> {
    let mut run = line(stage).start()?;
    let warmed = run.run((calls / 10).max(1));
    let ran: Result<Outcome, _> = warmed.and_then(|_| run.run(calls));
    run.stop()?;
    Ok(ran?.figures.get("p50_ns").copied().unwrap_or(0.0))
}

/// The cheapest call to a sleeping thread: one futex word.
///
/// If the caller also sleeps, each call costs four system calls (two waits, two wakes) and two interrupts;
/// if it spins, half of that. Anything beyond this is a runtime's own cost.
pub(super) fn futex(stage: &Stage, caller_parks: bool) -> Contestant {
    let ([here, there], clock) = (stage.cpus(), stage.clock);
    let (variant, wait, answered): (_, Wait, Tell) = if caller_parks {
        ("both parked", park, wake)
    } else {
        ("callee parked", spins, nothing)
    };
    let start = move || Callee::start(there, park, answered, wake);
    let run = move |callee: &mut Callee, calls| {
        let _here = Pin::to(here)?;
        let mut meter = Meter::begin(clock, calls, callee.word.served());
        for _ in 0..calls {
            spin(FALLS_ASLEEP);
            let start = meter.start();
            let answer = callee.call(wait)?;
            meter.stop(start, answer);
        }
        meter.finish(callee.word.served())
    };
    Contestant::new("futex", variant, start, run, Callee::stop)
}

#[allow(clippy::unnecessary_wraps, reason = "one form for both callees")]
#[inline(always)]
fn spins(_: &Word, _: u32) -> Result<(), LabError> {
    hint::spin_loop();
    Ok(())
}

#[allow(clippy::unnecessary_wraps, reason = "one form for both callees")]
fn nothing(_: &Word) -> Result<(), LabError> {
    Ok(())
}

fn wake(word: &Word) -> Result<(), LabError> {
    let woken = futex::wake(word.raw(), futex::Flags::PRIVATE, 1);
    woken.map(drop).map_err(LabError::system("waking a futex"))
}

fn park(word: &Word, value: u32) -> Result<(), LabError> {
    match futex::wait(word.raw(), futex::Flags::PRIVATE, value, None) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(errno) => Err(LabError::system("waiting for a futex")(errno)),
    }
}
