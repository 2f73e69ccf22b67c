//! The classes of schedulers, and how a caller stands to one: whether the OS lets others of that class
//! run before it, so that none of them may wait for what it has begun.

/// The class of a scheduler. The OS lets the workers of a higher one run before those of a lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Below all others.
    Batch,
    /// As threads are that nobody says anything of.
    #[default]
    Fair,
    /// Above all others.
    Rt,
}

/// How somebody who tells a worker, or wakes a task, stands to its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Of a lower class: it may be kept from its CPU by anybody else.
    Below,
    /// Of the same one or a higher one.
    Level,
}
