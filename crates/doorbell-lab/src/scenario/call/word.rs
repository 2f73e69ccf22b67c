//! The shared word of the two contestants without a library between caller and callee.
//!
//! The caller makes call number n by writing 2n - 1, and the callee answers it by writing 2n.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use crossbeam_utils::CachePadded;
use rustix::io::Errno;
use rustix::thread::futex;

use super::{Answer, Caller, FALLS_ASLEEP, check_answers, reports_cpu};
use crate::frame::{Contestant, Outcome, Stage};
use crate::measure::current_cpu;
use crate::peers::{join, thread_on};
use crate::tools::spin;

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
    /// How many calls have been answered.
    fn served(&self) -> u64 {
        // ORDER: relaxed; the caller reads it between calls, when it has acquired the last answer.
        u64::from(self.word.load(Ordering::Relaxed) / 2)
    }
}

/// What a side does while the other one is at work.
trait Side: 'static {
    /// How long the other side leaves it alone before a call.
    const LEFT_ALONE: Duration;

    /// Waits while the word has this value. It may return sooner.
    fn wait(word: &AtomicU32, value: u32) -> Result<()>;

    /// What the other side does to end the wait, once the word has changed.
    fn tell(word: &AtomicU32) -> Result<()>;
}

/// Looks at the word all the time.
enum Spins {}

impl Side for Spins {
    const LEFT_ALONE: Duration = Duration::ZERO;

    #[inline(always)]
    fn wait(_: &AtomicU32, _: u32) -> Result<()> {
        hint::spin_loop();
        Ok(())
    }

    #[inline(always)]
    fn tell(_: &AtomicU32) -> Result<()> {
        Ok(())
    }
}

/// Sleeps on the word, as a futex.
enum Sleeps {}

impl Side for Sleeps {
    const LEFT_ALONE: Duration = FALLS_ASLEEP;

    fn wait(word: &AtomicU32, value: u32) -> Result<()> {
        match futex::wait(word, futex::Flags::PRIVATE, value, None) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(errno).context("waiting for a futex"),
        }
    }

    fn tell(word: &AtomicU32) -> Result<()> {
        let woken = futex::wake(word, futex::Flags::PRIVATE, 1);
        woken.map(drop).context("waking a futex")
    }
}

/// A thread that answers.
#[derive(Debug)]
struct Callee {
    word: Arc<Word>,
    thread: JoinHandle<Result<u64>>,
}

impl Callee {
    fn start<Here: Side, There: Side>(cpu: usize) -> Result<Self> {
        let word = Arc::new(Word::default());
        let shared = Arc::clone(&word);
        let thread = thread_on("word-callee", Some(cpu), move || {
            let (word, mut served) = (&shared.word, 0);
            loop {
                // ORDER: pairs with the release in `call` and in `stop`.
                let asked = word.load(Ordering::Acquire);
                if asked == STOP {
                    return Ok(served);
                }
                if asked.is_multiple_of(2) {
                    There::wait(word, asked)?;
                    continue;
                }
                served += 1;
                if reports_cpu(served) {
                    // ORDER: relaxed; made visible by the release below.
                    shared.cpu.store(current_cpu(), Ordering::Relaxed);
                }
                // ORDER: pairs with the acquire in `call`.
                word.store(asked + 1, Ordering::Release);
                Here::tell(word)?;
            }
        })?;
        Ok(Self { word, thread })
    }

    #[inline(always)]
    fn call<Here: Side, There: Side>(&self) -> Result<Answer> {
        let Word { word, cpu } = &*self.word;
        // ORDER: relaxed; between an answer and the next request only the caller writes. The release below pairs with the
        // acquire of the callee, which sees what the caller did before the call.
        let asked = word.load(Ordering::Relaxed) + 1;
        word.store(asked, Ordering::Release);
        There::tell(word)?;
        loop {
            // ORDER: pairs with the release of the callee: the caller sees the call's effects and its CPU.
            let found = word.load(Ordering::Acquire);
            if found != asked {
                let serial = u64::from(found / 2);
                // ORDER: relaxed; made visible by the acquire above.
                let cpu = || cpu.load(Ordering::Relaxed);
                let cpu = reports_cpu(serial).then(cpu);
                return Ok(Answer { serial, cpu });
            }
            Here::wait(word, asked)?;
        }
    }

    fn stop<There: Side>(self) -> Result<()> {
        let expected = self.word.served();
        // ORDER: release pairs with the acquire of the callee, as for every other write of the word.
        self.word.word.store(STOP, Ordering::Release);
        There::tell(&self.word.word)?;
        check_answers(expected, join(self.thread)??)
    }
}

/// Calls between two such sides.
fn between<Here: Side, There: Side>(stage: &Stage, name: &str, variant: &str) -> Contestant {
    let (caller, there) = (Caller::of(stage), stage.placement.callee_cpu);
    let start = move || Callee::start::<Here, There>(there);
    let run = move |callee: &mut Callee, calls| {
        let call = || callee.call::<Here, There>();
        caller.call(
            calls,
            || callee.word.served(),
            || spin(There::LEFT_ALONE),
            call,
        )
    };
    Contestant::new(name, variant, start, run, Callee::stop::<There>)
}

/// The physical limit: one cache line moves between two CPUs, without any software beyond loads and stores.
pub(super) fn line(stage: &Stage) -> Contestant {
    between::<Spins, Spins>(stage, "line", "both sides spin: the limit")
}

/// The cheapest call to a sleeping thread: one futex word.
///
/// If the caller also sleeps, each call costs four system calls (two waits, two wakes) and two interrupts;
/// if it spins, half of that. Anything beyond this is a runtime's own cost.
pub(super) fn futexes(stage: &Stage) -> [Contestant; 2] {
    [
        between::<Spins, Sleeps>(stage, "futex", "callee parked"),
        between::<Sleeps, Sleeps>(stage, "futex", "both parked"),
    ]
}

/// A reading of the limit.
pub(super) fn limit_ns(stage: &Stage, calls: u32) -> Result<f64> {
    let mut run = line(stage).start()?;
    let warmed = run.run((calls / 10).max(1));
    let ran: Result<Outcome, _> = warmed.and_then(|_| run.run(calls));
    run.stop()?;
    Ok(ran?.figures.get("p50_ns").copied().unwrap_or(0.0))
}
