//! The schedulers of a run: one alone, or one for each class, as the runtime has them.

use super::scheduler::SchedulerConfig;
use doorbell_core::class::Class;
use doorbell_core::scheduler::Turns;
use doorbell_core::worker::{IdlePolicy, RunBudget, Worker, WorkerShared};
use doorbell_machine::sim::{self, SimThread};
use doorbell_machine::{Machine, Policy, Sim, ThreadError, ThreadSpec};
use std::sync::Arc;

/// The priority that the runtime asks for, unless it is told another.
const RT_PRIORITY: u8 = 10;

/// Which schedulers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// One, of threads like any others.
    One,
    /// Fair, Rt and Batch, each with a worker on every CPU: threads that the OS schedules as the
    /// runtime asks for.
    Each(Urgent),
}

/// What the OS lets the urgent workers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgent {
    /// They run before all others.
    Fifo,
    /// They have the shortest slice.
    Sooner,
    /// Nothing, and the runtime would not know: a fault that is to be noticed.
    Nothing,
}

impl Classes {
    /// How many schedulers there are.
    pub(super) fn count(self) -> usize {
        match self {
            Classes::One => 1,
            Classes::Each(_) => 3,
        }
    }
}

/// Where the Fair workers stand among the schedulers.
pub(super) const FAIR: usize = 0;
/// Where the urgent ones do.
pub(super) const RT: usize = 1;
/// Where the lowest ones do.
pub(super) const BATCH: usize = 2;

/// How one scheduler is.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchedulerPlan {
    name: &'static str,
    pub(super) class: Class,
    pub(super) turns: Turns,
    pub(super) idle: IdlePolicy,
    budget: Option<RunBudget>,
    /// What its threads ask for; nothing if they stay as they begin.
    policy: Option<Policy>,
}

impl SchedulerConfig {
    /// The schedulers, in the order of their numbers.
    pub(super) fn plans(&self) -> Vec<SchedulerPlan> {
        let one = SchedulerPlan {
            name: "worker",
            class: Class::Fair,
            turns: self.turns,
            idle: self.idle,
            budget: self.budget,
            policy: None,
        };
        let Classes::Each(urgent) = self.classes else {
            return vec![one];
        };
        let fair = SchedulerPlan {
            turns: Turns::ByArrival,
            budget: None,
            ..one
        };
        let policy = match urgent {
            Urgent::Fifo => Some(Policy::Fifo {
                priority: RT_PRIORITY,
            }),
            Urgent::Sooner => Some(Policy::default().sooner()),
            Urgent::Nothing => None,
        };
        let rt = SchedulerPlan {
            name: "rt worker",
            class: Class::Rt,
            idle: IdlePolicy::Park,
            // Where the OS shares the CPU, it sees to the others.
            budget: self.budget.filter(|_| urgent == Urgent::Fifo),
            policy,
            ..one
        };
        let batch = SchedulerPlan {
            name: "batch worker",
            class: Class::Batch,
            idle: IdlePolicy::Park,
            policy: Some(Policy::Idle),
            ..fair
        };
        vec![fair, rt, batch]
    }
}

impl SchedulerPlan {
    /// Starts a worker.
    pub(super) fn start<const BUG: u8>(
        &self,
        core: usize,
        shared: Arc<WorkerShared<Sim<BUG>>>,
    ) -> Result<SimThread, ThreadError> {
        let SchedulerPlan {
            name,
            budget,
            policy,
            ..
        } = *self;
        let spec = ThreadSpec {
            name: format!("{name} {core}"),
            cpu: Some(core),
            stack_size: None,
        };
        let worker = move || {
            if let Some(policy) = policy {
                obtain::<BUG>(policy);
            }
            let worker = Worker::limited(shared, budget);
            match policy {
                Some(Policy::Fifo { .. }) => worker.before_others().run(),
                _ => worker.run(),
            }
        };
        Sim::<BUG>::spawn(spec, Box::new(worker))
    }
}

/// As the runtime does it: it asks, and reads back what came of it.
fn obtain<const BUG: u8>(policy: Policy) {
    let asked = Sim::<BUG>::set_policy(policy);
    let got = Sim::<BUG>::policy();
    if asked.is_err() || got.as_ref().ok() != Some(&policy) {
        sim::fail(format!("class order: asked for {policy}, got {got:?}"));
    }
}
