//! [`Builder`]: a runtime before it runs.

use crate::blocking::BlockingPlan;
use crate::rt::{Owner, Plan};
use crate::runtime::Runtime;
use crate::watch_plan::Watching;
use crate::{SwitchError, Switches, room};
use doorbell_core::lane::IdlePolicy as LaneIdle;
use doorbell_machine::{Host, Machine, ThreadError, Topology};
use std::time::Duration;

/// The longest that an idle lane watches before it parks, unless told otherwise.
const WATCH_MAX_NS: u64 = 50_000;

/// How much of its time an idle lane watches in vain, unless told otherwise.
const BUDGET: f64 = 0.05;

/// More lanes than any machine has CPUs.
const CORES_MAX: usize = 4_096;

/// The environment variable that sets switches for runtimes whose builder does not.
const SWITCHES_VARIABLE: &str = "DOORBELL_SWITCHES";

/// Why a runtime was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Zero cores.
    #[error("a runtime needs at least one core; ask for 1 or more, or leave the number out")]
    NoCores,
    /// More cores than a runtime can have.
    #[error("{asked} cores are more than the {CORES_MAX} that a runtime can have; ask for fewer")]
    TooManyCores {
        /// The number of cores asked for.
        asked: usize,
    },
    /// The name cannot be given to a thread.
    #[error("a thread's name cannot contain a NUL byte; choose another name than {name:?}")]
    Name {
        /// The name asked for.
        name: String,
    },
    /// A mailbox without room.
    #[error(
        "a mailbox with room for 0 calls takes none; give it room for 1 or more, or set no limit"
    )]
    NoRoom,
    /// A budget that is no share of a CPU.
    #[error(
        "an idle lane cannot watch {budget} of its time; give a budget above 0 and at most 1, or use IdlePolicy::Park"
    )]
    IdleBudget {
        /// The budget asked for.
        budget: f64,
    },
    /// A CPU of the list is not in the process's affinity mask.
    #[error(
        "CPU {cpu} is not among the CPUs that this process may use ({allowed}); choose from those, or widen the mask (taskset, cpuset)"
    )]
    CpuNotAllowed {
        /// The CPU asked for.
        cpu: usize,
        /// The CPUs of the mask.
        allowed: CpuList,
    },
    /// A CPU stands in the list twice.
    #[error("CPU {cpu} stands in the list twice; name each CPU once")]
    CpuTwice {
        /// The CPU.
        cpu: usize,
    },
    /// More cores than CPUs, to be pinned.
    #[error(
        "{asked} cores cannot be pinned to {cpus} CPUs; ask for at most {cpus} cores, or build with pin(false)"
    )]
    TooManyToPin {
        /// The number of cores asked for.
        asked: usize,
        /// The number of CPUs in the affinity mask.
        cpus: usize,
    },
    /// No thread for closures that block, or more than a runtime can have.
    #[error("{asked} threads for spawn_blocking cannot be; ask for 1 to {most}")]
    BlockingThreads {
        /// The number of threads asked for.
        asked: usize,
        /// The most that a runtime can have.
        most: usize,
    },
    /// The environment variable `DOORBELL_SWITCHES` could not be read.
    #[error("{SWITCHES_VARIABLE} is wrong: {0}")]
    Switches(#[from] SwitchError),
    /// A lane's thread was not started.
    #[error(transparent)]
    Thread(#[from] ThreadError),
}

/// A list of CPUs, shown as numbers and commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(pub Vec<usize>);

impl std::fmt::Display for CpuList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, cpu) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{cpu}")?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Cores {
    All,
    Count(usize),
    List(Vec<usize>),
}

/// Describes a runtime.
///
/// ```
/// use std::time::Duration;
///
/// let runtime = doorbell::Builder::new()
///     .cores(2)
///     .name("web")
///     .watch(Duration::from_micros(20))
///     .build()?;
/// assert_eq!(runtime.cores(), 2);
/// # Ok::<(), doorbell::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    cores: Cores,
    name: String,
    pin: Option<bool>,
    idle: LaneIdle,
    switches: Option<Switches>,
    pub(crate) blocking: BlockingPlan,
    pub(crate) mailbox_limit: Option<usize>,
    pub(crate) watch: Watching,
}

/// How an idle lane waits for work: see [`Builder::idle`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum IdlePolicy {
    /// It blocks in the OS at once. Whoever wakes it makes a syscall, and it comes tens of
    /// microseconds later.
    Park,
    /// It watches for up to 50 µs while wakes keep coming soon after it parked, and less and
    /// less while they do not. Source: the kernel's `haltpoll` governor.
    Adaptive {
        /// How much of its time it may watch in vain, above 0 and at most 1: with 0.05, 5 per
        /// cent of a CPU.
        budget: f64,
    },
    /// It never blocks, and burns its CPU.
    Spin,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            cores: Cores::All,
            name: "doorbell".to_owned(),
            pin: None,
            idle: LaneIdle::Adaptive {
                watch_max_ns: WATCH_MAX_NS,
                budget: BUDGET,
            },
            switches: None,
            blocking: BlockingPlan::default(),
            mailbox_limit: None,
            watch: Watching::default(),
        }
    }
}

impl Builder {
    /// One core per CPU of the affinity mask of the thread that builds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses this many cores.
    #[must_use]
    pub fn cores(mut self, count: usize) -> Self {
        self.cores = Cores::Count(count);
        self
    }

    /// Uses these CPUs, by the OS's numbers, as cores 0, 1, … in this order, and binds the
    /// lanes to them unless [`Builder::pin`] says otherwise.
    #[must_use]
    pub fn core_list(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cores = Cores::List(cpus.into_iter().collect());
        self
    }

    /// Names the lanes' threads `name-0`, `name-1`, …; Linux shows the first 15 bytes.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Whether lanes are bound to their CPUs. Unless told, they are if the CPUs were listed, or
    /// if all CPUs of the affinity mask are used and it leaves out CPUs of the machine: then
    /// somebody has given this process CPUs of its own.
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = Some(pin);
        self
    }

    /// How an idle lane waits: unless told, [`IdlePolicy::Adaptive`] with a budget of 0.05. While it watches it is reached without a syscall, and burns its
    /// CPU; while it is parked it costs nothing. Wrong budgets are reported by
    /// [`Builder::build`].
    #[must_use]
    pub fn idle(mut self, policy: IdlePolicy) -> Self {
        self.idle = match policy {
            IdlePolicy::Park => LaneIdle::Park,
            IdlePolicy::Adaptive { budget } => LaneIdle::Adaptive {
                watch_max_ns: WATCH_MAX_NS,
                budget,
            },
            IdlePolicy::Spin => LaneIdle::Spin,
        };
        self
    }

    /// Has an idle lane watch this long each time, whatever comes of it, before it parks: for
    /// measurements and tests. Takes the place of [`Builder::idle`].
    #[must_use]
    pub fn watch(mut self, time: Duration) -> Self {
        let watch_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.idle = LaneIdle::Watch { watch_ns };
        self
    }

    /// The settings of the switches. Unless told, those of the environment variable
    /// `DOORBELL_SWITCHES` (`idle_notify=off,call_coalesce=base`), else the defaults.
    #[must_use]
    pub fn switches(mut self, switches: Switches) -> Self {
        self.switches = Some(switches);
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    /// [`BuildError`] names what is wrong and what to do; no thread is left behind.
    pub fn build(self) -> Result<Runtime, BuildError> {
        if self.name.contains('\0') {
            return Err(BuildError::Name { name: self.name });
        }
        if let LaneIdle::Adaptive { budget, .. } = self.idle
            && !(budget > 0.0 && budget <= 1.0)
        {
            return Err(BuildError::IdleBudget { budget });
        }
        self.blocking.check()?;
        room::check(self.mailbox_limit)?;
        let switches = match self.switches {
            Some(switches) => switches,
            None => switches_of_environment()?,
        };
        let plan = Plan {
            cpus: self.choose_cpus(&Host::topology(), Host::cpu_count())?,
            name: self.name,
            idle: self.idle,
            switches,
            blocking: self.blocking,
            mailbox_limit: self.mailbox_limit,
            watch: self.watch.plan(),
        };
        Ok(Runtime::of(Owner::start(&plan)?))
    }

    /// The CPU of each core, `None` where it is left free. `on_machine` is the number of CPUs
    /// that the machine has, allowed or not.
    fn choose_cpus(
        &self,
        topology: &Topology,
        on_machine: usize,
    ) -> Result<Vec<Option<usize>>, BuildError> {
        let allowed: Vec<usize> = topology.cpus.iter().map(|cpu| cpu.os_id).collect();
        let of_its_own = allowed.len() < on_machine;
        let pin = self.pin.unwrap_or(match self.cores {
            Cores::List(_) => true,
            Cores::All => of_its_own,
            // Two runtimes of two cores each would be bound to the same two CPUs.
            Cores::Count(_) => false,
        });
        let chosen: Vec<usize> = match &self.cores {
            Cores::List(list) => check_list(list, &allowed)?,
            Cores::All => allowed,
            Cores::Count(count) if *count > CORES_MAX => {
                return Err(BuildError::TooManyCores { asked: *count });
            }
            Cores::Count(count) if *count > allowed.len() => {
                // More lanes than CPUs: fine if the OS spreads them.
                return match self.pin {
                    Some(true) => Err(BuildError::TooManyToPin {
                        asked: *count,
                        cpus: allowed.len(),
                    }),
                    Some(false) | None => Ok(vec![None; *count]),
                };
            }
            Cores::Count(count) => allowed[..*count].to_vec(),
        };
        if chosen.is_empty() {
            return Err(BuildError::NoCores);
        }
        Ok(chosen.into_iter().map(|cpu| pin.then_some(cpu)).collect())
    }
}

fn check_list(list: &[usize], allowed: &[usize]) -> Result<Vec<usize>, BuildError> {
    for (i, &cpu) in list.iter().enumerate() {
        if !allowed.contains(&cpu) {
            let allowed = CpuList(allowed.to_vec());
            return Err(BuildError::CpuNotAllowed { cpu, allowed });
        }
        if list[..i].contains(&cpu) {
            return Err(BuildError::CpuTwice { cpu });
        }
    }
    Ok(list.to_vec())
}

fn switches_of_environment() -> Result<Switches, SwitchError> {
    match std::env::var(SWITCHES_VARIABLE) {
        Ok(text) => text.parse(),
        Err(std::env::VarError::NotPresent) => Ok(Switches::default()),
        Err(std::env::VarError::NotUnicode(text)) => {
            Err(SwitchError::Form(text.to_string_lossy().into_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BuildError, Builder};
    use doorbell_machine::Topology;

    fn on(cpus: &[usize]) -> Topology {
        Topology::flat(cpus.iter().copied(), "a test")
    }

    #[test]
    fn the_default_is_one_core_per_allowed_cpu() {
        let cpus = Builder::new().choose_cpus(&on(&[0, 1, 2]), 3).unwrap();
        assert_eq!(cpus, [None, None, None]);
    }

    #[test]
    fn a_mask_of_its_own_or_a_list_is_pinned_unless_told_otherwise() {
        let masked = Builder::new().choose_cpus(&on(&[4, 6]), 8).unwrap();
        assert_eq!(masked, [Some(4), Some(6)]);
        let listed = Builder::new()
            .core_list([1, 0])
            .choose_cpus(&on(&[0, 1]), 2)
            .unwrap();
        assert_eq!(listed, [Some(1), Some(0)]);
        let free = Builder::new().core_list([1, 0]).pin(false);
        assert_eq!(free.choose_cpus(&on(&[0, 1]), 2).unwrap(), [None, None]);
        let pinned = Builder::new().cores(1).pin(true);
        assert_eq!(pinned.choose_cpus(&on(&[0, 1]), 2).unwrap(), [Some(0)]);
    }

    #[test]
    fn numbers_and_names_that_cannot_be() {
        let many = Builder::new().cores(usize::MAX).build().unwrap_err();
        assert!(matches!(
            many,
            BuildError::TooManyCores { asked: usize::MAX }
        ));
        let name = Builder::new().cores(1).name("a\0b").build().unwrap_err();
        assert!(name.to_string().contains("NUL"), "{name}");
    }

    #[test]
    fn a_number_of_cores_is_not_pinned_unless_told() {
        let some = Builder::new().cores(2);
        assert_eq!(
            some.choose_cpus(&on(&[0, 1, 2, 3]), 8).unwrap(),
            [None, None]
        );
    }

    #[test]
    fn bad_choices_say_what_to_do() {
        let none = Builder::new().cores(0).choose_cpus(&on(&[0]), 1);
        assert!(matches!(none, Err(BuildError::NoCores)));
        let none = Builder::new().core_list([]).choose_cpus(&on(&[0]), 1);
        assert!(matches!(none, Err(BuildError::NoCores)));
        let outside = Builder::new()
            .core_list([0, 9])
            .choose_cpus(&on(&[0, 2]), 4)
            .unwrap_err();
        assert!(
            outside.to_string().starts_with("CPU 9 is not among"),
            "{outside}"
        );
        assert!(outside.to_string().contains("(0, 2)"), "{outside}");
        let twice = Builder::new().core_list([0, 0]).choose_cpus(&on(&[0]), 1);
        assert!(matches!(twice, Err(BuildError::CpuTwice { cpu: 0 })));
        let many = Builder::new()
            .cores(3)
            .pin(true)
            .choose_cpus(&on(&[0, 1]), 2);
        assert!(matches!(
            many,
            Err(BuildError::TooManyToPin { asked: 3, cpus: 2 })
        ));
    }

    #[test]
    fn more_cores_than_cpus_run_unpinned() {
        let cpus = Builder::new()
            .cores(3)
            .choose_cpus(&on(&[0, 1]), 2)
            .unwrap();
        assert_eq!(cpus, [None, None, None]);
    }
}
