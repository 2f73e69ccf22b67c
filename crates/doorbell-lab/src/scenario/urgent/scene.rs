//! Who is woken, by whom, beside whom.

use std::sync::Arc;

use super::load::Load;
use super::probe::Probe;
use crate::measure::Placement;

/// What wakes the urgent one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A thread that is none of the contestant's.
    Thread,
    /// One of the contestant's own, as urgent as the urgent one, on the other CPU.
    Core,
    /// Its own timer.
    Timer,
    /// Nothing: an outside thread has something run on its CPU.
    Call,
}

impl Source {
    /// All, in the order of the table.
    pub(super) const ALL: [Source; 4] = [Source::Thread, Source::Core, Source::Timer, Source::Call];

    /// As the table names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Source::Thread => "from a thread",
            Source::Core => "from another core",
            Source::Timer => "by a timer",
            Source::Call => "by a call",
        }
    }

    /// Whether a thread of nobody's is needed.
    pub(super) fn is_outside(self) -> bool {
        matches!(self, Source::Thread | Source::Call)
    }
}

/// Which class runs before which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Rt before Fair.
    Rt,
    /// Fair before Batch.
    Fair,
}

impl Part {
    /// The class of the urgent one.
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

/// Where doorbell's urgent one runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Where the runtime puts it, as a task that a program just spawns.
    Free,
    /// On the core of the second CPU, as the bare thread.
    Core,
}

/// What a contestant is told.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) placement: Placement,
    pub(super) source: Source,
    pub(super) load: Arc<Load>,
    pub(super) probe: Arc<Probe>,
}

impl Scene {
    /// The CPUs that the jobs fill: the urgent one's is the last.
    pub(super) fn cpus(&self) -> [usize; 2] {
        [self.placement.caller_cpu, self.placement.callee_cpu]
    }
}
