//! The shared word of the two contestants without a library between caller and callee.
//!
//! The caller makes call number n by writing 2n - 1, and the callee answers it by writing 2n.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use super::meter::{Answer, reports_cpu};
use crate::error::LabError;
use crate::measure::{current_cpu, spawn_pinned};

/// The caller writes it to end the callee. No call has this number.
const STOP: u32 = u32::MAX;

/// A value in cache lines of its own: two, since CPUs fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// What caller and callee share.
#[derive(Debug, Default)]
pub(super) struct Word {
    word: Apart<AtomicU32>,
    /// The callee's CPU, written before the answers that report it.
    cpu: Apart<AtomicU32>,
}

/// A call, as the callee sees it.
pub(super) struct Request(u32);

impl Word {
    /// The word itself, to wait on.
    pub(super) fn raw(&self) -> &AtomicU32 {
        &self.word.0
    }

    /// How many calls have been answered.
    pub(super) fn served(&self) -> u64 {
        // ORDER: relaxed; the caller reads it between calls, when it has acquired the last answer.
        u64::from(self.word.0.load(Ordering::Relaxed) / 2)
    }

    /// Makes the next call. Returns the value that the word keeps until the answer.
    #[inline(always)]
    pub(super) fn ask(&self) -> u32 {
        // ORDER: relaxed; between an answer and the next request only the caller writes. The release below
        // pairs with the acquire in `peek`: the callee sees what the caller did before the call.
        let asked = self.word.0.load(Ordering::Relaxed) + 1;
        self.word.0.store(asked, Ordering::Release);
        asked
    }

    /// The answer to `asked`, if it has come.
    #[inline(always)]
    pub(super) fn answer_to(&self, asked: u32) -> Option<Answer> {
        // ORDER: pairs with the release in `reply`: the caller sees the call's effects and its CPU.
        let word = self.word.0.load(Ordering::Acquire);
        if word == asked {
            return None;
        }
        let serial = u64::from(word / 2);
        // ORDER: relaxed; made visible by the acquire above.
        let cpu = || self.cpu.0.load(Ordering::Relaxed);
        Some(Answer {
            serial,
            cpu: reports_cpu(serial).then(cpu),
        })
    }

    /// Reads the word: its value, or the request that it holds.
    #[inline(always)]
    pub(super) fn peek(&self) -> Seen {
        // ORDER: pairs with the release in `ask` and in `stop`.
        match self.word.0.load(Ordering::Acquire) {
            STOP => Seen::Stop,
            word if word % 2 == 1 => Seen::Call(Request(word)),
            word => Seen::Nothing(word),
        }
    }

    /// Runs the call and answers it.
    #[inline(always)]
    pub(super) fn reply(&self, Request(asked): Request) {
        let answer = asked + 1;
        if reports_cpu(u64::from(answer / 2)) {
            // ORDER: relaxed; made visible by the release below.
            self.cpu.0.store(current_cpu(), Ordering::Relaxed);
        }
        // ORDER: pairs with the acquire in `answer_to`.
        self.word.0.store(answer, Ordering::Release);
    }

    /// Tells the callee to end.
    pub(super) fn stop(&self) {
        // ORDER: release pairs with the acquire in `peek`, as for every other write of the word.
        self.word.0.store(STOP, Ordering::Release);
    }
}

/// What the callee reads from the word.
pub(super) enum Seen {
    /// No call; the value, to wait on.
    Nothing(u32),
    /// A call.
    Call(Request),
    /// The request to end.
    Stop,
}

/// The callee's thread, bound to a CPU. Its result is how many calls it ran.
#[derive(Debug)]
pub(super) struct Callee {
    name: &'static str,
    word: Arc<Word>,
    thread: JoinHandle<Result<u64, LabError>>,
}

impl Callee {
    /// Starts a thread that answers the calls of a new word until it is told to stop.
    pub(super) fn start(
        name: &'static str,
        cpu: usize,
        answer: fn(&Word) -> Result<u64, LabError>,
    ) -> Result<Self, LabError> {
        let word = Arc::new(Word::default());
        let shared = Arc::clone(&word);
        let thread = spawn_pinned(name, cpu, move || answer(&shared))?;
        Ok(Self { name, word, thread })
    }

    pub(super) fn word(&self) -> &Word {
        &self.word
    }

    /// Ends the thread, which `wake` wakes, and checks that it ran every call.
    pub(super) fn stop(
        self,
        wake: impl FnOnce(&Word) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let expected = self.word.served();
        self.word.stop();
        wake(&self.word)?;
        let joined = self.thread.join();
        let found = joined.map_err(|_| LabError::ThreadPanicked { thread: self.name })??;
        if found == expected {
            Ok(())
        } else {
            Err(LabError::CallMiscounted { expected, found })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_asked_seen_and_answered() {
        let word = Word::default();
        assert!(matches!(word.peek(), Seen::Nothing(0)));
        let asked = word.ask();
        assert_eq!(word.answer_to(asked), None);
        let Seen::Call(request) = word.peek() else {
            panic!("a call was made")
        };
        word.reply(request);
        assert_eq!(
            word.answer_to(asked),
            Some(Answer {
                serial: 1,
                cpu: None
            })
        );
        assert_eq!(word.served(), 1);
        word.stop();
        assert!(matches!(word.peek(), Seen::Stop));
    }

    #[test]
    fn some_answers_report_their_cpu() {
        let word = Word::default();
        let reported = (0..128)
            .filter(|_| {
                let asked = word.ask();
                let Seen::Call(request) = word.peek() else {
                    panic!("a call was made")
                };
                word.reply(request);
                word.answer_to(asked)
                    .is_some_and(|answer| answer.cpu.is_some())
            })
            .count();
        assert_eq!(reported, 2);
    }
}
