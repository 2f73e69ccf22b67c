//! Takes cores of the main runtime off and puts them back while everything else goes on.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use doorbell::{CallError, CoreId, Handle, SpawnError, current_core, error::CoreError, yield_now};

use super::dice::Dice;
use super::ledger::Ledger;

/// How often a core is taken off or put back in a round.
const TURNS: u32 = 60;

/// The longest pause between two turns.
const PAUSE_US_MAX: u64 = 1_500;

/// How often each core of a runtime was turned. The number is odd while the core is off or on its way off
/// or back.
#[derive(Debug, Default)]
pub(super) struct Turns(Vec<AtomicU64>);

/// A core at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    core: usize,
    turns: u64,
}

impl Since {
    pub(super) fn core(self) -> usize {
        self.core
    }
}

impl Turns {
    /// The counts of a runtime whose cores may be turned. `Turns::default` is for one whose cores never
    /// are.
    pub(super) fn of(cores: usize) -> Self {
        Turns((0..cores).map(|_| AtomicU64::new(0)).collect())
    }

    /// The core at this moment.
    pub(super) fn since(&self, core: usize) -> Since {
        let turns = self.0.get(core);
        // ORDER: Acquire pairs with the Release of `end`: a thread that sees the core back does not see the
        // runtime refuse because of its last absence.
        let turns = turns.map_or(0, |turns| turns.load(Ordering::Acquire));
        Since { core, turns }
    }

    /// Whether the core was off, or on its way, at any moment since.
    pub(super) fn was_off(&self, since: Since) -> bool {
        // ORDER: Acquire; pairs with the Release by which the runtime's own word says that the core is off.
        // That follows `begin`, so a caller that was refused sees it.
        fence(Ordering::Acquire);
        since.turns % 2 == 1 || self.since(since.core).turns != since.turns
    }

    /// Called before a core is taken off.
    fn begin(&self, core: usize) {
        // ORDER: Relaxed; see `was_off`.
        self.0[core].fetch_add(1, Ordering::Relaxed);
    }

    /// Called after it was put back.
    fn end(&self, core: usize) {
        // ORDER: Release pairs with the Acquire of `since`.
        self.0[core].fetch_add(1, Ordering::Release);
    }

    fn sum(&self) -> u64 {
        // ORDER: Relaxed; a count, read by the thread that made it.
        let counts = self.0.iter().map(|turns| turns.load(Ordering::Relaxed));
        counts.sum()
    }
}

/// How a core is taken off.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The caller waits; then the core is empty.
    Awaited,
    /// The caller does not wait.
    Dropped,
    /// The core is put back before it is off.
    Overtaken,
}

/// The state of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    On,
    /// On its way off.
    Going,
    Off,
}

/// Takes cores off and puts them back for a while; all are on at the end. Returns how often.
pub(super) fn turn(handle: &Handle, turns: &Turns, ledger: &Ledger, mut dice: Dice) -> u64 {
    let mut turner = Turner {
        handle,
        turns,
        ledger,
        places: vec![Place::On; handle.cores()],
    };
    for _ in 0..TURNS {
        if ledger.has_failed() {
            break;
        }
        let core = dice.roll(handle.cores() as u64) as usize;
        let way = dice.choose(&[
            Way::Awaited,
            Way::Awaited,
            Way::Awaited,
            Way::Dropped,
            Way::Overtaken,
        ]);
        turner.turn(core, way);
        let pause_us = dice.choose(&[0, 20, 200, PAUSE_US_MAX]);
        std::thread::sleep(Duration::from_micros(dice.roll(pause_us + 1)));
    }
    for core in 0..handle.cores() {
        turner.put_back(core);
    }
    turns.sum()
}

/// Turns the cores of a runtime. There is only one for each runtime.
struct Turner<'a> {
    handle: &'a Handle,
    turns: &'a Turns,
    ledger: &'a Ledger,
    places: Vec<Place>,
}

impl Turner<'_> {
    fn turn(&mut self, core: usize, way: Way) {
        let is_last = |other: &usize| *other == core || self.places[*other] != Place::On;
        if self.places[core] != Place::On {
            self.put_back(core);
        } else if (0..self.places.len()).all(|other| is_last(&other)) {
            let off = self.wait(self.handle.core_offline(core));
            self.expect(matches!(off, Some(Err(CoreError::LastOne { .. }))), || {
                format!("the last core {core} was taken off: {off:?}")
            });
        } else {
            self.take_off(core, way);
        }
    }

    fn take_off(&mut self, core: usize, way: Way) {
        self.turns.begin(core);
        let off = self.handle.core_offline(core);
        match way {
            Way::Awaited => {
                self.places[core] = Place::Off;
                let off = self.wait(off);
                self.expect(off == Some(Ok(())), || {
                    format!("core {core} was not taken off: {off:?}")
                });
                self.check_off(core);
                self.check_tasks();
            }
            Way::Dropped => {
                self.places[core] = Place::Going;
                drop(off);
            }
            Way::Overtaken => {
                self.places[core] = Place::Going;
                let on = self.handle.core_online(core);
                let both = self.wait(async { futures::join!(off, on) });
                self.expect(both == Some((Ok(()), Ok(()))), || {
                    format!("core {core} was taken off and put back: {both:?}")
                });
                self.put_back(core);
            }
        }
    }

    /// Puts a core back unless it is on.
    fn put_back(&mut self, core: usize) {
        if self.places[core] == Place::On {
            return;
        }
        let on = self.wait(self.handle.core_online(core));
        self.expect(on == Some(Ok(())), || {
            format!("core {core} was not put back: {on:?}")
        });
        self.turns.end(core);
        self.places[core] = Place::On;
        let there = self.handle.call_blocking(core, current_core);
        let right = matches!(there, Ok(Some(there)) if there.index() == core);
        self.expect(right, || {
            format!("core {core} was put back, and a call to it gave {there:?}")
        });
    }

    /// Checks that a core that is off refuses what only it may do.
    fn check_off(&self, core: usize) {
        let mut ran = false;
        let called = self.handle.call_blocking(core, || ran = true);
        let refused = matches!(called, Err(CallError::CoreOffline { .. }));
        self.expect(refused && !ran, || {
            format!("core {core} is off, and a call to it gave {called:?}")
        });
        let pinned = self.handle.task().on(core).try_spawn(async {});
        let refused = matches!(pinned, Err(SpawnError::CoreOffline { .. }));
        self.expect(refused && !self.handle.core_is_online(core), || {
            format!("core {core} is off, and a task for it gave {pinned:?}")
        });
    }

    /// Checks that a movable task runs on no core that is off.
    fn check_tasks(&self) {
        let task = self.handle.spawn(async {
            let mut cores = Vec::new();
            for _ in 0..4 {
                cores.push(current_core().map(CoreId::index));
                yield_now().await;
            }
            cores
        });
        let cores = self.wait(task);
        let may_run = |core: &Option<usize>| core.is_some_and(|c| self.places[c] != Place::Off);
        let right = matches!(&cores, Some(Ok(cores)) if cores.iter().all(may_run));
        self.expect(right, || {
            format!("a task ran on {cores:?} while {:?}", self.places)
        });
    }

    fn wait<F: Future>(&self, future: F) -> Option<F::Output> {
        let waited = self.handle.try_block_on(future);
        waited
            .map_err(|error| self.ledger.fail(format!("cores are turned: {error}")))
            .ok()
    }

    fn expect(&self, holds: bool, what: impl FnOnce() -> String) {
        self.ledger.check(holds, what);
    }
}

#[cfg(test)]
mod tests {
    use super::{Turns, turn};
    use crate::dice::Dice;
    use crate::ledger::Ledger;

    #[test]
    fn a_core_was_off_from_its_going_to_its_return() {
        let turns = Turns::of(2);
        let (before, other) = (turns.since(1), turns.since(0));
        assert!(!turns.was_off(before));
        turns.begin(1);
        assert!(turns.was_off(before) && turns.was_off(turns.since(1)));
        turns.end(1);
        assert!(turns.was_off(before), "meanwhile");
        assert!(!turns.was_off(turns.since(1)) && !turns.was_off(other));
        assert!(!Turns::default().was_off(Turns::default().since(7)));
    }

    #[test]
    fn cores_are_turned_and_all_are_on_at_the_end() {
        for cores in [1, 3] {
            let runtime = doorbell::Builder::new().cores(cores).build().unwrap();
            let (turns, ledger) = (Turns::of(cores), Ledger::new());
            let count = turn(&runtime, &turns, &ledger, Dice::new(1, 1));
            assert_eq!(ledger.failures(), [""; 0]);
            assert_eq!(count > 10, cores > 1, "{count}");
            assert!((0..cores).all(|core| runtime.core_is_online(core)));
        }
    }
}
