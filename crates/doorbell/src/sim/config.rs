//! [`Config`]: what is simulated.

use super::{Fault, MachineSpec};
use crate::Builder;
use doorbell_machine::sim::seeds::Setup;
use std::path::PathBuf;
use std::time::Duration;

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
    pub(super) setup: Setup,
    pub(super) builder: Builder,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            setup: Setup::default(),
            builder: Builder::new().name("sim"),
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
        self.setup.cores = count;
        self
    }

    /// Runs the program with each of these seeds, twice.
    #[must_use]
    pub fn seeds(mut self, seeds: std::ops::Range<u64>) -> Self {
        self.setup.seeds = seeds;
        self
    }

    /// Lets these faults happen.
    #[must_use]
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.setup.faults = faults.into_iter().collect();
        self
    }

    /// Builds each runtime with these settings, and with as many cores as the builder was told; a later
    /// [`cores`](Config::cores) replaces that number. The settings that are not simulated fail the run, with their name:
    /// `core_list`, `pin(false)`, `stack_size`, `blocking_threads`, `blocking_keep_alive`, `on_stall` and
    /// `around_threads`.
    #[must_use]
    pub fn builder(mut self, builder: Builder) -> Self {
        self.setup.cores = builder.count_of_cores().unwrap_or(self.setup.cores);
        self.builder = builder;
        self
    }

    /// Simulates this machine: its caches, its sockets and what everything costs there. Without this it is one socket
    /// with eight cores for each last-level cache, and costs of the order of current servers.
    #[must_use]
    pub fn machine(mut self, machine: MachineSpec) -> Self {
        self.setup.simulate(machine);
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
        self.setup.simulate_profile(name);
        self
    }

    /// The number of steps after which a run has failed. The default is 200 million, which takes some ten seconds.
    #[must_use]
    pub fn events_max(mut self, events: u64) -> Self {
        self.setup.events_max = events;
        self
    }

    /// The simulated time after which a run has failed. The default is one day.
    #[must_use]
    pub fn time_max(mut self, time: Duration) -> Self {
        self.setup.time_max = time;
        self
    }

    /// How long, by the OS's clock, a program may go without a step of the simulation. Then the run has failed: the
    /// program waits in the OS, where no simulated thread wakes it, or computes without end. The default is 10 s.
    #[must_use]
    pub fn patience(mut self, time: Duration) -> Self {
        self.setup.patience = time;
        self
    }

    /// How long, by the OS's clock, a failure is made smaller: the program is run with fewer faults, and then on fewer
    /// cores, ten seeds each, and the smallest run that fails in the same way is told of. The default is 5 s; zero is not
    /// at all.
    #[must_use]
    pub fn shrink_within(mut self, time: Duration) -> Self {
        self.setup.shrink_within = time;
        self
    }

    /// Writes a trace of the run that fails to this file, for Perfetto's viewer (<https://ui.perfetto.dev>): what each
    /// thread does, the polls of tasks with their names, wakes and faults, and a mark where the run fails.
    #[must_use]
    pub fn trace(mut self, file: impl Into<PathBuf>) -> Self {
        self.setup.trace = Some(file.into());
        self
    }
}
