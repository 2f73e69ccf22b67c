//! The directory of cache lines: which CPUs have each line, and what it costs to get it.

use super::rng::Rng;
use super::spec::{Costs, MachineSpec};

/// No CPU or no thread.
pub(super) const NOBODY: u32 = u32::MAX;

/// How many freed lines a CPU keeps, if they come back: as many as a second-level cache of 1 MiB has.
const KEPT_MAX: usize = 16_384;

/// One line.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The CPU that has it exclusively and may write it; `NOBODY` while it is shared or only in memory.
    owner: u32,
    /// Incremented by each write.
    version: u32,
    /// The first thread in the list of those that spin on it.
    spinner: u32,
    /// The CPU that made what lies in it; it gets the line back.
    maker: u32,
    /// Until when it is on its way to the CPU that wrote it last.
    busy_ns: u64,
}

const COLD: Line = Line {
    owner: NOBODY,
    version: 0,
    spinner: NOBODY,
    maker: NOBODY,
    busy_ns: 0,
};

/// The CPUs near one CPU. Near CPUs have near numbers, so each set is a range.
#[derive(Clone, Copy, Debug)]
struct Near {
    smt: (u32, u32),
    llc: (u32, u32),
    socket: (u32, u32),
}

/// All lines of a machine.
#[derive(Debug)]
pub(super) struct Lines {
    all: Vec<Line>,
    /// For each line a set of the CPUs that have it, of `words` words.
    sharers: Vec<u64>,
    words: usize,
    near: Vec<Near>,
    /// Lines to which nothing refers.
    free: Vec<u32>,
    /// Those that go back to each CPU, the last one at the end. Empty if a line that is freed leaves all caches.
    kept: Vec<Vec<u32>>,
    costs: Costs,
    jitter_percent: u64,
    /// How often a CPU got a line that another one had, or took it from all others.
    moved: u64,
}

impl Lines {
    /// `reused` is whether a line that is freed comes back as an allocator's memory does: to the CPU that made it, and out
    /// of the cache that has it.
    pub(super) fn new(spec: &MachineSpec, reused: bool) -> Self {
        let range = |cpu: usize, size: usize| {
            let first = cpu / size * size;
            (first as u32, (first + size) as u32)
        };
        let near = |cpu| Near {
            smt: range(cpu, spec.smt),
            llc: range(cpu, spec.cpus_per_llc()),
            socket: range(cpu, spec.cpus_per_socket()),
        };
        Lines {
            all: Vec::new(),
            sharers: Vec::new(),
            words: spec.cpus().div_ceil(64),
            near: (0..spec.cpus()).map(near).collect(),
            free: Vec::new(),
            kept: vec![Vec::new(); if reused { spec.cpus() } else { 0 }],
            costs: spec.costs,
            jitter_percent: spec.jitter_percent,
            moved: 0,
        }
    }

    /// How often a line went from one CPU to another. A write that only tells the other CPUs to drop theirs counts too.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// A line for something new that a CPU makes.
    pub(super) fn add(&mut self, cpu: u32) -> u32 {
        let kept = self.kept.get_mut(cpu as usize).and_then(Vec::pop);
        let line = kept.or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.all.push(COLD);
            self.sharers.resize(self.sharers.len() + self.words, 0);
            self.all.len() as u32 - 1
        });
        self.all[line as usize].maker = cpu;
        line
    }

    /// Removes a line to which nothing refers any more. Its number is used again.
    pub(super) fn remove(&mut self, line: u32) {
        let maker = self.all[line as usize].maker;
        if let Some(kept) = self.kept.get_mut(maker as usize)
            && kept.len() < KEPT_MAX
        {
            self.all[line as usize].spinner = NOBODY;
            return kept.push(line);
        }
        let version = self.all[line as usize].version;
        self.all[line as usize] = Line { version, ..COLD };
        self.sharers_mut(line).fill(0);
        self.free.push(line);
    }

    #[inline]
    fn sharers(&self, line: u32) -> &[u64] {
        &self.sharers[line as usize * self.words..][..self.words]
    }

    #[inline]
    fn sharers_mut(&mut self, line: u32) -> &mut [u64] {
        &mut self.sharers[line as usize * self.words..][..self.words]
    }

    #[inline]
    pub(super) fn version(&self, line: u32) -> u32 {
        self.all[line as usize].version
    }

    pub(super) fn spinner(&self, line: u32) -> u32 {
        self.all[line as usize].spinner
    }

    pub(super) fn set_spinner(&mut self, line: u32, spinner: u32) {
        self.all[line as usize].spinner = spinner;
    }

    /// A CPU reads a line; returns what it costs.
    #[inline]
    pub(super) fn read(&mut self, line: u32, cpu: u32, now_ns: u64, rng: &mut Rng) -> u64 {
        let (word, bit) = (cpu as usize / 64, 1_u64 << (cpu % 64));
        if self.sharers(line)[word] & bit != 0 {
            return self.costs.own_hit_ns;
        }
        let cost = self.nearest(line, cpu);
        self.moved += u64::from(self.others_have(line, cpu));
        let wait = self.all[line as usize].busy_ns.saturating_sub(now_ns);
        self.all[line as usize].owner = NOBODY;
        self.sharers_mut(line)[word] |= bit;
        wait + self.vary(cost, rng)
    }

    /// A CPU writes a line and then has it exclusively; returns what it costs. CPUs that write one line at
    /// the same time get it one after the other.
    #[inline]
    pub(super) fn write(&mut self, line: u32, cpu: u32, now_ns: u64, rng: &mut Rng) -> u64 {
        let state = &mut self.all[line as usize];
        state.version = state.version.wrapping_add(1);
        if state.owner == cpu {
            return self.costs.own_hit_ns;
        }
        let wait = state.busy_ns.saturating_sub(now_ns);
        self.moved += u64::from(self.others_have(line, cpu));
        let cost = self.farthest(line, cpu);
        let cost = wait + self.vary(cost, rng);
        let state = &mut self.all[line as usize];
        state.owner = cpu;
        state.busy_ns = now_ns + cost;
        let sharers = self.sharers_mut(line);
        sharers.fill(0);
        sharers[cpu as usize / 64] = 1 << (cpu % 64);
        cost
    }

    #[inline]
    fn others_have(&self, line: u32, cpu: u32) -> bool {
        any_outside(self.sharers(line), (cpu, cpu + 1))
    }

    #[inline]
    fn vary(&self, cost: u64, rng: &mut Rng) -> u64 {
        if self.jitter_percent == 0 {
            return cost;
        }
        let percent = 100 - self.jitter_percent + rng.below(2 * self.jitter_percent + 1);
        cost * percent / 100
    }

    /// What it costs a CPU that does not have a line to get it from the nearest CPU that does.
    fn nearest(&self, line: u32, cpu: u32) -> u64 {
        let (sharers, near) = (self.sharers(line), &self.near[cpu as usize]);
        if sharers.iter().all(|word| *word == 0) {
            self.costs.memory_ns
        } else if any_within(sharers, near.smt) {
            self.costs.smt_ns
        } else if any_within(sharers, near.llc) {
            self.costs.llc_ns
        } else if any_within(sharers, near.socket) {
            self.costs.socket_ns
        } else {
            self.costs.cross_socket_ns
        }
    }

    /// What it costs a CPU to take a line from all others: the farthest takes longest.
    fn farthest(&self, line: u32, cpu: u32) -> u64 {
        let (sharers, near) = (self.sharers(line), &self.near[cpu as usize]);
        if sharers.iter().all(|word| *word == 0) {
            self.costs.memory_ns
        } else if any_outside(sharers, near.socket) {
            self.costs.cross_socket_ns
        } else if any_outside(sharers, near.llc) {
            self.costs.socket_ns
        } else if any_outside(sharers, near.smt) {
            self.costs.llc_ns
        } else if self.others_have(line, cpu) {
            self.costs.smt_ns
        } else {
            self.costs.own_hit_ns
        }
    }
}

/// The bits of the set's word number `word` that lie within a range of CPUs.
#[inline]
fn mask(word: usize, (first, end): (u32, u32)) -> u64 {
    let base = word as u32 * 64;
    let (from, to) = (
        first.saturating_sub(base).min(64),
        end.saturating_sub(base).min(64),
    );
    let below = |bits: u32| u64::MAX.checked_shr(64 - bits).unwrap_or(0);
    below(to) & !below(from)
}

fn any_within(sharers: &[u64], range: (u32, u32)) -> bool {
    let mut words = sharers.iter().enumerate();
    words.any(|(at, word)| word & mask(at, range) != 0)
}

fn any_outside(sharers: &[u64], range: (u32, u32)) -> bool {
    let mut words = sharers.iter().enumerate();
    words.any(|(at, word)| word & !mask(at, range) != 0)
}

#[cfg(test)]
mod tests {
    use super::{KEPT_MAX, Lines, NOBODY, mask};
    use crate::sim::rng::Rng;
    use crate::sim::spec::MachineSpec;

    #[test]
    fn masks_of_ranges() {
        assert_eq!(mask(0, (0, 64)), u64::MAX);
        assert_eq!(mask(0, (1, 3)), 0b110);
        assert_eq!(mask(1, (60, 66)), 0b11);
        assert_eq!((mask(1, (0, 64)), mask(0, (64, 128))), (0, 0));
        assert_eq!(mask(0, (63, 64)), 1 << 63);
    }

    /// Two sockets, each with two caches of two cores, each with two hardware threads.
    fn spec() -> MachineSpec {
        MachineSpec {
            sockets: 2,
            llc_groups_per_socket: 2,
            smt: 2,
            jitter_percent: 0,
            ..MachineSpec::default()
        }
    }

    fn lines() -> Lines {
        Lines::new(&spec(), false)
    }

    #[test]
    fn a_line_costs_what_its_way_costs() {
        let (mut lines, mut rng) = (lines(), Rng::new(0, 0));
        let costs = lines.costs;
        for (cpu, way_ns) in [
            (1, costs.smt_ns),
            (2, costs.llc_ns),
            (4, costs.socket_ns),
            (8, costs.cross_socket_ns),
            (15, costs.cross_socket_ns),
        ] {
            let line = lines.add(0);
            assert_eq!(lines.write(line, 0, 0, &mut rng), costs.memory_ns);
            assert_eq!(lines.write(line, 0, 0, &mut rng), costs.own_hit_ns);
            assert_eq!(lines.read(line, 0, 0, &mut rng), costs.own_hit_ns);
            // Later, when the line has arrived.
            let at = 10_000;
            assert_eq!(lines.read(line, cpu, at, &mut rng), way_ns, "to {cpu}");
            assert_eq!(lines.read(line, cpu, at, &mut rng), costs.own_hit_ns);
            // The line is shared now, so even its earlier owner must take it back.
            assert_eq!(lines.write(line, 0, at, &mut rng), way_ns);
            assert_eq!(lines.write(line, cpu, 2 * at, &mut rng), way_ns);
        }
    }

    #[test]
    fn the_nearest_gives_and_the_farthest_is_waited_for() {
        let (mut lines, mut rng) = (lines(), Rng::new(0, 0));
        let (line, costs) = (lines.add(0), lines.costs);
        for cpu in [0, 8] {
            let _ = lines.read(line, cpu, 0, &mut rng);
        }
        assert_eq!(lines.read(line, 1, 0, &mut rng), costs.smt_ns);
        assert_eq!(lines.write(line, 1, 0, &mut rng), costs.cross_socket_ns);
    }

    #[test]
    fn lines_that_move_between_cpus_are_counted() {
        let (mut lines, mut rng) = (lines(), Rng::new(0, 0));
        let line = lines.add(0);
        // From memory; at home; to a reader; back to the writer, at once and from a buffer.
        for (cpu, writes, moved) in [
            (0, true, 0),
            (0, false, 0),
            (1, false, 1),
            (0, true, 2),
            (0, true, 2),
            (8, true, 3),
        ] {
            let _ = if writes {
                lines.write(line, cpu, 0, &mut rng)
            } else {
                lines.read(line, cpu, 0, &mut rng)
            };
            assert_eq!(lines.moved(), moved, "{cpu}");
        }
    }

    #[test]
    fn writers_of_one_line_get_it_one_after_the_other() {
        let (mut lines, mut rng) = (lines(), Rng::new(0, 0));
        let (line, costs) = (lines.add(0), lines.costs);
        let first = lines.write(line, 0, 0, &mut rng);
        let second = lines.write(line, 2, 0, &mut rng);
        assert_eq!(second, first + costs.llc_ns);
        assert_eq!(
            lines.read(line, 3, 10, &mut rng),
            second - 10 + costs.smt_ns
        );
    }

    #[test]
    fn a_line_that_is_gone_is_cold_when_it_comes_again() {
        let (mut lines, mut rng) = (lines(), Rng::new(0, 0));
        let line = lines.add(0);
        let _ = lines.write(line, 0, 0, &mut rng);
        let version = lines.version(line);
        lines.remove(line);
        assert_eq!(lines.add(0), line);
        assert_eq!(
            (lines.version(line), lines.spinner(line)),
            (version, NOBODY)
        );
        assert_eq!(lines.read(line, 0, 0, &mut rng), lines.costs.memory_ns);
    }

    #[test]
    fn a_line_that_is_reused_comes_from_the_cache_that_has_it() {
        let (mut lines, mut rng) = (Lines::new(&spec(), true), Rng::new(0, 0));
        let costs = lines.costs;
        let line = lines.add(0);
        assert_eq!(lines.write(line, 0, 0, &mut rng), costs.memory_ns);
        lines.remove(line);
        assert_eq!(lines.add(0), line);
        assert_eq!(lines.write(line, 0, 10_000, &mut rng), costs.own_hit_ns);
        // Another CPU wrote it last, as the one that frees it does.
        assert_eq!(lines.write(line, 2, 10_000, &mut rng), costs.llc_ns);
        lines.remove(line);
        assert_eq!(lines.add(0), line);
        assert_eq!(lines.write(line, 0, 20_000, &mut rng), costs.llc_ns);
    }

    #[test]
    fn a_line_goes_back_to_the_cpu_that_made_it() {
        let mut lines = Lines::new(&spec(), true);
        let line = lines.add(0);
        lines.remove(line);
        assert_ne!(lines.add(2), line);
        assert_eq!(lines.add(0), line);
    }

    #[test]
    fn a_line_for_which_its_maker_has_no_room_goes_to_any_cpu() {
        let mut lines = Lines::new(&spec(), true);
        let made: Vec<u32> = (0..=KEPT_MAX).map(|_| lines.add(0)).collect();
        for line in &made {
            lines.remove(*line);
        }
        assert_eq!(lines.add(1), made[KEPT_MAX]);
        assert_eq!(lines.add(0), made[KEPT_MAX - 1]);
        // Now it is the other CPU's.
        lines.remove(made[KEPT_MAX]);
        assert_eq!(lines.add(1), made[KEPT_MAX]);
    }
}
