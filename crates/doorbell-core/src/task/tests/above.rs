//! A task that is awaited from above, step by step: every order of what its own scheduler, the scheduler above,
//! a waker, the join handle and a home worker that ends do to the word. One step is one transition.

use super::super::state::{
    BEHIND, By, COMPLETE, INHERITS, Left, OwnNode, Pause, RAISED, RUNNING, Released, SCHEDULED,
    Seized, Start, State, Wake,
};
use super::super::state::{Joined, WakerLeft};
use super::super::state_inheritance::Above;
use doorbell_machine::Host;
use std::collections::BTreeSet;

/// Where the own node is, and with it the worker's reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Own {
    /// Somebody is about to queue it.
    Coming,
    Queued,
    /// A worker has taken it and has not looked yet.
    Taken,
    /// With the worker of its own scheduler that polls the task.
    Runs,
    /// With the worker above that polls it.
    RunsAbove,
    /// The task waits for a wake.
    Idle,
    /// It could not be posted.
    Left,
    Dropped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Runner {
    Nobody,
    Own,
    Above,
    /// The home worker, which ends it.
    Home,
}

/// The word, and everything else.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is true or not of its own"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    word: u64,
    own: Own,
    runner: Runner,
    /// Whether the raised node is in a queue.
    raised: bool,
    /// How many workers above have taken it and have not looked yet.
    taken_above: u8,
    /// How many are about to raise it.
    raises: u8,
    /// Whether a worker of the scheduler above has ended, so that no raised node gets there.
    above_ended: bool,
    /// Whether it is in the home worker's list.
    listed: bool,
    ending: bool,
    /// How many cancellations and wakes there may still be.
    wakes: u8,
    awaited: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wake,
    Cancel,
    Await,
    Raise,
    Submit,
    Refuse,
    Take,
    TakeAtEnd,
    Look,
    Pause,
    Complete,
    TakeRaised,
    LookAbove,
    DropRaised,
    PauseAbove,
    CompleteAbove,
    End,
    EndAbove,
    Seize,
    HomeCompletes,
}

const STEPS: [Step; 20] = [
    Step::Wake,
    Step::Cancel,
    Step::Await,
    Step::Raise,
    Step::Submit,
    Step::Refuse,
    Step::Take,
    Step::TakeAtEnd,
    Step::Look,
    Step::Pause,
    Step::Complete,
    Step::TakeRaised,
    Step::LookAbove,
    Step::DropRaised,
    Step::PauseAbove,
    Step::CompleteAbove,
    Step::End,
    Step::EndAbove,
    Step::Seize,
    Step::HomeCompletes,
];

impl World {
    fn allows(&self, step: Step) -> bool {
        let waker = !self.ending && self.own != Own::Dropped;
        match step {
            Step::Wake | Step::Cancel => self.wakes > 0 && waker,
            Step::Await => !self.awaited,
            Step::Raise => self.raises > 0,
            Step::Submit => self.own == Own::Coming,
            Step::Refuse => self.own == Own::Coming && self.ending && self.listed,
            Step::Take => self.own == Own::Queued && !self.ending,
            Step::TakeAtEnd => self.own == Own::Queued && self.ending,
            Step::Look => self.own == Own::Taken,
            Step::Pause | Step::Complete => self.runner == Runner::Own,
            Step::TakeRaised => self.raised && !self.above_ended,
            Step::LookAbove => self.taken_above > 0,
            Step::DropRaised => self.raised && self.above_ended,
            Step::PauseAbove | Step::CompleteAbove => self.runner == Runner::Above,
            // The worker that took it first is the home worker, and ends after that.
            Step::End => {
                let taken = matches!(self.own, Own::Taken | Own::Runs);
                !self.ending && (self.listed || !taken)
            }
            Step::EndAbove => !self.above_ended,
            Step::Seize => self.ending && self.listed,
            Step::HomeCompletes => self.runner == Runner::Home,
        }
    }

    /// What a wake said. The transition was a step; what follows are others.
    fn follow(&mut self, woken: Wake) {
        if matches!(woken, Wake::Submit | Wake::Raise { submit: true }) {
            assert!(
                matches!(self.own, Own::Idle | Own::Runs | Own::RunsAbove),
                "queued twice"
            );
            self.own = Own::Coming;
        }
        self.raises += u8::from(matches!(woken, Wake::Raise { .. }));
    }

    fn drop_own(&mut self, state: &State<Host>) {
        assert_ne!(self.own, Own::Dropped);
        self.own = Own::Dropped;
        assert_eq!(state.release(), Released::More, "the handle is there");
    }

    fn start(&mut self, state: &State<Host>) {
        // A worker that ends enters nothing.
        self.listed |= !self.ending;
        match state.start(By::Own) {
            Start::Poll => {
                assert_eq!(self.runner, Runner::Nobody, "two polls at once");
                (self.runner, self.own) = (Runner::Own, Own::Runs);
            }
            Start::Cancel => {
                assert_eq!(self.runner, Runner::Nobody, "two polls at once");
                (self.runner, self.own) = (Runner::Own, Own::Runs);
                self.complete(state);
            }
            Start::Over => self.drop_own(state),
            Start::Late if self.runner == Runner::Above => self.own = Own::RunsAbove,
            Start::Late => self.own = Own::Idle,
        }
    }

    /// By a worker of its own scheduler.
    fn complete(&mut self, state: &State<Host>) {
        let _ = state.complete();
        self.runner = Runner::Nobody;
        self.drop_own(state);
    }

    fn complete_above(&mut self, state: &State<Host>) {
        let _ = state.complete();
        if state.is_behind() {
            assert!(!matches!(self.own, Own::RunsAbove | Own::Idle));
        } else {
            assert_eq!(self.own, Own::RunsAbove);
            self.drop_own(state);
        }
        self.leave_above(state);
    }

    fn leave_above(&mut self, state: &State<Host>) {
        self.runner = Runner::Nobody;
        assert_eq!(state.release(), Released::More, "the handle is there");
    }

    fn pause(&mut self, state: &State<Host>) {
        self.runner = Runner::Nobody;
        match state.pause() {
            Pause::Cancel => self.complete(state),
            Pause::Idle => self.own = Own::Idle,
            Pause::Woken(woken) => {
                self.follow(woken);
                assert_eq!(self.own, Own::Coming, "woken, and not submitted");
                self.own = Own::Queued;
            }
        }
    }

    fn pause_above(&mut self, state: &State<Host>) {
        match state.pause() {
            Pause::Cancel => return self.complete_above(state),
            Pause::Idle if self.own == Own::RunsAbove => self.own = Own::Idle,
            Pause::Idle => {}
            Pause::Woken(woken) => self.follow(woken),
        }
        assert_ne!(self.own, Own::RunsAbove, "woken, and not submitted");
        self.leave_above(state);
    }

    fn look_above(&mut self, state: &State<Host>) {
        self.taken_above -= 1;
        match state.start(By::Raised) {
            Start::Late => assert_eq!(state.release(), Released::More),
            start => {
                assert_eq!(self.runner, Runner::Nobody, "two polls at once");
                assert_ne!(start, Start::Over, "of the own node");
                self.runner = Runner::Above;
                if start == Start::Cancel {
                    self.complete_above(state);
                }
            }
        }
    }

    fn seize(&mut self, state: &State<Host>) {
        self.listed = false;
        match state.seize() {
            Seized::Mine(own_node) => {
                assert_eq!(self.runner, Runner::Nobody);
                self.runner = Runner::Home;
                // Else it is in a queue, or about to be: `check` counts one reference more.
                let is_free = matches!(self.own, Own::Idle | Own::Left);
                assert_eq!(own_node == OwnNode::Free, is_free);
                if is_free {
                    self.own = Own::Runs;
                }
            }
            Seized::Elsewhere => {
                assert_ne!(self.own, Own::Left);
                assert!(self.runner != Runner::Nobody || self.word & COMPLETE != 0);
            }
            Seized::ElsewhereAndLeft => {
                assert_eq!(self.own, Own::Left);
                self.drop_own(state);
            }
        }
    }

    fn home_completes(&mut self, state: &State<Host>) {
        let _ = state.complete();
        self.runner = Runner::Nobody;
        if self.own == Own::Runs {
            self.drop_own(state);
        } else {
            assert_eq!(state.release(), Released::More);
        }
    }

    fn step(&mut self, step: Step) {
        let state = State::<Host>::at(self.word);
        let state = &state;
        match step {
            Step::Wake => {
                self.wakes -= 1;
                self.follow(state.wake());
            }
            Step::Cancel => {
                self.wakes -= 1;
                self.follow(state.cancel());
            }
            Step::Await => {
                self.awaited = true;
                let _ = state.reclaim_waker();
                if state.leave_waker(Above::nth(0)) == WakerLeft::Raised {
                    self.follow(state.wake());
                    self.raises += 1;
                }
            }
            Step::Raise => {
                self.raises -= 1;
                if let Some(above) = state.raise() {
                    assert!(above == Above::nth(0) && !self.raised, "raised twice");
                    self.raised = true;
                }
            }
            Step::Submit => self.own = Own::Queued,
            Step::Refuse => match state.leave() {
                Left::ToHome => self.own = Own::Left,
                Left::ToCaller => self.drop_own(state),
            },
            Step::TakeAtEnd => {
                let _ = state.cancel();
                self.own = Own::Taken;
            }
            Step::Take => self.own = Own::Taken,
            Step::Look => self.start(state),
            Step::Pause => self.pause(state),
            Step::Complete => self.complete(state),
            Step::TakeRaised => {
                state.take_back();
                (self.raised, self.taken_above) = (false, self.taken_above + 1);
            }
            Step::LookAbove => self.look_above(state),
            Step::DropRaised => {
                self.raised = false;
                state.take_back();
                assert_eq!(state.release(), Released::More);
            }
            Step::PauseAbove => self.pause_above(state),
            Step::CompleteAbove => self.complete_above(state),
            Step::End => self.ending = true,
            Step::EndAbove => self.above_ended = true,
            Step::Seize => self.seize(state),
            Step::HomeCompletes => self.home_completes(state),
        }
        self.word = state.word();
    }

    /// What holds between any two steps.
    fn check(&self) {
        let has = |bit: u64| self.word & bit != 0;
        let with_home = u64::from(self.runner == Runner::Home && self.own != Own::Runs);
        let refs = 1
            + u64::from(self.own != Own::Dropped)
            + u64::from(self.raised)
            + u64::from(self.taken_above)
            + u64::from(self.runner == Runner::Above)
            + with_home;
        assert_eq!(self.word >> 23, refs, "references");
        assert_eq!(has(RAISED), self.raised);
        if has(COMPLETE) {
            return;
        }
        assert_eq!(has(RUNNING), self.runner != Runner::Nobody);
        let comes = matches!(self.own, Own::Coming | Own::Queued | Own::Taken);
        let is_left = self.own == Own::Left;
        if has(SCHEDULED) && !has(RUNNING) {
            assert!(comes || is_left, "woken, and in no queue");
            // Or whoever cancels it at a worker's end has it in hand.
            let raised = self.raised
                || self.taken_above > 0
                || self.raises > 0
                || (self.ending && self.own == Own::Taken);
            assert!(raised || !has(INHERITS) || self.above_ended, "nobody helps");
        }
        if has(BEHIND) && !has(SCHEDULED) {
            assert!(comes || is_left, "its own node is not behind");
        }
        // Its home worker comes to what is left, and to what is idle.
        if is_left || self.own == Own::Idle {
            assert!(self.listed, "no worker would end it");
        }
    }
}

#[test]
fn every_order_of_steps_of_a_task_awaited_from_above() {
    let first = World {
        word: State::<Host>::new().word(),
        own: Own::Queued,
        runner: Runner::Nobody,
        raised: false,
        taken_above: 0,
        raises: 0,
        above_ended: false,
        listed: false,
        ending: false,
        wakes: 3,
        awaited: false,
    };
    let mut seen = BTreeSet::from([first]);
    let mut fresh = vec![first];
    let mut counts = [0_usize; STEPS.len()];
    let mut ends = 0;
    while let Some(world) = fresh.pop() {
        let ok = std::panic::catch_unwind(|| world.check());
        assert!(ok.is_ok(), "{world:#x?}");
        let mut goes_on = false;
        for (count, step) in counts.iter_mut().zip(STEPS) {
            if world.allows(step) {
                let mut next = world;
                next.step(step);
                *count += 1;
                goes_on = true;
                if seen.insert(next) {
                    fresh.push(next);
                }
            }
        }
        if !goes_on {
            // Nothing is left to do: the task has ended, and only the handle has it.
            assert!(
                world.word & COMPLETE != 0 && world.own == Own::Dropped,
                "{world:?}"
            );
            ends += 1;
        }
    }
    assert!(
        ends > 0 && counts.iter().all(|count| *count > 0),
        "{counts:?}"
    );
    assert!(seen.len() > 1_000, "{} worlds", seen.len());
}

#[test]
fn a_task_inherits_for_as_long_as_any_of_its_locks() {
    let state = State::<Host>::new();
    let [near, far] = [0, 1].map(Above::nth);
    assert_eq!(state.raise(), None);
    assert!(state.inherit_by_lock(near, true));
    assert!(state.inherit_by_lock(far, true));
    assert!(!state.inherit_by_lock(near, false));
    assert_eq!(state.raise(), Some(far));
    state.take_back();
    state.disinherit_by_lock();
    assert_eq!(state.raise(), Some(far));
    state.take_back();
    // One that is awaited as well stays so.
    assert_eq!(state.leave_waker(near), WakerLeft::Waits);
    state.disinherit_by_lock();
    assert_eq!(state.raise(), Some(near));
    state.take_back();
    assert_eq!(state.reclaim_waker(), Joined::CellIsMine);
    assert_eq!(state.leave_waker(Above::default()), WakerLeft::Waits);
    assert_eq!(state.raise(), None);
}

#[test]
fn a_task_of_too_many_locks_goes_on_to_inherit() {
    let state = State::<Host>::new();
    for _ in 0..300 {
        let _ = state.inherit_by_lock(Above::nth(0), true);
    }
    for _ in 0..300 {
        state.disinherit_by_lock();
    }
    assert_eq!(state.raise(), Some(Above::nth(0)));
}
