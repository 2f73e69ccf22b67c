//! Faults: when they happen, by plan or by the seed, and what each does to the world.

use super::config::{EventKind, Failure, Fault};
use super::queue::{Due, What};
use super::thread::Wait;
use super::world::World;

/// The number in the event of a mask of CPU 0. The other CPUs follow.
const MASK_EVENT: u32 = 4;

/// Until when a CPU takes no interrupts, and the interrupts that came meanwhile.
#[derive(Debug, Default)]
pub(super) struct Mask {
    until_ns: u64,
    /// In order of arrival. While it is not empty, the queue holds the end of a mask that has an end.
    held: Vec<Due>,
}

impl World {
    /// Makes the faults happen that are due at this event. Returns whether the thread has left its CPU.
    pub(super) fn is_stopped_by_a_fault(&mut self) -> bool {
        if self.events >= self.config.events_max {
            self.fail(Failure::Events(self.events));
            return false;
        }
        let mut away_ns = None;
        while self.is_faulty
            && let Some(plan) = self.config.faults.planned.get(self.planned)
            && plan.event <= self.events
        {
            self.planned += 1;
            match plan.fault {
                Fault::Deschedule { ns } => away_ns = Some(ns),
                Fault::ClockJump { ns } => self.jump_clock(ns),
                Fault::Mask { cpu, ns } => self.mask_cpu(cpu, ns),
            }
        }
        if self.is_faulty && self.mask <= self.events {
            let cpu = self.rng.below(self.cpus.len() as u64) as usize;
            let ns = self.rng.within(self.config.faults.mask_ns);
            self.mask_cpu(cpu, ns);
            self.draw_mask();
        }
        if self.is_faulty && self.clock_jump <= self.events {
            let ns = self.rng.within(self.config.faults.clock_jump_ns);
            self.jump_clock(ns);
            self.draw_clock_jump();
        }
        if self.is_faulty && self.deschedule <= self.events {
            away_ns = Some(self.rng.within(self.config.faults.deschedule_ns));
            self.draw_deschedule();
        }
        if self.is_faulty && self.starve <= self.events {
            away_ns = self.starve().or(away_ns);
        }
        self.next_special();
        let Some(away_ns) = away_ns else { return false };
        self.fault(0);
        self.flush();
        let (thread, back_ns) = (self.current, self.now_ns.saturating_add(away_ns));
        let turn = self.threads[thread as usize].turn;
        self.schedule(back_ns, What::Wake, thread, turn);
        self.block(Wait::Fault);
        true
    }

    /// Starves the running thread if it can be starved. Returns for how long.
    fn starve(&mut self) -> Option<u64> {
        if self.now_ns < self.starved_until_ns {
            self.draw_starve();
            return None;
        }
        if !self.config.faults.starved.contains(&self.current) {
            self.starve = self.events + 1;
            return None;
        }
        let ns = self.rng.within(self.config.faults.starve_ns);
        self.starved_until_ns = self.now_ns.saturating_add(ns);
        self.draw_starve();
        Some(ns)
    }

    /// Draws the events of the random faults.
    pub(super) fn draw_faults(&mut self) {
        self.draw_deschedule();
        self.draw_starve();
        self.draw_mask();
        self.draw_clock_jump();
        self.next_special();
    }

    fn draw_deschedule(&mut self) {
        let tries = self.rng.tries(self.config.faults.deschedule_chance);
        self.deschedule = self.events.saturating_add(tries);
    }

    fn draw_starve(&mut self) {
        let tries = self.rng.tries(self.config.faults.starve_chance);
        self.starve = self.events.saturating_add(tries);
    }

    fn draw_mask(&mut self) {
        let tries = self.rng.tries(self.config.faults.mask_chance);
        self.mask = self.events.saturating_add(tries);
    }

    fn draw_clock_jump(&mut self) {
        let tries = self.rng.tries(self.config.faults.clock_jump_chance);
        self.clock_jump = self.events.saturating_add(tries);
    }

    fn next_special(&mut self) {
        let planned = self.config.faults.planned.get(self.planned);
        let planned = planned.map_or(u64::MAX, |plan| plan.event);
        let faults = if self.is_faulty {
            let drawn = self.deschedule.min(self.starve).min(self.mask);
            planned.min(drawn).min(self.clock_jump)
        } else {
            u64::MAX
        };
        self.special = faults.min(self.config.events_max);
    }

    /// Ends all faults: from here on none happens, no CPU is slow, and all CPUs take interrupts.
    pub(super) fn end_faults(&mut self) {
        self.is_faulty = false;
        for cpu in 0..self.cpus.len() as u32 {
            self.cpus[cpu as usize].slow_percent = 100;
            self.refresh_percent(cpu);
            let mask = &mut self.cpus[cpu as usize].mask;
            mask.until_ns = 0;
            if !mask.held.is_empty() {
                self.schedule(self.now_ns, What::Unmask, cpu, 0);
            }
        }
        self.next_special();
    }

    /// Records a fault at the running thread.
    pub(super) fn fault(&mut self, which: u32) {
        self.tally.faults += 1;
        self.event(EventKind::Fault, which, 0);
    }

    fn jump_clock(&mut self, ns: u64) {
        self.clock_ahead_ns = self.clock_ahead_ns.saturating_add(ns);
        self.fault(1);
        for thread in 0..self.threads.len() as u32 {
            let it = &self.threads[thread as usize];
            if let Some(until_ns) = it.until_clock_ns {
                let turn = it.turn;
                let time_ns = self.time_of_clock(until_ns).max(self.now_ns);
                self.schedule(time_ns, What::Deadline, thread, turn);
            }
        }
    }

    /// Masks a CPU: it takes no interrupts. Does nothing if the machine does not have the CPU.
    fn mask_cpu(&mut self, cpu: usize, ns: u64) {
        let until_ns = self.now_ns.saturating_add(ns);
        let Some(it) = self.cpus.get_mut(cpu) else {
            return;
        };
        it.mask.until_ns = it.mask.until_ns.max(until_ns);
        self.fault(MASK_EVENT + cpu as u32);
    }

    /// Whether an interrupt that comes to a CPU now has to wait because the CPU is masked. If so, keeps it.
    pub(super) fn is_held(&mut self, cpu: u32, due: Due) -> bool {
        let mask = &mut self.cpus[cpu as usize].mask;
        if mask.until_ns <= due.time_ns {
            return false;
        }
        let until_ns = mask.until_ns;
        mask.held.push(due);
        // A mask without an end lasts until `end_faults`.
        if mask.held.len() == 1 && until_ns < u64::MAX {
            self.schedule(until_ns, What::Unmask, cpu, 0);
        }
        true
    }

    /// Ends a CPU's mask: all interrupts that waited come at once, as one.
    pub(super) fn unmask(&mut self, cpu: u32, now_ns: u64) {
        let mask = &mut self.cpus[cpu as usize].mask;
        if mask.until_ns > now_ns && !mask.held.is_empty() {
            // The CPU was masked again, for longer.
            let until_ns = mask.until_ns;
            return self.schedule(until_ns, What::Unmask, cpu, 0);
        }
        let held = std::mem::take(&mut mask.held);
        let (slices, waits): (Vec<Due>, Vec<Due>) =
            held.into_iter().partition(|due| due.what == What::Slice);
        let mut came = 0;
        for due in waits {
            if self.threads[due.of as usize].turn == due.turn {
                self.join_ready(due);
                came += 1;
            }
        }
        self.tally.interrupts_held += came;
        self.tally.interrupts_merged += came.saturating_sub(1);
        for due in slices {
            self.end_slice(cpu, due.turn, now_ns);
        }
        if came > 0 {
            self.reschedule(cpu, now_ns);
        }
    }
}
