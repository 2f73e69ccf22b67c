//! The usher of a lane: a thread below all others of its CPU. When it runs, as a rule nobody else wants the
//! CPU, and so it ends the nap of a lane that puts off its looks. See README.md in this folder.
//!
//! | value | name | set by | means |
//! |---|---|---|---|
//! | 0 | `AWAKE` | the usher, which ends a nap; the lane, which wakes up otherwise | the usher looks again before it sleeps |
//! | 1 | `NAPS` | the lane, before it sleeps | the usher is to wake it |
//! | 2 | `ASLEEP` | the usher, in place of `AWAKE` | the next nap wakes the usher |
//! | 3 | `CLOSED` | the lane, at its end | the usher is to end |

use super::{Lane, LaneShared};
use crate::crew::FrontRef;
use crate::mailbox::Front;
use doorbell_machine::{
    Bug, Line, Machine, Ordering, ParkIn, Policy, Seat, ThreadHandle, ThreadSpec, WaitEnd, Word,
};
use std::cell::Cell;
use std::sync::Arc;

const AWAKE: u32 = 0;
const NAPS: u32 = 1;
const ASLEEP: u32 = 2;
const CLOSED: u32 = 3;

// The table above: four values, no two the same.
const _: () = assert!(1 << AWAKE | 1 << NAPS | 1 << ASLEEP | 1 << CLOSED == 0b1111);

/// No CPU.
const NOWHERE: u32 = u32::MAX;

/// Wakes a lane that puts off its looks as soon as nobody else wants its CPU.
pub(super) struct Usher<M: Machine> {
    word: M::Line<M::U32>,
    /// Where the lane was when the nap began.
    cpu: M::U32,
    seat: M::Seat,
    front: FrontRef<M>,
}

impl<M: Machine> std::fmt::Debug for Usher<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Usher").finish_non_exhaustive()
    }
}

/// How a nap has ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NapEnd {
    /// By its time, or by somebody who had something for the lane.
    Otherwise,
    /// By the usher: nobody else wants the CPU.
    Ushered,
}

/// What a step of the usher came to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It looks again.
    On,
    /// The lane has ended.
    Closed,
}

impl<M: Machine> Usher<M> {
    /// The usher of that lane, which is told of it by [`Lane::with_usher`].
    pub(super) fn new(shared: &LaneShared<M>) -> Arc<Self> {
        Arc::new(Usher {
            word: M::Line::new(|| M::U32::new(AWAKE)),
            cpu: M::U32::new(NOWHERE),
            seat: M::Seat::new(),
            front: shared.front().clone(),
        })
    }

    /// Ushers until the lane has ended; for one thread. With the first nap it goes below all others
    /// ([`Policy::Idle`]), and gives up if the OS does not let it. It binds itself to the CPU that the lane
    /// naps on, each time that it finds itself on another; where the OS does not let it, it stays where it is.
    ///
    /// What it promises: [`Lane::run_ushered`].
    pub(super) fn run(&self) {
        let is_below = Cell::new(false);
        while self.step(&is_below) != Step::Closed {}
    }

    fn step(&self, is_below: &Cell<bool>) -> Step {
        // ORDER: Acquire pairs with the Release of `begin_nap`: where the lane naps is seen. Else a guess that the
        // exchanges confirm.
        match self.word.load(Ordering::Acquire) {
            CLOSED => Step::Closed,
            NAPS if !is_below.get() => {
                is_below.set(true);
                match M::set_policy(Policy::Idle) {
                    Ok(()) => Step::On,
                    Err(_) => Step::Closed,
                }
            }
            NAPS if self.follows() => Step::On,
            NAPS if self.change(NAPS, AWAKE) => {
                self.front.request_pass();
                Step::On
            }
            AWAKE if self.falls_asleep() => self.sleep(),
            ASLEEP => self.sleep(),
            _ => Step::On,
        }
    }

    /// The thread goes to where the lane is. Whether it was elsewhere: whether somebody wants that CPU is for
    /// the OS to say.
    fn follows(&self) -> bool {
        // ORDER: Relaxed; published by the Release of `begin_nap`, which `step` has acquired.
        let cpu = self.cpu.load(Ordering::Relaxed) as usize;
        M::cpu() != cpu && M::bind_thread(&[cpu]).is_ok()
    }

    fn falls_asleep(&self) -> bool {
        if M::breaks(Bug::UsherSleepBlind) {
            // ORDER: none that helps; this is the mutant, which overwrites a nap or the end.
            self.word.store(ASLEEP, Ordering::Relaxed);
            return true;
        }
        self.change(AWAKE, ASLEEP)
    }

    /// The seat tests the word once more: whoever has changed it since then wakes this thread.
    fn sleep(&self) -> Step {
        let _ = self.seat.park(&self.word, ASLEEP, None);
        Step::On
    }

    fn change(&self, from: u32, to: u32) -> bool {
        // ORDER: Relaxed; the word has one order, and nothing is published by it. That the lane sleeps, and in
        // which form, is between its bell and who rings that.
        let changed = self
            .word
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        changed.is_ok()
    }

    /// The lane is about to sleep.
    fn begin_nap(&self) {
        let cpu = u32::try_from(M::cpu()).unwrap_or(NOWHERE);
        // ORDER: Relaxed; the swap publishes it.
        self.cpu.store(cpu, Ordering::Relaxed);
        // ORDER: Release pairs with the Acquire of `step`.
        if self.word.swap(NAPS, Ordering::Release) == ASLEEP {
            self.seat.ring(&self.word);
        }
    }

    /// It is awake.
    fn end_nap(&self) -> NapEnd {
        if self.change(NAPS, AWAKE) {
            NapEnd::Otherwise
        } else {
            NapEnd::Ushered
        }
    }

    fn close(&self) {
        // ORDER: Relaxed as in `change`; an usher that sees it touches nothing any more.
        if self.word.swap(CLOSED, Ordering::Relaxed) == ASLEEP {
            self.seat.ring(&self.word);
        }
    }
}

/// What a lane has of its usher, which ends with it.
#[derive(Debug)]
pub(super) struct Ushered<M: Machine>(Arc<Usher<M>>);

impl<M: Machine> Drop for Ushered<M> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<M: Machine> Lane<M> {
    /// As [`Lane::run`], beside an usher on a thread of its own, which ends the naps of the lane as soon as
    /// nobody else wants its CPU, if it has a spacing ([`Lane::with_spacing`]). The thread has ended when this
    /// returns. If the OS starts none, or does not let it go below all others, naps last their time.
    ///
    /// Contract: *the lane naps, the usher is bound to its CPU, and nobody else wants that ⇒ it wakes the
    /// lane, once a nap; while the lane does not nap it sleeps.* The smallest share is not none: beside others
    /// who want the CPU it runs for about 0.3 per cent of the time, beside a Batch lane that computes, or
    /// threads of another control group, for more, and ends naps then.
    ///
    /// Source: the idle task of an operating system, which runs when nobody else does.
    pub fn run_ushered(self, spec: ThreadSpec) {
        let usher = Usher::new(&self.shared);
        let theirs = Arc::clone(&usher);
        let Ok(thread) = M::spawn(spec, Box::new(move || theirs.run())) else {
            return self.run();
        };
        self.with_usher(usher).run();
        // Else whoever waits for this lane waited for an idle CPU, if there was a flood.
        thread.raise();
        // It does nothing that panics.
        let _ = thread.join();
    }

    /// The same lane, whose naps that one may end. When the lane is gone [`Usher::run`] returns.
    ///
    /// # Panics
    /// If it is the usher of another lane.
    #[must_use]
    pub(super) fn with_usher(mut self, usher: Arc<Usher<M>>) -> Self {
        let (its, mine): (&Front<M>, &Front<M>) = (&usher.front, self.shared.front());
        assert!(std::ptr::eq(its, mine), "the usher is another lane's");
        self.usher = Some(Ushered(usher));
        self
    }

    /// Sleeps on its word with its looks put off: until that time, or until nobody else wants the CPU.
    pub(super) fn nap(&self, until_ns: Option<u64>) -> WaitEnd {
        let Some(Ushered(usher)) = &self.usher else {
            return self.block(ParkIn::Word, until_ns);
        };
        usher.begin_nap();
        let ended = self.block(ParkIn::Word, until_ns);
        if usher.end_nap() == NapEnd::Ushered {
            self.flood.bring_forward(M::now_ns());
        }
        ended
    }
}
