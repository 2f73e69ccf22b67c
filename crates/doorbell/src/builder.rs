//! [`Builder`]: configures and starts a runtime.

use crate::around::AroundPlan;
use crate::blocking::BlockingPlan;
use crate::owner::Owner;
use crate::rt::Plan;
use crate::rt_budget::RtBudget;
use crate::rt_plan::RtPlan;
use crate::runtime::Runtime;
use crate::telemetry::TelemetryOptions;
use crate::{
    room, stack_size,
    switches::{SwitchError, Switches},
};
use doorbell_core::worker::IdlePolicy as WorkerIdle;
use doorbell_machine::{Host, Machine, ThreadError, Topology};
use std::time::Duration;

/// Default: the longest that an idle worker spins before it parks.
const SPIN_MAX_NS: u64 = 50_000;

/// Default: the share of its time that an idle worker may spin in vain.
const BUDGET: f64 = 0.05;

/// Default priority of Rt workers under `SCHED_FIFO`: above the usual threads of other programs, below the
/// kernel's interrupt threads (50).
const RT_PRIORITY: u8 = 10;

/// The most cores of a runtime: more than any machine has CPUs.
const CORES_MAX: usize = 4_096;

/// The environment variable that sets the switches, unless the builder does.
const SWITCHES_VARIABLE: &str = "DOORBELL_SWITCHES";

/// Why a runtime was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No core was asked for: the number is 0, or the list of CPUs is empty.
    #[error("a runtime needs at least one core; ask for 1 or more, or leave the number out")]
    NoCores,
    /// More cores than a runtime can have.
    #[error("{asked} cores are more than the {CORES_MAX} that a runtime can have; ask for fewer")]
    TooManyCores {
        /// The number of cores asked for.
        asked: usize,
    },
    /// The name contains a NUL byte, so it cannot be the name of a thread.
    #[error("a thread's name cannot contain a NUL byte; choose another name than {name:?}")]
    Name {
        /// The name asked for.
        name: String,
    },
    /// The mailbox limit is 0.
    #[error(
        "a mailbox with room for 0 calls takes none; give it room for 1 or more, or set no limit"
    )]
    NoRoom,
    /// The spin budget of [`IdlePolicy::Adaptive`] is not above 0 and at most 1.
    #[error(
        "an idle worker cannot spin {budget} of its time; give a budget above 0 and at most 1, or use IdlePolicy::Park"
    )]
    IdleBudget {
        /// The budget asked for.
        budget: f64,
    },
    /// A CPU of [`Builder::core_list`] is not in the affinity mask of the thread that builds.
    #[error(
        "CPU {cpu} is not among the CPUs that this process may use ({}); choose from those, or widen the mask (taskset, cpuset)",
        listed(allowed)
    )]
    CpuNotAllowed {
        /// The CPU asked for.
        cpu: usize,
        /// The CPUs of the mask.
        allowed: Vec<usize>,
    },
    /// A CPU is in [`Builder::core_list`] twice.
    #[error("CPU {cpu} stands in the list twice; name each CPU once")]
    CpuTwice {
        /// The CPU.
        cpu: usize,
    },
    /// Pinning was asked for, with more cores than CPUs.
    #[error(
        "{asked} cores cannot be pinned to {cpus} CPUs; ask for at most {cpus} cores, or build with pin(false)"
    )]
    TooManyToPin {
        /// The number of cores asked for.
        asked: usize,
        /// The number of CPUs in the affinity mask.
        cpus: usize,
    },
    /// The stack size is below 64 KiB or above `isize::MAX`.
    #[error(
        "a thread cannot have a stack of {asked} bytes; give it at least 64 KiB, or leave the size out"
    )]
    StackSize {
        /// The size asked for, in bytes.
        asked: usize,
    },
    /// [`Builder::blocking_threads`] is 0, or more than a runtime can have.
    #[error("a runtime cannot have {asked} threads for spawn_blocking; ask for 1 to {most}")]
    BlockingThreads {
        /// The number of threads asked for.
        asked: usize,
        /// The most that a runtime can have.
        most: usize,
    },
    /// The priority of the Rt workers is not one of 1 to 99.
    #[error("urgent workers cannot have priority {asked}; give them one from 1 to 99")]
    RtPriority {
        /// The priority asked for.
        asked: u8,
    },
    /// The share of [`Builder::rt_budget`] is not above 0 and at most 1.
    #[error("urgent workers cannot run {share} of their time; give them more than 0 and at most 1")]
    RtBudget {
        /// The share asked for.
        share: f64,
    },
    /// The period of [`Builder::rt_budget`] is below 1 ms or above 1 s.
    #[error(
        "the budget of urgent workers cannot be for {period:?}; give it a period of 1 ms to 1 s"
    )]
    RtPeriod {
        /// The period asked for.
        period: Duration,
    },
    /// The environment variable `DOORBELL_SWITCHES` cannot be parsed, or names an unknown switch or setting.
    #[error("{SWITCHES_VARIABLE} is wrong: {0}")]
    Switches(#[from] SwitchError),
    /// What was to be started with the runtime did not start: see [`Builder::around_threads`].
    #[error("what goes with the runtime did not start: {0}")]
    Around(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The caller is inside a simulation.
    #[cfg(feature = "sim")]
    #[error(
        "a runtime of this computer cannot run inside a simulation; use the one that `doorbell::sim::run` has started"
    )]
    InsideSimulation,
    /// The builder of a simulation has a setting that simulated cores cannot follow.
    #[cfg(feature = "sim")]
    #[error("`Builder::{setting}` is not simulated; leave it out of the builder of a simulation")]
    NotSimulated {
        /// The name of the setting.
        setting: &'static str,
    },
    /// The OS did not start a thread of the runtime.
    #[error(transparent)]
    Thread(#[from] ThreadError),
}

/// CPUs as numbers and commas.
fn listed(cpus: &[usize]) -> String {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    cpus.join(", ")
}

#[derive(Clone, Debug)]
pub(crate) enum Cores {
    All,
    Count(usize),
    List(Vec<usize>),
}

/// Configures a runtime; [`Builder::build`] starts it.
///
/// ```
/// use std::time::Duration;
///
/// let runtime = doorbell::Builder::new()
///     .cores(2)
///     .name("web")
///     .spin(Duration::from_micros(20))
///     .build()?;
/// assert_eq!(runtime.cores(), 2);
/// # Ok::<(), doorbell::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) cores: Cores,
    name: String,
    pub(crate) pin: Option<bool>,
    idle: WorkerIdle,
    switches: Option<Switches>,
    pub(crate) blocking: BlockingPlan,
    pub(crate) mailbox_limit: Option<usize>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) telemetry: TelemetryOptions,
    pub(crate) around: AroundPlan,
    paused: bool,
    shuffle: Option<u64>,
    rt_priority: u8,
    pub(crate) rt_budget: RtBudget,
}

/// How an idle worker waits for work: see [`Builder::idle`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum IdlePolicy {
    /// The worker blocks in the OS at once. Waking it costs the waker a syscall, and the worker runs tens of
    /// microseconds later.
    Park,
    /// The worker spins for up to 50 µs before it parks. The time grows while wakes come soon after the
    /// worker parked, and shrinks while they do not. Source: the kernel's `haltpoll` governor.
    Adaptive {
        /// The share of its time that the worker may spin in vain, above 0 and at most 1. With 0.05 it is 5
        /// per cent of a CPU.
        budget: f64,
    },
    /// The worker never blocks: it uses its whole CPU, except while a worker of another class can run there.
    NeverPark,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            cores: Cores::All,
            name: "doorbell".to_owned(),
            pin: None,
            idle: WorkerIdle::Adaptive {
                spin_max_ns: SPIN_MAX_NS,
                budget: BUDGET,
            },
            switches: None,
            blocking: BlockingPlan::default(),
            mailbox_limit: None,
            stack_size: None,
            telemetry: TelemetryOptions::default(),
            around: AroundPlan::default(),
            paused: false,
            shuffle: None,
            rt_priority: RT_PRIORITY,
            rt_budget: RtBudget::default(),
        }
    }
}

// By hand: a builder is only a description; what a hook of a user's does is that user's.
impl std::panic::UnwindSafe for Builder {}
impl std::panic::RefUnwindSafe for Builder {}

impl Builder {
    /// A runtime with one core for each CPU in the affinity mask of the thread that builds. The CPU quotas of
    /// its control groups limit the number: with `cpu.max` at `150000 100000` it is at most two.
    #[doc(alias(
        "new_multi_thread",
        "new_current_thread",
        "enable_all",
        "enable_io",
        "enable_time"
    ))]
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses this many cores, at most 4,096, whatever the affinity mask and the quotas are.
    #[doc(alias = "worker_threads")]
    #[must_use]
    pub fn cores(mut self, count: usize) -> Self {
        self.cores = Cores::Count(count);
        self
    }

    /// Uses these CPUs, by the OS's numbers, as cores 0, 1, … in this order. The workers are bound to them,
    /// unless [`Builder::pin`] says otherwise.
    #[must_use]
    pub fn core_list(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cores = Cores::List(cpus.into_iter().collect());
        self
    }

    /// Names the threads of the Fair workers `name-0`, `name-1`, …; the others begin with `name` too, as
    /// `name-0-rt`. The default is `doorbell`. Linux shows the first 15 bytes.
    #[doc(alias = "thread_name")]
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Whether each worker is bound to the CPU of its core.
    ///
    /// By default the workers are bound in two cases: the CPUs were listed ([`Builder::core_list`]), or the
    /// number of cores was left to the runtime, it uses all CPUs of the affinity mask, and the mask leaves
    /// out CPUs of the machine. In the second case the process has been given CPUs of its own.
    ///
    /// A runtime with fewer cores than the mask has CPUs is bound to neighbouring CPUs. Each runtime chooses
    /// at random where they begin, so that programs that know nothing of each other do not all begin at the
    /// first CPU. To choose the CPUs, use [`Builder::core_list`].
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = Some(pin);
        self
    }

    /// How an idle Fair worker waits for work. The default is [`IdlePolicy::Adaptive`] with a budget of 0.05.
    /// A spinning worker is reached without a syscall, and uses its CPU; a parked worker costs nothing.
    /// Workers of the other classes always park. [`Builder::build`] reports a wrong budget.
    #[must_use]
    pub fn idle(mut self, policy: IdlePolicy) -> Self {
        self.idle = match policy {
            IdlePolicy::Park => WorkerIdle::Park,
            IdlePolicy::Adaptive { budget } => WorkerIdle::Adaptive {
                spin_max_ns: SPIN_MAX_NS,
                budget,
            },
            IdlePolicy::NeverPark => WorkerIdle::NeverPark,
        };
        self
    }

    /// The priority of the Rt workers under `SCHED_FIFO`, where the OS allows that: 1 to 99, by default 10.
    /// It orders these workers among the threads of the machine. It does not order the tasks of a worker.
    #[must_use]
    pub fn rt_priority(mut self, priority: u8) -> Self {
        self.rt_priority = priority;
        self
    }

    /// Has an idle Fair worker spin this long each time before it parks, and up to 100 µs before a timer: for measurements
    /// and tests. Replaces [`Builder::idle`].
    #[must_use]
    pub fn spin(mut self, time: Duration) -> Self {
        let spin_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.idle = WorkerIdle::Spin { spin_ns };
        self
    }

    /// The settings of the switches. Without this they come from the environment variable `DOORBELL_SWITCHES`
    /// (for example `timer_pull=on,rt_push=pull`); without that, they are the defaults.
    #[must_use]
    pub fn switches(mut self, switches: Switches) -> Self {
        self.switches = Some(switches);
        self
    }

    /// Gives the runtime a paused clock, to test code with long waits. The clock stands while there is
    /// something to do. When nothing is left to do, it jumps exactly to the next timer.
    ///
    /// Contract: *a thread is inside [`block_on`](Runtime::block_on) of this runtime, and every worker, every
    /// such thread and every closure of [`spawn_blocking`](crate::spawn_blocking()) waits or has ended ⇒ the
    /// clock jumps to the next timer; else it stands.* So everything that a timer wakes has run, on all
    /// cores, before the next timer fires. The clock does not wait for an event that only another thread or
    /// the OS will bring. To have it wait, do that work inside `spawn_blocking`.
    ///
    /// A closure of `spawn_blocking` that waits in the queue for a thread holds the clock too. If closures
    /// wait for the clock, allow a thread for each of them ([`Builder::blocking_threads`]). A thread that
    /// waits inside the `block_on` of another runtime still holds the clock of this one. A future in
    /// `block_on` may be polled more often than it was woken.
    ///
    /// With a paused clock idle workers do not spin, whatever [`Builder::idle`] says, and the tasks of all
    /// classes run on the Fair workers. See also [`time::advance`](crate::time::advance()).
    ///
    /// ```
    /// use doorbell::time::{Instant, sleep};
    /// use std::time::Duration;
    ///
    /// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    ///
    /// let runtime = doorbell::Builder::new().cores(2).start_paused(true).build()?;
    /// runtime.block_on(async {
    ///     let start = Instant::now();
    ///     let long = doorbell::spawn(sleep(2 * DAY));
    ///     sleep(DAY).await;
    ///     assert!(start.elapsed() == DAY && !long.is_finished());
    ///     long.await.unwrap();
    ///     assert_eq!(start.elapsed(), 2 * DAY);
    /// });
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    #[doc(alias("pause", "resume"))]
    #[must_use]
    pub fn start_paused(mut self, paused: bool) -> Self {
        self.paused = paused;
        self
    }

    /// For tests: a worker takes one of the first eight tasks in its queues at random, instead of the oldest. Urgent
    /// tasks still run by rank. This shows code that relies on the order in which tasks became ready. The random
    /// numbers of each worker follow from the seed.
    ///
    /// Tasks of a [`Group`](crate::Group) keep their turns, and so do tasks that yield, among themselves. A task may wait
    /// longer than without this.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).shuffle(7).build()?;
    /// assert_eq!(runtime.block_on(runtime.spawn(async { 42 }))?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.shuffle = Some(seed);
        self
    }

    /// Starts the runtime, with the threads of its Fair workers. The workers of the other classes are started
    /// when they are first needed.
    ///
    /// # Errors
    /// [`BuildError`] says what is wrong and what to do. No thread of the runtime is left.
    pub fn build(self) -> Result<Runtime, BuildError> {
        #[cfg(feature = "sim")]
        if crate::sim::is_inside() {
            return Err(BuildError::InsideSimulation);
        }
        self.check()?;
        let topology = Host::topology();
        let cpus = self.choose_cpus(&Ground {
            topology: &topology,
            on_machine: Host::cpu_count(),
            quota: Host::cpu_quota(),
            lot: Host::random(),
        })?;
        let plan = self.plan(cpus, topology.cpus.len())?;
        Ok(Runtime::of(Owner::start(&plan)?))
    }

    /// Checks the settings that need nothing of the machine.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if self.name.contains('\0') {
            let name = self.name.clone();
            return Err(BuildError::Name { name });
        }
        if let WorkerIdle::Adaptive { budget, .. } = self.idle
            && !(budget > 0.0 && budget <= 1.0)
        {
            return Err(BuildError::IdleBudget { budget });
        }
        if !(1..=99).contains(&self.rt_priority) {
            let asked = self.rt_priority;
            return Err(BuildError::RtPriority { asked });
        }
        stack_size::check(self.stack_size)?;
        self.blocking.check()?;
        room::check(self.mailbox_limit)
    }

    /// The settings, with the CPU of each core, where `usable` CPUs may be used.
    pub(crate) fn plan(self, cpus: Vec<Option<usize>>, usable: usize) -> Result<Plan, BuildError> {
        let switches = match self.switches {
            Some(switches) => switches,
            None => switches_of_environment()?,
        };
        Ok(Plan {
            name: self.name,
            stack_size: self.stack_size,
            idle: self.idle,
            switches,
            blocking: self.blocking,
            mailbox_limit: self.mailbox_limit,
            telemetry: self.telemetry.plan(),
            policy_refused: self.telemetry.policy_refused,
            around: self.around,
            paused: self.paused,
            shuffle: self.shuffle,
            urgent: RtPlan {
                priority: self.rt_priority,
                budget: self.rt_budget.check(cpus.len(), usable)?,
            },
            cpus,
        })
    }

    /// The CPU of each core; `None` where the worker is not bound.
    fn choose_cpus(&self, ground: &Ground<'_>) -> Result<Vec<Option<usize>>, BuildError> {
        let allowed: Vec<usize> = ground.topology.cpus.iter().map(|cpu| cpu.os_id).collect();
        let within = ground
            .quota
            .map_or(allowed.len(), |quota| quota.min(allowed.len()));
        let of_its_own = allowed.len() < ground.on_machine;
        let pin = self.pin.unwrap_or(match self.cores {
            Cores::List(_) => true,
            // A quota leaves some CPUs unused, and another process may have been given the same ones.
            Cores::All => of_its_own && within == allowed.len(),
            // Two runtimes of two cores each could be bound to the same two CPUs.
            Cores::Count(_) => false,
        });
        let chosen: Vec<usize> = match &self.cores {
            Cores::List(list) => check_list(list, &allowed)?,
            Cores::All => neighbours(&allowed, within, ground.lot),
            Cores::Count(count) if *count > CORES_MAX => {
                return Err(BuildError::TooManyCores { asked: *count });
            }
            Cores::Count(count) if *count > allowed.len() => {
                // More workers than CPUs work if the OS spreads them.
                return match self.pin {
                    Some(true) => Err(BuildError::TooManyToPin {
                        asked: *count,
                        cpus: allowed.len(),
                    }),
                    Some(false) | None => Ok(vec![None; *count]),
                };
            }
            Cores::Count(count) => neighbours(&allowed, *count, ground.lot),
        };
        if chosen.is_empty() {
            return Err(BuildError::NoCores);
        }
        Ok(chosen.into_iter().map(|cpu| pin.then_some(cpu)).collect())
    }
}

/// What `choose_cpus` decides by, taken when the runtime is built.
#[derive(Debug)]
struct Ground<'a> {
    /// The CPUs of the affinity mask.
    topology: &'a Topology,
    /// How many CPUs the machine has, in the mask or not.
    on_machine: usize,
    /// For how many CPUs the quotas leave time; `None` without a quota.
    quota: Option<usize>,
    /// A random number, drawn for each runtime.
    lot: u64,
}

/// `count` neighbouring CPUs of the list, which wraps around at its end. `lot` chooses the first one, at a
/// multiple of `count`. So two runtimes of the same size share all their CPUs or none, except where the
/// choice wraps around.
fn neighbours(cpus: &[usize], count: usize, lot: u64) -> Vec<usize> {
    if count == 0 || count >= cpus.len() {
        return cpus[..count.min(cpus.len())].to_vec();
    }
    let places = cpus.len().div_ceil(count) as u64;
    let first = (lot % places) as usize * count;
    cpus.iter()
        .cycle()
        .skip(first)
        .take(count)
        .copied()
        .collect()
}

fn check_list(list: &[usize], allowed: &[usize]) -> Result<Vec<usize>, BuildError> {
    for (i, &cpu) in list.iter().enumerate() {
        if !allowed.contains(&cpu) {
            let allowed = allowed.to_vec();
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
#[path = "builder_tests.rs"]
mod tests;
