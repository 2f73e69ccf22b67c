//! The classes of schedulers, and how a caller stands to one: whether the OS lets others of that class
//! run before it, so that none of them may wait for what it has begun.

/// The class of a scheduler. The OS runs the workers of a higher class before those of a lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Below all others.
    Batch,
    /// As ordinary threads of the OS.
    #[default]
    Fair,
    /// Above all others.
    Rt,
}

/// How a thread that notifies a worker, or wakes a task, stands to the class of that worker or task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is of a lower class: the OS may take its CPU away at any moment.
    Below,
    /// It is of the same class or a higher one.
    Level,
}
