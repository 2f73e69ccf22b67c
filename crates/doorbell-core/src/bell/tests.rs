//! The bell step by step: every transition from every word that can be reached.

// Tests on real threads, outside of any model.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{
    Announced, Bell, Kick, LOW, Look, NOTIFY, Notified, PARKED, RESCHED, SPINNING, Signals, TWICE,
    WorkerState,
};
use crate::class::Standing;
use doorbell_machine::host::HostParker;
use doorbell_machine::{Host, Ordering, ParkEnd, Word};
use std::collections::BTreeSet;

fn bell(word: u32) -> Bell<Host> {
    Bell {
        word: Word::new(word),
    }
}

fn word(bell: &Bell<Host>) -> u32 {
    bell.word.load(Ordering::Relaxed)
}

/// All that can be done to a bell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Take,
    Pass,
    TakeFromBelow,
    PassFromBelow,
    Help,
    HelpFromBelow,
    AnnounceSpin,
    AnnouncePark,
    Acknowledge,
    EndIdle,
}

const STEPS: [Step; 10] = [
    Step::Take,
    Step::Pass,
    Step::TakeFromBelow,
    Step::PassFromBelow,
    Step::Help,
    Step::HelpFromBelow,
    Step::AnnounceSpin,
    Step::AnnouncePark,
    Step::Acknowledge,
    Step::EndIdle,
];

/// What a step returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Notified(Notified),
    Announced(Announced),
    Signals(Signals),
}

fn real(bell: &Bell<Host>, step: Step) -> Found {
    match step {
        Step::Take => Found::Notified(bell.notify(Kick::Take, Standing::Level)),
        Step::Pass => Found::Notified(bell.notify(Kick::Pass, Standing::Level)),
        Step::TakeFromBelow => Found::Notified(bell.notify(Kick::Take, Standing::Below)),
        Step::PassFromBelow => Found::Notified(bell.notify(Kick::Pass, Standing::Below)),
        Step::Help => Found::Notified(bell.help(Standing::Level)),
        Step::HelpFromBelow => Found::Notified(bell.help(Standing::Below)),
        Step::AnnounceSpin => Found::Announced(bell.announce_spin()),
        Step::AnnouncePark => Found::Announced(bell.announce_park()),
        Step::Acknowledge => Found::Signals(bell.acknowledge()),
        Step::EndIdle => Found::Signals(bell.end_idle()),
    }
}

/// The protocol again, in other words: what the worker does, and the two signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Model {
    worker: WorkerState,
    notified: bool,
    pass: bool,
    /// How many of a lower class are to ring it, unless one rings that is not.
    low: u32,
}

impl Model {
    fn of(word: u32) -> Self {
        let worker = match word & (SPINNING | PARKED) {
            0 => WorkerState::Running,
            SPINNING => WorkerState::Spinning,
            PARKED => WorkerState::Parked,
            _ => panic!("spinning and parked at once: {word:#b}"),
        };
        Model {
            worker,
            notified: word & NOTIFY != 0,
            pass: word & RESCHED != 0,
            low: match word & (LOW | TWICE) {
                0 => 0,
                LOW => 1,
                both if both == LOW | TWICE => 2,
                _ => panic!("a second one without a first: {word:#b}"),
            },
        }
    }

    /// A worker announces only what follows from what it does.
    fn allows(self, step: Step) -> bool {
        match step {
            Step::AnnounceSpin => self.worker == WorkerState::Running,
            Step::AnnouncePark => self.worker == WorkerState::Spinning,
            // A parked worker ends that first.
            Step::Acknowledge => self.worker != WorkerState::Parked,
            _ => true,
        }
    }

    fn notify(&mut self, pass: bool, below: bool) -> Found {
        let first = !self.notified;
        self.notified = true;
        self.pass |= pass;
        if !first {
            return self.help(below);
        }
        self.low = u32::from(below && self.worker == WorkerState::Parked);
        Found::Notified(match self.worker {
            WorkerState::Running => Notified::Running,
            WorkerState::Spinning => Notified::Spinning,
            WorkerState::Parked => Notified::MustRing,
        })
    }

    fn help(&mut self, below: bool) -> Found {
        let (low, helps) = match (self.low, below) {
            (0, _) => (0, false),
            (_, false) => (0, true),
            (before, true) => (2, before == 1),
        };
        self.low = low;
        Found::Notified(if helps {
            Notified::MustHelp
        } else {
            Notified::Already
        })
    }

    fn announce(&mut self, to: WorkerState) -> Found {
        if self.notified || self.pass {
            return Found::Announced(Announced::Signalled);
        }
        self.worker = to;
        Found::Announced(Announced::Yes)
    }

    fn clear(&mut self) -> Found {
        let signals = Signals {
            notified: std::mem::take(&mut self.notified),
            pass: std::mem::take(&mut self.pass),
        };
        Found::Signals(signals)
    }

    fn step(&mut self, step: Step) -> Found {
        match step {
            Step::Take => self.notify(false, false),
            Step::Pass => self.notify(true, false),
            Step::TakeFromBelow => self.notify(false, true),
            Step::PassFromBelow => self.notify(true, true),
            Step::Help => self.help(false),
            Step::HelpFromBelow => self.help(true),
            Step::AnnounceSpin => self.announce(WorkerState::Spinning),
            Step::AnnouncePark => self.announce(WorkerState::Parked),
            Step::Acknowledge => self.clear(),
            Step::EndIdle => {
                self.worker = WorkerState::Running;
                self.low = 0;
                self.clear()
            }
        }
    }

    fn look(self) -> Look {
        match self.worker {
            _ if self.low > 0 => Look::NotifiedFromBelow,
            _ if self.notified => Look::Notified,
            WorkerState::Running => Look::Running,
            WorkerState::Spinning => Look::Spinning,
            WorkerState::Parked => Look::Parked,
        }
    }
}

#[test]
fn w6_every_step_from_every_word() {
    let mut seen = BTreeSet::from([0]);
    let mut fresh = vec![0];
    let mut steps = 0;
    while let Some(start) = fresh.pop() {
        let model = Model::of(start);
        let here = bell(start);
        assert_eq!(here.look(), model.look());
        assert_eq!(here.state(), model.worker);
        assert_eq!(here.signalled(), model.notified || model.pass);
        assert_eq!(here.wants_pass(), model.pass);
        assert_eq!(word(&here), start, "looking changed the word");
        for step in STEPS.into_iter().filter(|step| model.allows(*step)) {
            let (here, mut model) = (bell(start), model);
            let expected = model.step(step);
            assert_eq!(real(&here, step), expected, "{step:?} from {start:#b}");
            let end = word(&here);
            assert_eq!(Model::of(end), model, "{step:?} from {start:#b}");
            steps += 1;
            if seen.insert(end) {
                fresh.push(end);
            }
        }
    }
    // Three states of the worker, each without a signal, notified, or notified with a pass; and the last
    // two of a parked one from below, by one or by two.
    assert_eq!(seen.len(), 9 + 4, "{seen:?}");
    // Seven steps are always allowed, one but to a parked worker, and two have one state.
    assert_eq!(steps, 13 * 7 + 6 + 3 + 3);
}

#[test]
fn a_pass_alone_does_not_occur() {
    // RESCHED comes with NOTIFY and goes with it, so one test of NOTIFY tells of both.
    for start in [0, SPINNING, PARKED] {
        let bell = bell(start);
        let _ = bell.notify(Kick::Pass, Standing::Level);
        assert_eq!(word(&bell), start | NOTIFY | RESCHED);
    }
}

#[test]
fn one_park_has_one_ringer() {
    let bell = bell(PARKED);
    let found: Vec<_> = (0..5)
        .map(|_| bell.notify(Kick::Take, Standing::Level))
        .collect();
    assert_eq!(found[0], Notified::MustRing);
    assert_eq!(found[1..], [Notified::Already; 4]);
}

#[test]
fn in_place_of_one_below_two_ring_at_most() {
    for kick in [Kick::Take, Kick::Pass] {
        let bell = bell(PARKED);
        let from = |from: [Standing; 3]| from.map(|from| bell.notify(kick, from));
        let (below, level) = (Standing::Below, Standing::Level);
        assert_eq!(
            from([below; 3]),
            [Notified::MustRing, Notified::MustHelp, Notified::Already]
        );
        assert_eq!(
            from([level, level, below]),
            [Notified::MustHelp, Notified::Already, Notified::Already]
        );
        assert_eq!(bell.help(level), Notified::Already);
    }
}

#[test]
fn signals_are_joined() {
    let bits = [(false, false), (true, false), (true, true)];
    for (a, b) in bits.into_iter().flat_map(|a| bits.map(|b| (a, b))) {
        let of = |(notified, pass)| Signals { notified, pass };
        let both = of((a.0 || b.0, a.1 || b.1));
        assert_eq!(of(a).and(of(b)), both);
        assert_eq!(of(b).and(of(a)), both);
    }
}

#[test]
fn miri_a_park_that_was_told_does_not_block() {
    for kick in [Kick::Take, Kick::Pass] {
        let bell = bell(0);
        assert_eq!(bell.announce_spin(), Announced::Yes);
        assert_eq!(bell.announce_park(), Announced::Yes);
        assert_eq!(bell.notify(kick, Standing::Level), Notified::MustRing);
        // W4: the ring before the sleep is not needed, the word tells it.
        bell.ring(&HostParker::new());
        assert_eq!(bell.park(&HostParker::new(), None), ParkEnd::Changed);
        let pass = kick == Kick::Pass;
        let expected = Signals {
            notified: true,
            pass,
        };
        assert_eq!(bell.end_idle(), expected);
        assert_eq!(bell.end_idle(), Signals::default());
    }
}

#[test]
fn a_park_ends_at_its_deadline_and_stays_announced() {
    let bell = bell(PARKED);
    assert_eq!(bell.park(&HostParker::new(), Some(1)), ParkEnd::Deadline);
    assert_eq!(bell.state(), WorkerState::Parked);
    assert_eq!(bell.notify(Kick::Take, Standing::Level), Notified::MustRing);
}

#[test]
fn miri_a_parked_thread_is_rung_and_sees_what_was_published() {
    let (bell, published) = (bell(0), <Host as doorbell_machine::Machine>::U64::new(0));
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut ends = Vec::new();
            // Relaxed: only the bell orders it.
            while published.load(Ordering::Relaxed) < 3 {
                if bell.announce_spin() == Announced::Yes && bell.announce_park() == Announced::Yes
                {
                    ends.push(bell.park(&HostParker::new(), None));
                }
                let _ = bell.end_idle();
            }
            ends
        });
        let mut rings = 0;
        for value in 1..=3 {
            published.store(value, Ordering::Relaxed);
            if bell.notify(Kick::Take, Standing::Level) == Notified::MustRing {
                rings += 1;
                bell.ring(&HostParker::new());
            }
        }
        let ends = worker.join().unwrap();
        assert_eq!(ends.len(), rings, "each park has its one ring");
        assert!(
            ends.iter()
                .all(|end| matches!(end, ParkEnd::Rung | ParkEnd::Changed))
        );
    });
}
