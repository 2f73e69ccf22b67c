//! The classes of schedulers, and the standing of a caller towards one: whether the OS may run others before
//! the caller, so that workers of that class must not wait for what the caller has begun.

use crate::task::Local;
use doorbell_machine::Machine;

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

impl Class {
    /// How the calling thread stands to this class. A thread that is no worker counts as a Fair worker: below
    /// Rt only.
    #[inline]
    pub(crate) fn standing<M: Machine>(self) -> Standing {
        let is_below = Local::<M>::with_current(|local| match local {
            Some(local) => local.class() < self,
            None => self == Class::Rt,
        });
        if is_below {
            Standing::Below
        } else {
            Standing::Level
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Standing};
    use crate::scheduler::{Scheduler, SchedulerSpec};
    use crate::task::Local;
    use doorbell_machine::Host;
    use std::sync::Arc;

    const ALL: [Class; 3] = [Class::Batch, Class::Fair, Class::Rt];

    fn below(here: impl Fn(Class) -> Standing) -> [bool; 3] {
        ALL.map(|class| here(class) == Standing::Below)
    }

    #[test]
    fn a_worker_is_below_those_of_higher_classes_and_any_other_thread_below_rt() {
        let here = |class: Class| class.standing::<Host>();
        assert_eq!(below(here), [false, false, true]);
        for (class, expected) in ALL.into_iter().zip([
            [false, true, true],
            [false, false, true],
            [false, false, false],
        ]) {
            let spec = SchedulerSpec {
                class,
                ..SchedulerSpec::default()
            };
            let remote = Scheduler::<Host>::described(1, &Arc::default(), spec, |_, _| 0).remove(0);
            assert_eq!(remote.scheduler().class(), class);
            let found = Local::new(remote).enter(|| below(here));
            assert_eq!(found, expected, "{class:?}");
        }
    }
}
