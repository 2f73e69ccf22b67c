//! [`Config`]: what is simulated.

use super::alive::Alive;
use crate::rt::Plan;
use crate::{BuildError, Builder};
use doorbell_machine::sim::profile::Profile;
use doorbell_machine::sim::{
    self as machine, CPUS_MAX, Faults, MachineSpec, Memory, Range, Witness,
};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Cores, unless told.
const CORES: usize = 8;

/// Seeds, unless told.
const SEEDS: std::ops::Range<u64> = 0..10;

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
    /// A random core is taken off ([`Handle::core_offline`](crate::Handle::core_offline)) for 0.1 to 2 ms, and put back;
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
    /// The fault with this name, as the option `faults` of the attribute writes it.
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

/// What [`run`](super::run()) simulates.
///
/// ```
/// use doorbell::sim::{Config, Fault};
///
/// let config = Config::new().cores(64).seeds(0..100).faults([Fault::Deschedule]);
/// # drop(config);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) cores: usize,
    pub(super) seeds: std::ops::Range<u64>,
    pub(super) faults: Vec<Fault>,
    machine: Option<MachineSpec>,
    /// Why there is no such machine.
    pub(super) no_machine: Option<String>,
    builder: Builder,
    events_max: u64,
    time_max: Duration,
    pub(super) patience: Duration,
    pub(super) shrink_within: Duration,
    pub(super) trace: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            cores: CORES,
            seeds: SEEDS,
            faults: Vec::new(),
            machine: None,
            no_machine: None,
            builder: Builder::new().name("sim"),
            events_max: 200_000_000,
            time_max: Duration::from_secs(24 * 60 * 60),
            patience: Duration::from_secs(10),
            shrink_within: Duration::from_secs(5),
            trace: None,
        }
    }
}

impl Config {
    /// Eight cores, the seeds from 0 to 9, and no faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Simulates this many cores, 1 to 1,024.
    #[must_use]
    pub fn cores(mut self, count: usize) -> Self {
        self.cores = count;
        self
    }

    /// Runs the program with each of these seeds, twice.
    #[must_use]
    pub fn seeds(mut self, seeds: std::ops::Range<u64>) -> Self {
        self.seeds = seeds;
        self
    }

    /// Lets these faults happen.
    #[must_use]
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    /// Builds each runtime with these settings, and with as many cores as the builder was told; a later
    /// [`cores`](Config::cores) replaces that number. The settings that are not simulated fail the run, with their name:
    /// `core_list`, `pin(false)`, `stack_size`, `blocking_threads`, `blocking_keep_alive`, `on_stall` and
    /// `around_threads`.
    #[must_use]
    pub fn builder(mut self, builder: Builder) -> Self {
        self.cores = builder.count_of_cores().unwrap_or(self.cores);
        self.builder = builder;
        self
    }

    /// Simulates this machine: its caches, its sockets and what everything costs there. Without this it is one socket
    /// with eight cores for each last-level cache, and costs of the order of current servers.
    #[must_use]
    pub fn machine(mut self, machine: MachineSpec) -> Self {
        (self.machine, self.no_machine) = (Some(machine), None);
        self
    }

    /// As [`machine`](Config::machine), with the machine of a profile: of one that comes with doorbell (`epyc-2x64`,
    /// `broadwell-2x22-smt`, `xeon-40`, `smt-20`, `zen3-2x64`, `vm-2`), or of a file, which `doorbell calibrate` writes. A
    /// path is relative to the package of the test, where cargo runs it. The cores are the first CPUs of the machine. If
    /// there is no such profile, the run fails and says so.
    ///
    /// ```
    /// use doorbell::sim::{self, Config};
    ///
    /// sim::run(Config::new().cores(32).seeds(0..1).profile("zen3-2x64"), || async {})?;
    /// assert!(sim::run(Config::new().profile("zen4"), || async {}).is_err());
    /// # Ok::<(), sim::Failed>(())
    /// ```
    #[must_use]
    pub fn profile(mut self, name: &str) -> Self {
        match Profile::load(name) {
            Ok(profile) => self.machine(profile.spec().clone()),
            Err(error) => {
                self.no_machine = Some(error.to_string());
                self
            }
        }
    }

    /// The number of steps after which a run has failed. The default is 200 million, which takes some ten seconds.
    #[must_use]
    pub fn events_max(mut self, events: u64) -> Self {
        self.events_max = events;
        self
    }

    /// The simulated time after which a run has failed. The default is one day.
    #[must_use]
    pub fn time_max(mut self, time: Duration) -> Self {
        self.time_max = time;
        self
    }

    /// How long, by the OS's clock, a program may go without a step of the simulation. Then the run has failed: the
    /// program waits in the OS, where no simulated thread wakes it, or computes without end. The default is 10 s.
    #[must_use]
    pub fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }

    /// How long, by the OS's clock, a failure is made smaller: the program is run with fewer faults, and then on fewer
    /// cores, ten seeds each, and the smallest run that fails in the same way is told of. The default is 5 s; zero is not
    /// at all.
    #[must_use]
    pub fn shrink_within(mut self, time: Duration) -> Self {
        self.shrink_within = time;
        self
    }

    /// Writes a trace of the run that fails to this file, for Perfetto's viewer (<https://ui.perfetto.dev>): what each
    /// thread does, the polls of tasks with their names, wakes and faults, and a mark where the run fails.
    #[must_use]
    pub fn trace(mut self, file: impl Into<PathBuf>) -> Self {
        self.trace = Some(file.into());
        self
    }

    /// Lowers the number of steps after which a run is given up.
    pub(super) fn give_up_after(mut self, events: u64) -> Self {
        self.events_max = self.events_max.min(events);
        self
    }

    /// The machine, with a CPU for each core and, if there is room, one for the thread that runs the program.
    fn spec(&self) -> MachineSpec {
        let cpus = self.cores.saturating_add(1).min(CPUS_MAX).max(self.cores);
        let default = || MachineSpec {
            llc_groups_per_socket: cpus.div_ceil(CORES_PER_CACHE),
            cores_per_llc: cpus.min(CORES_PER_CACHE),
            ..MachineSpec::default()
        };
        self.machine.clone().unwrap_or_else(default)
    }

    /// The CPU of the thread that runs the program: one without a worker, if there is one.
    pub(super) fn cpu_of_program(&self) -> usize {
        if self.cores < self.spec().cpus() {
            self.cores
        } else {
            0
        }
    }

    /// The settings of the runtime.
    pub(super) fn plan(&self, alive: &Alive, witness: Option<Witness>) -> Result<Plan, BuildError> {
        let builder = alive.watch(self.builder.clone(), witness);
        builder.plan_simulated(self.cores)
    }

    /// Whether cores are taken off meanwhile.
    pub(super) fn takes_cores_off(&self) -> bool {
        self.faults.contains(&Fault::Offline)
    }

    /// Whether each core has a CPU; else the number of CPUs.
    pub(super) fn check_cpus(&self) -> Result<(), usize> {
        let cpus = self.spec().cpus();
        if self.cores > cpus { Err(cpus) } else { Ok(()) }
    }

    pub(super) fn of_seed(&self, seed: u64) -> machine::Config {
        machine::Config {
            seed,
            machine: self.spec(),
            memory: Memory::Tso,
            faults: self.faults_of(seed),
            events_max: self.events_max,
            time_max_ns: u64::try_from(self.time_max.as_nanos()).unwrap_or(u64::MAX),
            stack_bytes: STACK_BYTES,
            whole_polls: true,
            lines_reused: true,
            ..machine::Config::default()
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
