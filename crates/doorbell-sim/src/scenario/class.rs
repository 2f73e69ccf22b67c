//! The schedulers of a run: only one, or one for each class as in the runtime.

use super::scheduler::SchedulerConfig;
use doorbell_core::class::Class;
use doorbell_core::scheduler::Turns;
use doorbell_core::worker::{IdlePolicy, RunBudget, Worker, WorkerShared};
use doorbell_machine::sim::{self, SimThread};
use doorbell_machine::{Machine, Policy, Sim, ThreadError, ThreadSpec};
use std::sync::Arc;

/// The priority that the runtime requests by default.
const RT_PRIORITY: u8 = 10;

/// Which schedulers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// One, whose threads have no special policy.
    One,
    /// Fair, Rt and Batch, each with a worker on every CPU. Their threads have the policies that the
    /// runtime requests.
    Each(Urgent),
}

/// What the OS grants the urgent workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgent {
    /// `SCHED_FIFO`: they run before all others.
    Fifo,
    /// The shortest slice.
    Sooner,
    /// Nothing, and the runtime does not learn of it: a fault that must be noticed.
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

/// The index of the Fair scheduler.
#[cfg(test)]
pub(super) const FAIR: usize = 0;
/// The index of the Rt scheduler.
pub(crate) const RT: usize = 1;
/// The index of the Batch scheduler.
pub(super) const BATCH: usize = 2;

/// How one scheduler is set up.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchedulerPlan {
    name: &'static str,
    pub(super) class: Class,
    pub(super) turns: Turns,
    pub(super) idle: IdlePolicy,
    budget: Option<RunBudget>,
    /// The policy that its threads request; `None` keeps the default.
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
            // Under any other policy the OS gives the other workers their share.
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
            Worker::limited(shared, budget).run();
        };
        Sim::<BUG>::spawn(spec, Box::new(worker))
    }
}

/// As the runtime does: requests a policy and reads back what was obtained.
fn obtain<const BUG: u8>(policy: Policy) {
    let asked = Sim::<BUG>::set_policy(policy);
    let got = Sim::<BUG>::policy();
    if asked.is_err() || got.as_ref().ok() != Some(&policy) {
        sim::fail(format!("class order: asked for {policy}, got {got:?}"));
    }
}
