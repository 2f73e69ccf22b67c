//! Hardware threads that share a core: each is slower while a sibling is busy.

use super::lines::NOBODY;
use super::thread::Doing;
use super::world::World;

impl World {
    /// A CPU becomes busy, or stops being so. It is busy while it runs a thread that does not spin on a line.
    /// From here on its siblings are slower, or fast again, and so is the rest of the step that each of them
    /// is in.
    pub(super) fn set_busy(&mut self, cpu: u32, is_busy: bool, now_ns: u64) {
        let smt = self.config.machine.smt as u32;
        if self.cpus[cpu as usize].is_busy == is_busy {
            return;
        }
        self.cpus[cpu as usize].is_busy = is_busy;
        if smt == 1 || self.config.machine.smt_busy_percent == 100 {
            return;
        }
        let first = cpu / smt * smt;
        for sibling in (first..first + smt).filter(|sibling| *sibling != cpu) {
            let before = self.cpus[sibling as usize].percent;
            self.refresh_percent(sibling);
            let after = self.cpus[sibling as usize].percent;
            if before != after {
                self.stretch(sibling, before, after, now_ns);
            }
        }
    }

    /// Computes how long everything takes on a CPU, from its own slowness and its busy siblings.
    pub(super) fn refresh_percent(&mut self, cpu: u32) {
        let machine = &self.config.machine;
        let smt = machine.smt as u32;
        let first = cpu / smt * smt;
        let mut siblings = (first..first + smt).filter(|sibling| *sibling != cpu);
        let is_shared = siblings.any(|sibling| self.cpus[sibling as usize].is_busy);
        let shared = if is_shared {
            machine.smt_busy_percent
        } else {
            100
        };
        let it = &mut self.cpus[cpu as usize];
        it.percent = it.slow_percent.saturating_mul(shared) / 100;
        if cpu == self.cpu {
            self.slow_percent = it.percent;
        }
    }

    /// Changes the time for the rest of the step that a CPU's thread is in.
    fn stretch(&mut self, cpu: u32, before: u64, after: u64, now_ns: u64) {
        let it = &self.cpus[cpu as usize];
        // A CPU whose `resume_ns` has passed charges its present step later, at the new speed.
        let in_step = it.current != NOBODY && it.resume_ns > now_ns;
        if !in_step || self.threads[it.current as usize].doing == Doing::Spins {
            return;
        }
        let left_ns = scaled(it.resume_ns - now_ns, after, before);
        let it = &mut self.cpus[cpu as usize];
        it.turn = it.turn.wrapping_add(1);
        self.resume_at(cpu, now_ns.saturating_add(left_ns));
    }

    /// The time that `ns` of work takes on that CPU now.
    pub(super) fn on_cpu(&self, cpu: u32, ns: u64) -> u64 {
        scaled(ns, self.cpus[cpu as usize].percent, 100)
    }

    /// The inverse: the work that `ns` of that CPU's time does, in ns of a CPU at full speed.
    pub(super) fn off_cpu(&self, cpu: u32, ns: u64) -> u64 {
        scaled(ns, 100, self.cpus[cpu as usize].percent)
    }
}

/// `ns` times `part` divided by `whole`.
fn scaled(ns: u64, part: u64, whole: u64) -> u64 {
    if part == whole {
        return ns;
    }
    let ns = u128::from(ns) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
