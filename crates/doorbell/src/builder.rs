//! [`Builder`]: a runtime before it runs.

use crate::blocking::BlockingPlan;
use crate::owner::Owner;
use crate::rt::Plan;
use crate::rt_budget::RtBudget;
use crate::rt_plan::RtPlan;
use crate::runtime::Runtime;
use crate::telemetry::TelemetryOptions;
use crate::{SwitchError, Switches, room, stack_size};
use doorbell_core::worker::IdlePolicy as WorkerIdle;
use doorbell_machine::{Host, Machine, ThreadError, Topology};
use std::time::Duration;

/// The longest that an idle worker spins before it parks, unless told otherwise.
const SPIN_MAX_NS: u64 = 50_000;

/// How much of its time an idle worker spins in vain, unless told otherwise.
const BUDGET: f64 = 0.05;

/// The priority of urgent workers, unless told otherwise: above other programs' usual threads, below
/// those of the kernel that serve interrupts (50).
const RT_PRIORITY: u8 = 10;

/// More workers than any machine has CPUs.
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
        "an idle worker cannot spin {budget} of its time; give a budget above 0 and at most 1, or use IdlePolicy::Park"
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
    /// A stack that is too small to run anything, or larger than any memory.
    #[error(
        "a thread cannot have a stack of {asked} bytes; give it at least 64 KiB, or leave the size out"
    )]
    StackSize {
        /// The size asked for, in bytes.
        asked: usize,
    },
    /// No thread for closures that block, or more than a runtime can have.
    #[error("{asked} threads for spawn_blocking cannot be; ask for 1 to {most}")]
    BlockingThreads {
        /// The number of threads asked for.
        asked: usize,
        /// The most that a runtime can have.
        most: usize,
    },
    /// A priority that the OS does not have.
    #[error("urgent workers cannot have priority {asked}; give them one from 1 to 99")]
    RtPriority {
        /// The priority asked for.
        asked: u8,
    },
    /// A budget that is no share of a CPU.
    #[error("urgent workers cannot run {share} of their time; give them more than 0 and at most 1")]
    RtBudget {
        /// The share asked for.
        share: f64,
    },
    /// A period that is too short to rest in, or too long.
    #[error(
        "the budget of urgent workers cannot be for {period:?}; give it a period of 1 ms to 1 s"
    )]
    RtPeriod {
        /// The period asked for.
        period: Duration,
    },
    /// The environment variable `DOORBELL_SWITCHES` could not be read.
    #[error("{SWITCHES_VARIABLE} is wrong: {0}")]
    Switches(#[from] SwitchError),
    /// A worker's thread was not started.
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
///     .spin(Duration::from_micros(20))
///     .build()?;
/// assert_eq!(runtime.cores(), 2);
/// # Ok::<(), doorbell::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    cores: Cores,
    name: String,
    pin: Option<bool>,
    idle: WorkerIdle,
    switches: Option<Switches>,
    pub(crate) blocking: BlockingPlan,
    pub(crate) mailbox_limit: Option<usize>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) telemetry: TelemetryOptions,
    paused: bool,
    rt_priority: u8,
    pub(crate) rt_budget: RtBudget,
}

/// How an idle worker waits for work: see [`Builder::idle`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum IdlePolicy {
    /// It blocks in the OS at once. Whoever wakes it makes a syscall, and it comes tens of
    /// microseconds later.
    Park,
    /// It spins for up to 50 µs while wakes keep coming soon after it parked, and less and
    /// less while they do not. Source: the kernel's `haltpoll` governor.
    Adaptive {
        /// How much of its time it may spin in vain, above 0 and at most 1: with 0.05, 5 per
        /// cent of a CPU.
        budget: f64,
    },
    /// It never blocks, and burns its CPU, unless a worker of another class can run there.
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
            paused: false,
            rt_priority: RT_PRIORITY,
            rt_budget: RtBudget::default(),
        }
    }
}

impl Builder {
    /// One core per CPU of the affinity mask of the thread that builds, but no more than the
    /// quotas of its control groups leave CPU time for: with `cpu.max` at `150000 100000`, two.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses this many cores, whatever the affinity mask and the quotas are.
    #[must_use]
    pub fn cores(mut self, count: usize) -> Self {
        self.cores = Cores::Count(count);
        self
    }

    /// Uses these CPUs, by the OS's numbers, as cores 0, 1, … in this order, and binds the
    /// workers to them unless [`Builder::pin`] says otherwise.
    #[must_use]
    pub fn core_list(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cores = Cores::List(cpus.into_iter().collect());
        self
    }

    /// Names the workers' threads `name-0`, `name-1`, …; Linux shows the first 15 bytes.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Whether workers are bound to their CPUs. Unless told, they are if the CPUs were listed, or
    /// if all CPUs of the affinity mask are used and it leaves out CPUs of the machine: then
    /// somebody has given this process CPUs of its own.
    ///
    /// Fewer cores than CPUs of the mask are bound to neighbours, from a place that each runtime
    /// draws by lot: programs that know nothing of each other do not all begin at the first CPU.
    /// [`Builder::core_list`] says which.
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = Some(pin);
        self
    }

    /// How an idle worker waits: unless told, [`IdlePolicy::Adaptive`] with a budget of 0.05. While it spins it is
    /// reached without a syscall, and burns its CPU; while it is parked it costs nothing. Wrong budgets are reported by
    /// [`Builder::build`].
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

    /// The priority of the workers of the urgent classes under `SCHED_FIFO`, where the OS allows that:
    /// 1 to 99; 10 unless told. It orders the workers among the threads of the computer, not the tasks
    /// of a worker.
    #[must_use]
    pub fn rt_priority(mut self, priority: u8) -> Self {
        self.rt_priority = priority;
        self
    }

    /// Has an idle worker spin this long each time, whatever comes of it, before it parks: for
    /// measurements and tests. Takes the place of [`Builder::idle`].
    #[must_use]
    pub fn spin(mut self, time: Duration) -> Self {
        let spin_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.idle = WorkerIdle::Spin { spin_ns };
        self
    }

    /// The settings of the switches. Unless told, those of the environment variable
    /// `DOORBELL_SWITCHES` (`idle_notify=off,call_coalesce=base`), else the defaults.
    #[must_use]
    pub fn switches(mut self, switches: Switches) -> Self {
        self.switches = Some(switches);
        self
    }

    /// Gives the runtime a clock that stands still, for tests of what takes long: it goes on by
    /// itself, at once and exactly to the next timer, when nothing is left to do.
    ///
    /// Contract: *a thread is inside [`block_on`](Runtime::block_on) of this runtime, and every
    /// worker, every such thread and every closure of [`spawn_blocking`](crate::spawn_blocking())
    /// waits or has ended ⇒ the clock goes to the next timer; else it stands.* So what a timer
    /// wakes has run, on all cores, before the next one fires. What only other threads or the OS
    /// will bring is not waited for: give it to `spawn_blocking`, or the clock may be ahead of it.
    ///
    /// A closure that waits for a thread holds the clock as well: let there be threads for all
    /// that wait for the clock ([`Builder::blocking_threads`]). A thread that waits inside the
    /// `block_on` of another runtime still holds this one's clock. A future in `block_on` may be
    /// polled more often than it was woken.
    ///
    /// Idle workers do not spin, whatever [`Builder::idle`] says. See also
    /// [`time::advance`](crate::time::advance()).
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
    #[must_use]
    pub fn start_paused(mut self, paused: bool) -> Self {
        self.paused = paused;
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
        room::check(self.mailbox_limit)?;
        let switches = match self.switches {
            Some(switches) => switches,
            None => switches_of_environment()?,
        };
        let plan = Plan {
            cpus: self.choose_cpus(&Ground {
                topology: &Host::topology(),
                on_machine: Host::cpu_count(),
                quota: Host::cpu_quota(),
                lot: Host::random(),
            })?,
            name: self.name,
            stack_size: self.stack_size,
            idle: self.idle,
            switches,
            blocking: self.blocking,
            mailbox_limit: self.mailbox_limit,
            telemetry: self.telemetry.plan(),
            policy_refused: self.telemetry.policy_refused,
            paused: self.paused,
            urgent: RtPlan {
                priority: self.rt_priority,
                budget: self.rt_budget.check()?,
            },
        };
        Ok(Runtime::of(Owner::start(&plan)?))
    }

    /// The CPU of each core, `None` where it is left free.
    fn choose_cpus(&self, ground: &Ground<'_>) -> Result<Vec<Option<usize>>, BuildError> {
        let allowed: Vec<usize> = ground.topology.cpus.iter().map(|cpu| cpu.os_id).collect();
        let within = ground
            .quota
            .map_or(allowed.len(), |quota| quota.min(allowed.len()));
        let of_its_own = allowed.len() < ground.on_machine;
        let pin = self.pin.unwrap_or(match self.cores {
            Cores::List(_) => true,
            // Under a quota some CPUs are left, and others may be given the same.
            Cores::All => of_its_own && within == allowed.len(),
            // Two runtimes of two cores each would be bound to the same two CPUs.
            Cores::Count(_) => false,
        });
        let chosen: Vec<usize> = match &self.cores {
            Cores::List(list) => check_list(list, &allowed)?,
            Cores::All => neighbours(&allowed, within, ground.lot),
            Cores::Count(count) if *count > CORES_MAX => {
                return Err(BuildError::TooManyCores { asked: *count });
            }
            Cores::Count(count) if *count > allowed.len() => {
                // More workers than CPUs: fine if the OS spreads them.
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

/// What a runtime finds when it is built.
#[derive(Debug)]
struct Ground<'a> {
    /// The CPUs of the affinity mask.
    topology: &'a Topology,
    /// How many CPUs the machine has, allowed or not.
    on_machine: usize,
    /// For how many CPUs there is time.
    quota: Option<usize>,
    /// Any number, another one for each runtime.
    lot: u64,
}

/// `count` of these CPUs that follow one another, round the end. Where they begin comes from
/// `lot`, and is a multiple of `count`: two runtimes of one size share all their CPUs or none,
/// but for those that go round the end.
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
#[path = "builder_tests.rs"]
mod tests;
