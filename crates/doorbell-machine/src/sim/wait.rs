//! How a thread waits: in a parker, spinning on a line, for the end of another thread, for a time.

use super::Sim;
use super::cells::SimLine;
use super::config::{EventKind, Parkers};
use super::lines::NOBODY;
use super::queue::What;
use super::thread::{Doing, Wait, Why};
use super::words::SimU32;
use super::world::{Waits, World, look, step, wait};
use crate::{Ordering, ParkEnd, Parker, Spun, Word};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A simulated futex or eventfd ([`Parkers`]). The last test and the falling asleep are one step.
#[derive(Debug)]
pub struct SimParker {
    is_eventfd: bool,
    /// The number of the world, and the number of the thread that sleeps here plus one.
    sleeper: AtomicU64,
    /// For an eventfd: the number of the world in which it was rung and not read since; 0 if there is none.
    rung: AtomicU32,
}

impl SimParker {
    fn set_sleeper(&self, world: &World, thread: Option<u32>) {
        let sleeper = thread.map_or(0, |thread| thread + 1);
        let kept = u64::from(world.number) << 32 | u64::from(sleeper);
        self.sleeper.store(kept, Ordering::Relaxed);
    }

    fn sleeper(&self, world: &World) -> Option<u32> {
        let kept = self.sleeper.load(Ordering::Relaxed);
        (kept >> 32 == u64::from(world.number))
            .then_some(kept as u32)?
            .checked_sub(1)
    }

    /// Makes the last test before the sleep, and arms what ends the sleep. `Err` says why there is no sleep.
    fn fall_asleep(
        &self,
        world: &mut World,
        word: &SimU32,
        seen: u32,
        until_ns: Option<u64>,
    ) -> Result<(), ParkEnd> {
        let is_changed = word.peek() != seen;
        if self.is_eventfd {
            if self.rung.load(Ordering::Relaxed) == world.number {
                return Err(if is_changed {
                    ParkEnd::Changed
                } else {
                    ParkEnd::Spurious
                });
            }
        } else if is_changed {
            return Err(ParkEnd::Changed);
        }
        world.fall_asleep(until_ns)?;
        self.set_sleeper(world, Some(world.current));
        world.tally.parks += 1;
        world.block(Wait::Parker);
        Ok(())
    }

    /// Empties the eventfd, if it is one and was rung.
    fn read(&self) {
        let _ = step(|world| {
            if self.is_eventfd && self.rung.load(Ordering::Relaxed) == world.number {
                self.rung.store(0, Ordering::Relaxed);
                let costs = world.config.machine.costs;
                world.charge(costs.syscall_ns + costs.eventfd_wait_ns);
            }
        });
    }
}

impl<const BUG: u8> Parker<Sim<BUG>> for SimParker {
    fn new() -> Self {
        let draw = |world: &mut World| match world.config.parkers {
            Parkers::Futex => false,
            Parkers::Eventfd => true,
            Parkers::Mixed => world.rng.below(2) == 1,
        };
        SimParker {
            is_eventfd: look(draw).unwrap_or(false),
            sleeper: AtomicU64::new(0),
            rung: AtomicU32::new(0),
        }
    }

    /// # Panics
    /// Outside of any world, and in a drop while the thread unwinds: the thread would never wake up.
    fn park(&self, word: &SimU32, seen: u32, until_ns: Option<u64>) -> ParkEnd {
        // The kernel tests the word of a futex. Before an eventfd the thread tests it itself.
        if self.is_eventfd && word.load(Ordering::Relaxed) != seen {
            return ParkEnd::Changed;
        }
        let told = step(|world| {
            world.flush();
            let cost = world.config.machine.costs.syscall_ns;
            world.event(EventKind::Park, u32::from(self.is_eventfd), cost);
        });
        assert!(
            told.is_some(),
            "a thread that no world runs would sleep for ever"
        );
        let mut sleeps = Err(ParkEnd::Changed);
        wait(|world| {
            sleeps = self.fall_asleep(world, word, seen, until_ns);
            match sleeps {
                Ok(()) => Waits::Yes,
                Err(_) => Waits::No,
            }
        });
        let end = match sleeps {
            Err(end) => end,
            Ok(()) => step(|world| {
                if self.sleeper(world) == Some(world.current) {
                    self.set_sleeper(world, None);
                }
                world.wake_up()
            })
            .unwrap_or(ParkEnd::Spurious),
        };
        if end != ParkEnd::Deadline {
            self.read();
        }
        end
    }

    fn ring(&self, _word: &SimU32) {
        let _ = step(|world| {
            world.flush();
            let costs = world.config.machine.costs;
            let wake_ns = if self.is_eventfd {
                costs.eventfd_wake_ns
            } else {
                costs.futex_wake_ns
            };
            world.charge(costs.syscall_ns + wake_ns);
        });
        let _ = step(|world| {
            let sleeper = self.sleeper(world).filter(|thread| {
                world.threads[*thread as usize].doing == Doing::Waits(Wait::Parker)
            });
            if self.is_eventfd {
                self.rung.store(world.number, Ordering::Relaxed);
            }
            world.ring(sleeper);
            self.set_sleeper(world, None);
        });
    }
}

impl World {
    /// Arms what ends the sleep of the running thread. `Err` says why there is no sleep.
    pub(super) fn fall_asleep(&mut self, until_ns: Option<u64>) -> Result<(), ParkEnd> {
        let (thread, now_ns) = (self.current, self.now_ns);
        let turn = self.threads[thread as usize].turn;
        if let Some(until_ns) = until_ns {
            if until_ns <= self.clock_ns() {
                return Err(ParkEnd::Deadline);
            }
            self.threads[thread as usize].until_clock_ns = Some(until_ns);
            let late_ns = self.config.machine.costs.timer_late_ns + self.lateness();
            let time_ns = self.time_of_clock(until_ns).saturating_add(late_ns);
            if time_ns < u64::MAX {
                self.schedule(time_ns, What::Deadline, thread, turn);
            }
        }
        if self.is_faulty && self.rng.happens(self.config.faults.spurious_chance) {
            let after_ns = self.rng.within(self.config.faults.spurious_ns);
            self.schedule(
                now_ns.saturating_add(after_ns),
                What::Spurious,
                thread,
                turn,
            );
        }
        Ok(())
    }

    /// The time by which a wake comes late, if that fault happens; else 0.
    fn lateness(&mut self) -> u64 {
        if !self.is_faulty || !self.rng.happens(self.config.faults.late_chance) {
            return 0;
        }
        self.fault(2);
        self.rng.within(self.config.faults.late_ns)
    }

    fn wake_up(&mut self) -> ParkEnd {
        let (end, what) = match self.threads[self.current as usize].why {
            Why::Told => (ParkEnd::Rung, 0),
            Why::Deadline => (ParkEnd::Deadline, 1),
            Why::Nothing => (ParkEnd::Spurious, 2),
        };
        if end == ParkEnd::Spurious {
            self.fault(3);
        }
        self.tally.parks_rung += u64::from(end == ParkEnd::Rung);
        self.event(EventKind::Unpark, what, 0);
        end
    }

    pub(super) fn ring(&mut self, sleeper: Option<u32>) {
        self.tally.rings += 1;
        self.event(EventKind::Ring, sleeper.unwrap_or(NOBODY), 0);
        match sleeper {
            Some(sleeper) => self.tell(sleeper),
            None => self.tally.rings_vain += 1,
        }
    }

    /// Tells a waiting thread to go on. It becomes ready after the latency of an interrupt.
    pub(super) fn tell(&mut self, thread: u32) {
        let it = &mut self.threads[thread as usize];
        it.turn = it.turn.wrapping_add(1);
        it.doing = Doing::Wakes;
        it.why = Why::Told;
        let turn = it.turn;
        let latency_ns = self.config.machine.costs.ipi_latency_ns + self.lateness();
        let time_ns = self.now_ns.saturating_add(latency_ns);
        self.schedule(time_ns, What::Wake, thread, turn);
    }

    /// Makes the threads that spin on a line look again, because it was written.
    #[inline]
    pub(super) fn tell_spinners(&mut self, line: u32) {
        let mut spinner = self.lines.spinner(line);
        while spinner != NOBODY {
            let next = self.threads[spinner as usize].next_spinner;
            self.end_spin(spinner, self.now_ns);
            spinner = next;
        }
    }

    /// Makes a spinning thread go on.
    pub(super) fn end_spin(&mut self, thread: u32, now_ns: u64) {
        self.end_spinner(thread);
        let it = &mut self.threads[thread as usize];
        it.turn = it.turn.wrapping_add(1);
        it.doing = Doing::Runs;
        let cpu = it.cpu;
        self.set_busy(cpu, true, now_ns);
        self.resume_at(cpu, now_ns);
    }

    /// Takes a thread out of the list of the spinners of its line.
    pub(super) fn end_spinner(&mut self, thread: u32) {
        let it = &mut self.threads[thread as usize];
        let (line, next) = (it.spun_on, it.next_spinner);
        (it.spun_on, it.next_spinner) = (NOBODY, NOBODY);
        if line == NOBODY {
            return;
        }
        let mut at = self.lines.spinner(line);
        if at == thread {
            return self.lines.set_spinner(line, next);
        }
        while at != NOBODY {
            let before = &mut self.threads[at as usize];
            if before.next_spinner == thread {
                before.next_spinner = next;
                return;
            }
            at = before.next_spinner;
        }
    }

    /// Makes the running thread spin on a line.
    fn begin_spin(&mut self, line: u32, until_ns: u64) {
        let thread = self.current;
        let first = self.lines.spinner(line);
        let it = &mut self.threads[thread as usize];
        (it.spun_on, it.next_spinner) = (line, first);
        it.doing = Doing::Spins;
        let turn = it.turn;
        self.lines.set_spinner(line, thread);
        let cpu = &mut self.cpus[self.cpu as usize];
        cpu.resume_ns = self.now_ns;
        self.event(EventKind::Spin, line, 0);
        self.set_busy(self.cpu, false, self.now_ns);
        if until_ns < u64::MAX {
            self.schedule(until_ns, What::Deadline, thread, turn);
        }
    }
}

/// Spins on a line until `changed` holds of its content, or the time is over.
pub(super) fn spin<T>(line: &SimLine<T>, for_ns: u64, changed: impl Fn(&T) -> bool) -> Spun {
    let begun = look(|world| (line.line(world), world.now_ns.saturating_add(for_ns)));
    let ended = |spun: Spun, number: u32| {
        let _ = step(|world| world.event(EventKind::SpinEnd, number, 0));
        spun
    };
    loop {
        let version = begun.map(|(number, _)| look(|world| world.lines.version(number)));
        if changed(line) {
            return begun.map_or(Spun::Changed, |(number, _)| ended(Spun::Changed, number));
        }
        let Some((number, until_ns)) = begun else {
            return Spun::Deadline;
        };
        // No other thread runs meanwhile.
        if std::thread::panicking() {
            return ended(Spun::Deadline, number);
        }
        let mut is_over = true;
        wait(|world| {
            is_over = world.now_ns >= until_ns;
            // If the line was written since the look, the thread looks again.
            if is_over || version != Some(Some(world.lines.version(number))) {
                return Waits::No;
            }
            world.begin_spin(number, until_ns);
            Waits::Yes
        });
        if is_over {
            return ended(Spun::Deadline, number);
        }
    }
}

/// Sleeps for `ns`.
pub(super) fn sleep(ns: u64) {
    let _ = step(|world| {
        world.flush();
        let cost = world.config.machine.costs.syscall_ns;
        world.event(EventKind::Sleep, 0, cost);
    });
    wait(|world| {
        let thread = world.current;
        let turn = world.threads[thread as usize].turn;
        let late_ns = world.config.machine.costs.timer_late_ns + world.lateness();
        let time_ns = world.now_ns.saturating_add(ns).saturating_add(late_ns);
        world.schedule(time_ns, What::Wake, thread, turn);
        world.block(Wait::Sleep);
        Waits::Yes
    });
}

/// Waits until another thread has ended.
pub(super) fn join(thread: u32) {
    let _ = step(|world| {
        world.flush();
        let cost = world.config.machine.costs.syscall_ns;
        world.event(EventKind::Join, thread, cost);
    });
    wait(|world| {
        let it = &mut world.threads[thread as usize];
        if it.doing == Doing::Ended {
            return Waits::No;
        }
        it.joiners.push(world.current);
        world.block(Wait::Join);
        Waits::Yes
    });
    let _ = look(|world| {
        if let Some(races) = &mut world.races {
            races.join(world.current, thread);
        }
    });
}

/// The value that a futex compares: the one that all threads see.
impl SimU32 {
    fn peek(&self) -> u32 {
        super::world::outside(|| self.load(Ordering::Relaxed))
    }
}
