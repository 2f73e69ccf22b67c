//! The shape of a scenario, and the plan that a seed makes of it.

use super::{Classes, Repertoire, Urgent};
use doorbell_core::scheduler::Turns;
use doorbell_core::switches::{CallCoalesce, IdleNotify, RtPush, Switches, TimerPull};
use doorbell_core::worker::{IdlePolicy, RunBudget};
use doorbell_machine::sim::{Config, Fault, Faults, MachineSpec, Memory, Parkers, Planned, Range};

/// The size of a scenario, and what may happen in it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each stands for itself, and most mixtures make sense"
)]
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name.
    pub name: String,
    /// How many workers each scheduler has. There is one on each of the first CPUs.
    pub workers: usize,
    /// Which schedulers there are.
    pub classes: Classes,
    /// How many threads that are no workers, each on a CPU of its own behind those of the workers.
    pub foreign: usize,
    /// How many steps each of these threads takes.
    pub steps: u64,
    /// What the programs may do.
    pub may: Repertoire,
    /// The memory model.
    pub memory: Memory,
    /// The faults, which occur until all programs have ended.
    pub faults: Wrong,
    /// Whether the clock also jumps, by years.
    pub clock_jumps: bool,
    /// Whether to detect data races. Only under `sc`, and with at most 16 threads.
    pub races: bool,
    /// Whether the workers' clock is paused.
    pub paused: bool,
    /// Whether the workers end while programs still run.
    pub ends: bool,
    /// In which order the workers run their tasks. If by rank, tasks have several ranks.
    pub turns: Turns,
    /// Whether tasks are in groups that share the workers by weight.
    pub groups: bool,
    /// A limit of each worker's CPU time per period.
    pub budget: Option<RunBudget>,
    /// The machine. It has a CPU for every worker. If it has none for the other threads and two more, they
    /// share the workers' CPUs.
    pub machine: MachineSpec,
}

/// Most of what a program can do; only the shapes that need descriptors add them.
const ALL: Repertoire = Repertoire {
    posts: true,
    tasks: true,
    timers: true,
    offline: true,
    long_polls: true,
    busy: false,
    descriptors: false,
};

/// The most threads for which data races are detected: each access costs the host a look at all threads.
const RACES_MAX: usize = 16;

/// The CPU budget of workers that can be throttled: long enough for work that must be prompt.
const RUN_BUDGET: RunBudget = RunBudget {
    run_ns: 300_000,
    period_ns: 350_000,
};

/// How long a thread is starved, at most.
pub(super) const STARVE_MAX_NS: u64 = 8_000_000;

/// How late the task of a timer may run where nothing goes wrong and polls are short. A poll takes up to five steps
/// of 20 us. A worker looks at its own timers and those of sleepers at each reading of its clock. The task then waits
/// behind others, for about as long.
const LATE_MAX_NS: u64 = 2_000_000;

/// CPUs for the main thread and the spinning thread.
pub(crate) const OWN_CPUS: usize = 2;

/// What goes wrong in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Nothing.
    Nothing,
    /// Any fault, except jumps of the clock.
    Anything,
    /// One thread at a time gets no CPU for milliseconds. Any thread may lose its CPU for a moment.
    Starved,
}

impl Shape {
    /// Workers and other threads on a machine of the least sufficient size.
    #[must_use]
    pub fn new(name: &str, workers: usize, foreign: usize) -> Self {
        let cpus = workers + foreign + OWN_CPUS;
        Shape {
            name: name.to_owned(),
            workers,
            classes: Classes::One,
            foreign,
            steps: 12,
            may: ALL,
            memory: Memory::Sc,
            faults: Wrong::Anything,
            clock_jumps: false,
            races: true,
            paused: false,
            ends: false,
            turns: Turns::ByArrival,
            groups: false,
            budget: None,
            machine: MachineSpec {
                sockets: 1,
                llc_groups_per_socket: cpus.div_ceil(8),
                cores_per_llc: 4,
                smt: 2,
                ..MachineSpec::default()
            },
        }
    }

    /// Bell and mailbox: two workers, and two threads that post to them and call them.
    #[must_use]
    pub fn two_workers() -> Self {
        Shape {
            steps: 30,
            may: Repertoire {
                posts: true,
                tasks: false,
                timers: false,
                offline: false,
                long_polls: false,
                busy: false,
                descriptors: false,
            },
            ..Shape::new("two-workers", 2, 2)
        }
    }

    /// Tasks that are spawned, woken and stolen, without faults. Checks that no worker idles while another
    /// one has waiting tasks.
    #[must_use]
    pub fn conserving() -> Self {
        Shape {
            faults: Wrong::Nothing,
            may: Repertoire {
                offline: false,
                long_polls: false,
                ..ALL
            },
            ..Shape::new("conserving", 6, 3)
        }
    }

    /// Everything, with faults.
    #[must_use]
    pub fn storm() -> Self {
        Shape::new("storm", 5, 3)
    }

    /// Everything, with faults and store buffers.
    #[must_use]
    pub fn storm_tso() -> Self {
        Shape {
            name: "storm-tso".to_owned(),
            memory: Memory::Tso,
            ..Shape::new("storm-tso", 3, 2)
        }
    }

    /// Everything, while the clock jumps.
    #[must_use]
    pub fn leaps() -> Self {
        Shape {
            clock_jumps: true,
            ..Shape::new("leaps", 3, 2)
        }
    }

    /// Calls, tasks and timers with a paused clock.
    #[must_use]
    pub fn paused() -> Self {
        Shape {
            paused: true,
            may: Repertoire {
                offline: false,
                long_polls: false,
                ..ALL
            },
            ..Shape::new("paused", 3, 2)
        }
    }

    /// Everything, with faults and store buffers, while the workers end.
    #[must_use]
    pub fn ends() -> Self {
        Shape {
            name: "ends".to_owned(),
            memory: Memory::Tso,
            ends: true,
            ..Shape::new("ends", 3, 3)
        }
    }

    /// Everything, with faults, among workers that run the task of highest rank first and are throttled
    /// when they have used up their CPU budget.
    #[must_use]
    pub fn ranked() -> Self {
        Shape {
            turns: Turns::ByRank,
            budget: Some(RUN_BUDGET),
            ..Shape::new("ranked", 3, 3)
        }
    }

    /// The same without faults and budget, with busy workers. Checks the order of ranks across workers.
    #[must_use]
    pub fn ranked_in_order() -> Self {
        Shape {
            steps: 30,
            faults: Wrong::Nothing,
            budget: None,
            may: Repertoire {
                offline: false,
                busy: true,
                ..ALL
            },
            ..Shape::ranked()
        }
    }

    /// Everything, with faults, among the schedulers of all classes: posts, wakes, joins, cancellations and
    /// drops cross them.
    #[must_use]
    pub fn classes() -> Self {
        Shape {
            turns: Turns::ByRank,
            budget: Some(RUN_BUDGET),
            classes: Classes::Each(Urgent::Fifo),
            ..Shape::new("classes", 2, 3)
        }
    }

    /// The same without faults. Checks that urgent workers run before the others.
    #[must_use]
    pub fn classes_in_order() -> Self {
        Shape {
            faults: Wrong::Nothing,
            budget: None,
            may: Repertoire {
                offline: false,
                ..ALL
            },
            ..Shape::classes()
        }
    }

    /// Descriptors, crowds of tasks and long polls in all classes, while one thread after another gets no
    /// CPU for milliseconds.
    #[must_use]
    pub fn starved() -> Self {
        Shape {
            turns: Turns::ByRank,
            classes: Classes::Each(Urgent::Fifo),
            faults: Wrong::Starved,
            may: Repertoire {
                offline: false,
                descriptors: true,
                ..ALL
            },
            ..Shape::new("starved", 3, 3)
        }
    }

    /// The same in one scheduler whose workers run the task of highest rank first and may spin.
    #[must_use]
    pub fn starved_ranked() -> Self {
        Shape {
            classes: Classes::One,
            ..Shape::starved()
        }
    }

    /// The same shape with this many workers, on a machine that has a CPU for each.
    #[must_use]
    pub fn sized(self, workers: usize, memory: Memory, machine: MachineSpec) -> Self {
        Shape {
            workers,
            memory,
            machine,
            ..self
        }
    }

    /// The same shape on a machine whose nodes have two CPUs each, so that the timer tree has a branch for each two
    /// workers and a level above them.
    #[must_use]
    pub fn on_small_nodes(self) -> Self {
        Shape {
            machine: MachineSpec {
                sockets: self.machine.cpus().div_ceil(2),
                llc_groups_per_socket: 1,
                cores_per_llc: 1,
                smt: 2,
                ..self.machine
            },
            ..self
        }
    }

    /// The shapes that every check of the tree runs.
    #[must_use]
    pub fn usual() -> [Shape; 4] {
        [
            Shape::two_workers(),
            Shape::conserving(),
            Shape::storm(),
            Shape::storm_tso(),
        ]
    }

    /// How many worker and foreign threads there are.
    fn threads(&self) -> usize {
        self.workers * self.classes.count() + self.foreign
    }

    /// Whether the oracle for promise 7 applies: no worker may idle while another one has waiting tasks.
    pub(super) fn is_conserving(&self) -> bool {
        let alone = self.workers + self.foreign + OWN_CPUS <= self.machine.cpus();
        let judged = match self.faults {
            Wrong::Anything => false,
            Wrong::Nothing => self.classes == Classes::One && !self.may.long_polls,
            Wrong::Starved => !self.clock_jumps,
        };
        let calm = judged && !self.may.offline && !self.ends && self.budget.is_none();
        calm && alone && self.workers <= 64
    }

    /// Whether the oracle for the order of classes applies: urgent workers run before others.
    pub(super) fn orders_classes(&self) -> bool {
        let alone = self.workers + self.foreign + OWN_CPUS <= self.machine.cpus();
        let calm = self.faults == Wrong::Nothing && !self.may.offline && !self.ends;
        let calm = calm && self.budget.is_none();
        self.classes != Classes::One && calm && alone
    }

    /// Whether the oracle for the order of ranks applies: no urgent worker begins a poll while a task of higher rank
    /// waits.
    pub(super) fn orders_ranks(&self) -> bool {
        let alone = self.workers + self.foreign + OWN_CPUS <= self.machine.cpus();
        let calm = self.faults == Wrong::Nothing && !self.may.offline && !self.ends && !self.paused;
        let calm = calm && self.budget.is_none() && !self.clock_jumps;
        self.turns == Turns::ByRank && !self.groups && calm && alone
    }

    /// How late the task of a timer may run; `None` if that is not judged. Polls are short there, and nothing keeps a
    /// thread off its CPU.
    pub(super) fn late_max_ns(&self) -> Option<u64> {
        let calm = self.faults == Wrong::Nothing && !self.may.long_polls && !self.may.busy;
        let calm = calm && !self.may.offline && !self.clock_jumps && !self.paused && !self.ends;
        let equals = self.classes == Classes::One && self.turns == Turns::ByArrival && !self.groups;
        let alone = self.workers + self.foreign + OWN_CPUS <= self.machine.cpus();
        (calm && equals && alone && self.budget.is_none()).then_some(LATE_MAX_NS)
    }

    /// The CPU of the main thread.
    pub(super) fn main_cpu(&self) -> usize {
        self.foreign_cpu(self.foreign)
    }

    /// The CPU of a foreign thread.
    pub(super) fn foreign_cpu(&self, foreigner: usize) -> usize {
        (self.workers + foreigner) % self.machine.cpus()
    }

    /// The CPU of the spinning thread.
    pub(super) fn spin_cpu(&self) -> usize {
        self.foreign_cpu(self.foreign + 1)
    }
}

/// What a seed decides for a shape.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: Config,
    pub(super) idle: IdlePolicy,
    pub(super) switches: Switches,
}

/// Nanoseconds of a year.
const YEAR_NS: u64 = 365 * 24 * 3_600_000_000_000;

impl Plan {
    pub(super) fn of(shape: &Shape, seed: u64) -> Self {
        let mut lot = Lot(seed);
        let idle = match lot.draw(4) {
            0 => IdlePolicy::Park,
            1 => IdlePolicy::Spin {
                spin_ns: 1_000 + lot.draw(50_000),
            },
            2 => IdlePolicy::Spin { spin_ns: 300 },
            _ => IdlePolicy::Adaptive {
                spin_max_ns: 50_000,
                budget: 0.2,
            },
        };
        let mut switches = match lot.draw(8) {
            0 => Switches {
                idle_notify: IdleNotify::Off,
                ..Switches::default()
            },
            1 => Switches {
                call_coalesce: CallCoalesce::Base,
                ..Switches::default()
            },
            2 => Switches {
                rt_push: RtPush::On,
                ..Switches::default()
            },
            _ => Switches::default(),
        };
        let config = Config {
            seed,
            machine: shape.machine.clone(),
            memory: shape.memory,
            faults: faults(shape, &mut lot),
            parkers: match lot.draw(4) {
                0 => Parkers::Eventfd,
                1 => Parkers::Mixed,
                _ => Parkers::Futex,
            },
            races: shape.races && shape.threads() <= RACES_MAX,
            ..Config::default()
        };
        // The programs change it while they run.
        switches.timer_pull = TimerPull::ALL[lot.draw(3) as usize];
        Plan {
            config,
            idle,
            switches,
        }
    }
}

/// Draws everything that a seed decides before the run begins (splitmix64).
pub(super) struct Lot(pub(super) u64);

impl Lot {
    pub(super) fn draw(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}

fn faults(shape: &Shape, lot: &mut Lot) -> Faults {
    match shape.faults {
        Wrong::Nothing => return Faults::default(),
        Wrong::Starved => return starved(shape, lot),
        Wrong::Anything => {}
    }
    let range = |max_ns| Range { min_ns: 1, max_ns };
    let planned = if shape.clock_jumps {
        let jump = |lot: &mut Lot| Planned {
            event: lot.draw(20_000),
            fault: Fault::ClockJump {
                ns: lot.draw(30) * YEAR_NS + lot.draw(2_000_000),
            },
        };
        (0..=lot.draw(4)).map(|_| jump(lot)).collect()
    } else {
        Vec::new()
    };
    // A chance is 0 in one of four draws, so that each fault also occurs without the others.
    let chance = |lot: &mut Lot, most: u32| {
        let step = lot.draw(4) as u32;
        most * step / 3
    };
    Faults {
        deschedule_chance: chance(lot, 6_000),
        deschedule_ns: range([500, 5_000, 200_000][lot.draw(3) as usize]),
        spurious_chance: chance(lot, 200_000),
        spurious_ns: range(20_000),
        late_chance: chance(lot, 100_000),
        late_ns: range(100_000),
        slow_cpus: (0..lot.draw(3))
            .map(|_| (lot.draw(shape.workers as u64) as usize, 150 + lot.draw(900)))
            .collect(),
        mask_chance: chance(lot, 6_000),
        mask_ns: range([2_000, 30_000, 200_000][lot.draw(3) as usize]),
        planned,
        ..Faults::default()
    }
}

/// One thread after another gets no CPU for long: any thread, only foreign ones, or those of one scheduler.
fn starved(shape: &Shape, lot: &mut Lot) -> Faults {
    let workers = shape.workers as u32;
    let all = workers * shape.classes.count() as u32;
    // Thread 0 is the main thread; the one right behind the workers is the oracle's.
    let foreign = all + 2..all + 2 + shape.foreign as u32;
    let starved = match lot.draw(6) {
        0 => 0..0,
        1 | 2 => foreign,
        scheduler => {
            let scheduler = (scheduler as u32 - 3) * workers % all;
            1 + scheduler..1 + scheduler + workers
        }
    };
    // Seldom but long, or often but short.
    let (deschedule_chance, max_ns) =
        [(0, 500), (1_000, 60_000), (3_000, 10_000), (8_000, 3_000)][lot.draw(4) as usize];
    Faults {
        deschedule_chance,
        deschedule_ns: Range {
            min_ns: 500,
            max_ns,
        },
        starve_chance: [1_000, 5_000][lot.draw(2) as usize],
        starve_ns: Range {
            min_ns: 1_000_000,
            max_ns: STARVE_MAX_NS,
        },
        starved,
        ..Faults::default()
    }
}
