//! The shared word of the contestants without a library between caller and callee.
//!
//! The caller makes call number n by writing 2n - 1, and the callee answers it by writing 2n.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use rustix::io::Errno;
use rustix::thread::futex;

use super::{Answer, Timing, miscounted, reports_cpu};
use crate::error::LabError;
use crate::frame::{Contestant, Outcome, Stage};
use crate::measure::{Pin, current_cpu, spawn_pinned};
use crate::peers::join;

const THREAD: &str = "word-callee";

/// The caller writes it to end the callee. No call has this number.
const STOP: u32 = u32::MAX;

/// A value in cache lines of its own: two, since CPUs fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// What caller and callee share.
#[derive(Debug, Default)]
struct Word {
    word: Apart<AtomicU32>,
    /// The callee's CPU, written before the answers that report it.
    cpu: Apart<AtomicU32>,
}

impl Word {
    /// The word between two calls.
    fn last(&self) -> u32 {
        // ORDER: relaxed; only the caller reads it between calls, when it has acquired the last answer.
        self.word.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn write<const WAKES: bool>(&self, value: u32) -> Result<(), LabError> {
        // ORDER: pairs with the acquire in `other_than`: one side sees what the other did before.
        self.word.0.store(value, Ordering::Release);
        if WAKES {
            let woken = futex::wake(&self.word.0, futex::Flags::PRIVATE, 1);
            woken.map_err(LabError::system("waking a futex"))?;
        }
        Ok(())
    }

    /// Waits for a value other than `seen`.
    #[inline(always)]
    fn other_than<const PARKS: bool>(&self, seen: u32) -> Result<u32, LabError> {
        loop {
            // ORDER: pairs with the release in `write`.
            let found = self.word.0.load(Ordering::Acquire);
            if found != seen {
                return Ok(found);
            }
            if PARKS {
                match futex::wait(&self.word.0, futex::Flags::PRIVATE, seen, None) {
                    Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => return Err(LabError::system("waiting for a futex")(errno)),
                }
            } else {
                hint::spin_loop();
            }
        }
    }

    /// A call.
    #[inline(always)]
    fn call<const CALLER: bool, const CALLEE: bool>(&self) -> Result<Answer, LabError> {
        let asked = self.last() + 1;
        self.write::<CALLEE>(asked)?;
        let serial = u64::from(self.other_than::<CALLER>(asked)? / 2);
        // ORDER: relaxed; made visible by the acquire of the answer.
        let cpu = || self.cpu.0.load(Ordering::Relaxed);
        Ok(Answer {
            serial,
            cpu: reports_cpu(serial).then(cpu),
        })
    }

    /// Answers calls until told to end. How many.
    fn answer<const CALLER: bool, const CALLEE: bool>(&self) -> Result<u64, LabError> {
        let (mut seen, mut served) = (0, 0);
        loop {
            let asked = self.other_than::<CALLEE>(seen)?;
            if asked == STOP {
                return Ok(served);
            }
            seen = asked + 1;
            served += 1;
            if reports_cpu(served) {
                // ORDER: relaxed; made visible by the release of the answer.
                self.cpu.0.store(current_cpu(), Ordering::Relaxed);
            }
            self.write::<CALLER>(seen)?;
        }
    }
}

/// Calls to a thread that answers. The two parameters say which side parks.
fn word<const CALLER: bool, const CALLEE: bool>(
    stage: &Stage,
    name: &str,
    variant: &str,
) -> Contestant {
    type Callee = (Arc<Word>, JoinHandle<Result<u64, LabError>>);
    let ([here, there], timing) = (stage.cpus(), Timing::of(stage, CALLEE));
    let start = move || {
        let word = Arc::new(Word::default());
        let theirs = Arc::clone(&word);
        let answer = move || theirs.answer::<CALLER, CALLEE>();
        Ok((word, spawn_pinned(THREAD, there, answer)?))
    };
    let run = move |(word, _): &mut Callee, calls| {
        let _here = Pin::to(here)?;
        let served = || u64::from(word.last() / 2);
        timing.of_calls(calls, served, || word.call::<CALLER, CALLEE>())
    };
    Contestant::new(name, variant, start, run, |(word, thread): Callee| {
        let expected = u64::from(word.last() / 2);
        word.write::<CALLEE>(STOP)?;
        let found = join(thread, THREAD)??;
        (found == expected)
            .then_some(())
            .ok_or_else(|| miscounted(expected, found))
    })
}

/// The physical limit: one cache line moves between two CPUs, without any software beyond loads and stores.
pub(super) fn line(stage: &Stage) -> Contestant {
    word::<false, false>(stage, "line", "both sides spin: the limit")
}

/// A reading of the limit.
pub(super) fn limit_ns(stage: &Stage, calls: u32) -> Result<f64, LabError> {
    let mut run = line(stage).start()?;
    let warmed = run.run((calls / 10).max(1));
    let ran: Result<Outcome, _> = warmed.and_then(|_| run.run(calls));
    run.stop()?;
    Ok(ran?.figures.get("p50_ns").copied().unwrap_or(0.0))
}

/// The cheapest calls to a sleeping thread: one futex word.
///
/// If the caller also sleeps, each call costs four system calls (two waits, two wakes) and two interrupts;
/// if it spins, half of that. Anything beyond this is a runtime's own cost.
pub(super) fn futex(stage: &Stage) -> [Contestant; 2] {
    [
        word::<false, true>(stage, "futex", "callee parked"),
        word::<true, true>(stage, "futex", "both parked"),
    ]
}
