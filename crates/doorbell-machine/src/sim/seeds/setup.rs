//! [`Setup`]: with which seeds a program runs, and what is simulated.

use crate::sim::profile::Profile;
use crate::sim::{CPUS_MAX, Config, Faults, MachineSpec, Memory, Range};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Cores that share a last-level cache, unless a machine is given.
const CORES_PER_CACHE: usize = 8;

/// Room for a poll as it has on a thread of the OS.
const STACK_BYTES: usize = 2 << 20;

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// Something that goes wrong on real machines now and then. The seed decides when, and on which core. It ends when the
/// program has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The OS takes a thread off its CPU, once in about 5,000 steps, for 50 µs to 2 ms.
    Deschedule,
    /// On one core, everything takes three times as long.
    SlowCore,
    /// A random core is taken off the runtime for 0.1 to 2 ms, and put back;
    /// again and again, at most 20 times. Calls to it, and tasks that are spawned on it, are refused meanwhile.
    Offline,
    /// The clock jumps ahead by 1 to 100 ms, once in about 20,000 steps, as that of a virtual machine that stood still.
    ClockJump,
    /// One wake in fifty, or the end of a sleep, comes 10 µs to 1 ms late.
    LateWakes,
}

/// The words by which faults are named.
const WORDS: [(&str, Fault); 5] = [
    ("deschedule", Fault::Deschedule),
    ("slow_core", Fault::SlowCore),
    ("offline", Fault::Offline),
    ("clock_jump", Fault::ClockJump),
    ("late_wakes", Fault::LateWakes),
];

impl Fault {
    /// The fault with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let known = WORDS.iter().find(|(word, _)| *word == name);
        known.map(|(_, fault)| *fault)
    }
}

impl fmt::Display for Fault {
    /// As the option `faults` of the attribute writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|(_, fault)| fault == self);
        f.write_str(word.map_or("", |(word, _)| word))
    }
}

/// With which seeds a program runs, and what is simulated.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The number of cores.
    pub cores: usize,
    /// The seeds.
    pub seeds: std::ops::Range<u64>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// The machine; `None` for the default one with so many cores. Else why there is no such machine.
    pub(super) machine: Result<Option<MachineSpec>, String>,
    /// The number of steps after which a run has failed.
    pub events_max: u64,
    /// The simulated time after which it has failed.
    pub time_max: Duration,
    /// How long, by the OS's clock, a program may go without a step.
    pub patience: Duration,
    /// How long, by the OS's clock, a failure is made smaller.
    pub shrink_within: Duration,
    /// The file for a trace of the run that fails.
    pub trace: Option<PathBuf>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            cores: 8,
            seeds: 0..10,
            faults: Vec::new(),
            machine: Ok(None),
            events_max: 200_000_000,
            time_max: Duration::from_secs(24 * 60 * 60),
            patience: Duration::from_secs(10),
            shrink_within: Duration::from_secs(5),
            trace: None,
        }
    }
}

impl Setup {
    /// Simulates this machine.
    pub fn simulate(&mut self, machine: MachineSpec) {
        self.machine = Ok(Some(machine));
    }

    /// Simulates the machine of a profile, by its name or its file. If there is none, no run begins.
    pub fn simulate_profile(&mut self, name: &str) {
        let profile = Profile::load(name);
        let spec = profile.map(|profile| Some(profile.spec().clone()));
        self.machine = spec.map_err(|error| error.to_string());
    }

    /// Whether there is such a machine, with a CPU for each core.
    pub(super) fn check(&self) -> Result<(), String> {
        self.machine.as_ref().map_err(Clone::clone)?;
        let (cores, cpus) = (self.cores, self.spec().cpus());
        if cores == 0 {
            Err("a runtime needs at least one core; ask for 1 or more".to_owned())
        } else if cores > cpus {
            Err(format!("{cores} cores do not fit on {cpus} CPUs"))
        } else {
            Ok(())
        }
    }

    /// The machine, with a CPU for each core and, if there is room, one for the thread that runs the program.
    fn spec(&self) -> MachineSpec {
        let cpus = self.cores.saturating_add(1).min(CPUS_MAX).max(self.cores);
        let default = || MachineSpec {
            llc_groups_per_socket: cpus.div_ceil(CORES_PER_CACHE),
            cores_per_llc: cpus.min(CORES_PER_CACHE),
            ..MachineSpec::default()
        };
        let machine = self.machine.clone().ok().flatten();
        machine.unwrap_or_else(default)
    }

    /// The CPU of the thread that runs the program: one without a worker, if there is one.
    #[must_use]
    pub fn cpu_of_program(&self) -> usize {
        if self.cores < self.spec().cpus() {
            self.cores
        } else {
            0
        }
    }

    pub(super) fn of_seed(&self, seed: u64) -> Config {
        Config {
            seed,
            machine: self.spec(),
            memory: Memory::Tso,
            faults: self.faults_of(seed),
            events_max: self.events_max,
            time_max_ns: u64::try_from(self.time_max.as_nanos()).unwrap_or(u64::MAX),
            stack_bytes: STACK_BYTES,
            whole_polls: true,
            lines_reused: true,
            ..Config::default()
        }
    }

    fn faults_of(&self, seed: u64) -> Faults {
        let mut faults = Faults::default();
        for fault in &self.faults {
            match fault {
                Fault::Deschedule => {
                    faults.deschedule_chance = 200;
                    faults.deschedule_ns = between(50_000, 2 * MS);
                }
                Fault::SlowCore => {
                    let cpu = (seed % self.cores.max(1) as u64) as usize;
                    faults.slow_cpus = vec![(cpu, 300)];
                }
                // Not a fault of the machine: the runtime is told.
                Fault::Offline => {}
                Fault::ClockJump => {
                    faults.clock_jump_chance = 50;
                    faults.clock_jump_ns = between(MS, 100 * MS);
                }
                Fault::LateWakes => {
                    faults.late_chance = 20_000;
                    faults.late_ns = between(10_000, MS);
                }
            }
        }
        faults
    }
}

fn between(min_ns: u64, max_ns: u64) -> Range {
    Range { min_ns, max_ns }
}
