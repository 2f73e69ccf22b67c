//! The state word step by step: every transition from every word that can be reached.

use super::super::Phase;
use super::super::state::{By, Completed, Pause, Released, Start, State, Wake};
use super::super::state::{JoinDropped, Joined, WakerLeft};
use super::super::state_delegate::{Delegated, For};
use super::super::state_inheritance::Above;
use doorbell_machine::Host;
use std::collections::BTreeSet;

/// References that the enumeration goes up to; more of them behave alike.
const REFS_MAX: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wake,
    Cancel,
    Delegate,
    DelegateCancel,
    WakeDelegated,
    Start,
    Pause,
    Complete,
    Reclaim,
    LeaveWaker,
    DropJoin,
    Retain,
    Release,
}

const STEPS: [Step; 13] = [
    Step::Wake,
    Step::Cancel,
    Step::Delegate,
    Step::DelegateCancel,
    Step::WakeDelegated,
    Step::Start,
    Step::Pause,
    Step::Complete,
    Step::Reclaim,
    Step::LeaveWaker,
    Step::DropJoin,
    Step::Retain,
    Step::Release,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Wake(Wake),
    Delegate(Delegated),
    Start(Start),
    Pause(Pause),
    Completed(Completed),
    Join(Joined),
    JoinDropped(JoinDropped),
    Released(Released),
    Nothing,
}

fn real(state: &State<Host>, step: Step) -> Found {
    match step {
        Step::Wake => Found::Wake(state.wake()),
        Step::Cancel => Found::Wake(state.cancel()),
        Step::Delegate => Found::Delegate(state.delegate(For::Poll)),
        Step::DelegateCancel => Found::Delegate(state.delegate(For::Cancel)),
        Step::WakeDelegated => Found::Wake(state.wake_delegated()),
        Step::Start => Found::Start(state.start(By::Own)),
        Step::Pause => Found::Pause(state.pause()),
        Step::Complete => Found::Completed(state.complete()),
        Step::Reclaim => Found::Join(state.reclaim_waker()),
        Step::LeaveWaker => Found::Join(match state.leave_waker(Above::default()) {
            WakerLeft::Complete => Joined::Complete,
            WakerLeft::Waits => Joined::CellIsMine,
            WakerLeft::Raised => panic!("nobody is above"),
        }),
        Step::DropJoin => Found::JoinDropped(state.drop_join()),
        Step::Retain => {
            state.retain();
            Found::Nothing
        }
        Step::Release => Found::Released(state.release()),
    }
}

/// The word as the table in `state.rs` lays it out.
#[expect(clippy::struct_excessive_bools, reason = "seven bits are seven bools")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Model {
    scheduled: bool,
    running: bool,
    complete: bool,
    cancelled: bool,
    join: bool,
    join_waker: bool,
    delegated: bool,
    refs: u64,
}

impl Model {
    fn of(word: u64) -> Self {
        let bit = |n: u32| word & (1 << n) != 0;
        assert!(word & (0xFFFF << 6) == 0, "unused bits are set: {word:#x}");
        Model {
            scheduled: bit(0),
            running: bit(1),
            complete: bit(2),
            cancelled: bit(3),
            join: bit(4),
            join_waker: bit(5),
            delegated: bit(22),
            refs: word >> 23,
        }
    }

    /// Who may do what: the worker starts what is queued and ends what runs; the handle leaves a
    /// waker only after it took the cell back.
    fn allows(self, step: Step) -> bool {
        match step {
            _ if self.refs == 0 => false,
            Step::Start => self.scheduled && !self.running && !self.complete,
            Step::Complete => self.running && !self.complete,
            // A run that began as a cancellation has nothing to pause.
            Step::Pause => self.running && !self.complete && (self.scheduled || !self.cancelled),
            Step::Reclaim | Step::DropJoin => self.join,
            Step::LeaveWaker => self.join && (self.complete || !self.join_waker),
            Step::Retain | Step::Delegate | Step::DelegateCancel => self.refs < REFS_MAX,
            Step::WakeDelegated => self.delegated,
            Step::Wake | Step::Cancel | Step::Release => true,
        }
    }

    fn wake(&mut self) -> Found {
        let idle = !self.scheduled && !self.running && !self.complete;
        self.scheduled = true;
        Found::Wake(if idle { Wake::Submit } else { Wake::Nothing })
    }

    fn delegate(&mut self) -> Found {
        let idle = !self.scheduled && !self.running && !self.complete;
        self.scheduled |= !idle;
        let sends = idle && !self.delegated;
        self.delegated |= sends;
        self.refs += u64::from(sends);
        Found::Delegate(if sends {
            Delegated::Send
        } else {
            Delegated::Nothing
        })
    }

    fn pause(&mut self) -> Found {
        if self.scheduled && self.cancelled {
            return Found::Pause(Pause::Cancel);
        }
        self.running = false;
        Found::Pause(if self.scheduled {
            Pause::Woken(Wake::Submit)
        } else {
            Pause::Idle
        })
    }

    fn complete(&mut self) -> Found {
        self.complete = true;
        Found::Completed(match (self.join, self.join_waker) {
            (false, false) => Completed::DropOutput,
            (true, true) => Completed::WakeJoiner,
            (true, false) => Completed::Nothing,
            (false, true) => panic!("a waker without a handle"),
        })
    }

    fn join(&mut self, waker: bool) -> Found {
        if self.complete {
            return Found::Join(Joined::Complete);
        }
        self.join_waker = waker;
        Found::Join(Joined::CellIsMine)
    }

    fn drop_join(&mut self) -> Found {
        self.join = false;
        if self.complete {
            return Found::JoinDropped(JoinDropped::DropOutput);
        }
        self.join_waker = false;
        Found::JoinDropped(JoinDropped::DropWaker)
    }

    fn step(&mut self, step: Step) -> Found {
        match step {
            Step::Wake => self.wake(),
            Step::Cancel => {
                self.cancelled = true;
                self.wake()
            }
            Step::Delegate => self.delegate(),
            Step::DelegateCancel => {
                self.cancelled = true;
                self.delegate()
            }
            Step::WakeDelegated => {
                self.delegated = false;
                self.wake()
            }
            Step::Start => {
                (self.scheduled, self.running) = (false, true);
                Found::Start(if self.cancelled {
                    Start::Cancel
                } else {
                    Start::Poll
                })
            }
            Step::Pause => self.pause(),
            Step::Complete => self.complete(),
            Step::Reclaim => self.join(false),
            Step::LeaveWaker => self.join(true),
            Step::DropJoin => self.drop_join(),
            Step::Retain => {
                self.refs += 1;
                Found::Nothing
            }
            Step::Release => {
                self.refs -= 1;
                Found::Released(if self.refs == 0 {
                    Released::Last
                } else {
                    Released::More
                })
            }
        }
    }

    fn phase(self) -> Phase {
        match self {
            Model { complete: true, .. } => Phase::Complete,
            Model { running: true, .. } => Phase::Running,
            Model {
                scheduled: true, ..
            } => Phase::Queued,
            _ => Phase::Idle,
        }
    }
}

#[test]
fn every_step_from_every_word() {
    let first = State::<Host>::new().word();
    let new = Model::of(first);
    assert!(new.scheduled && new.join && new.refs == 2, "{new:?}");
    let mut seen = BTreeSet::from([first]);
    let mut fresh = vec![first];
    let mut counts = [0_usize; STEPS.len()];
    while let Some(start) = fresh.pop() {
        let model = Model::of(start);
        let here = State::<Host>::at(start);
        assert_eq!(here.phase(), model.phase(), "{model:?}");
        assert_eq!(here.is_complete(), model.complete);
        for (count, step) in counts.iter_mut().zip(STEPS) {
            if !model.allows(step) {
                continue;
            }
            let (state, mut end) = (State::<Host>::at(start), model);
            let expected = end.step(step);
            assert_eq!(real(&state, step), expected, "{step:?} from {model:?}");
            assert_eq!(Model::of(state.word()), end, "{step:?} from {model:?}");
            *count += 1;
            if seen.insert(state.word()) {
                fresh.push(state.word());
            }
        }
    }
    // Idle, queued, running, and woken while running; each also cancelled. Each with
    // no handle, a handle, or a handle that left its waker. Complete: woken or not, cancelled or
    // not, with those three, and with a handle that went and left its waker to the worker.
    let kinds: BTreeSet<u64> = seen.iter().map(|word| word & 0xFF).collect();
    assert_eq!(kinds.len(), 8 * 3 + 4 * 4, "{kinds:x?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_complete_task_is_never_queued_again() {
    let state = State::<Host>::new();
    assert_eq!(state.start(By::Own), Start::Poll);
    assert_eq!(state.complete(), Completed::Nothing);
    for _ in 0..3 {
        assert_eq!(
            (state.wake(), state.cancel()),
            (Wake::Nothing, Wake::Nothing)
        );
        assert_eq!(state.phase(), Phase::Complete);
    }
}

#[test]
fn a_hundred_thousand_references_are_counted() {
    let state = State::<Host>::new();
    for _ in 0..100_000 {
        state.retain();
    }
    for _ in 0..100_001 {
        assert_eq!(state.release(), Released::More);
    }
    assert_eq!(state.release(), Released::Last);
}
