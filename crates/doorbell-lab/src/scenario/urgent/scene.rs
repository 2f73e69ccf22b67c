//! The parts of a contestant: what wakes the urgent task, its class and its place.

use std::sync::Arc;

use super::load::Load;
use super::probe::Probe;
use crate::measure::Placement;

/// What wakes the urgent task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A thread outside the contestant.
    Thread,
    /// A part of the contestant on the other CPU, as urgent as the urgent task.
    Core,
    /// Its own timer.
    Timer,
    /// Nothing: an outside thread has a closure run on its CPU.
    Call,
}

impl Source {
    /// All sources, in the order of the table.
    pub(super) const ALL: [Source; 4] = [Source::Thread, Source::Core, Source::Timer, Source::Call];

    /// Its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Source::Thread => "from a thread",
            Source::Core => "from another core",
            Source::Timer => "by a timer",
            Source::Call => "by a call",
        }
    }

    /// Whether it needs an outside thread.
    pub(super) fn is_outside(self) -> bool {
        matches!(self, Source::Thread | Source::Call)
    }
}

/// The two classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Rt above Fair.
    Rt,
    /// Fair above Batch.
    Fair,
}

impl Part {
    /// The class of the urgent task.
    pub(super) fn urgent(self) -> doorbell::Class {
        match self {
            Part::Rt => doorbell::Class::rt(50),
            Part::Fair => doorbell::Class::FAIR,
        }
    }

    /// The class of the jobs.
    pub(super) fn jobs(self) -> doorbell::Class {
        match self {
            Part::Rt => doorbell::Class::FAIR,
            Part::Fair => doorbell::Class::BATCH,
        }
    }
}

/// Where doorbell's urgent task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Where the runtime places it, as for any spawned task.
    Free,
    /// On the core of the second CPU, like the bare thread.
    Core,
}

/// The input of a contestant.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) placement: Placement,
    pub(super) source: Source,
    pub(super) load: Arc<Load>,
    pub(super) probe: Arc<Probe>,
}

impl Scene {
    /// The CPUs of the jobs; the last one is the urgent task's.
    pub(super) fn cpus(&self) -> [usize; 2] {
        [self.placement.caller_cpu, self.placement.callee_cpu]
    }
}
