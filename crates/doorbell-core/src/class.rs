//! The classes of schedulers, and how a caller stands to one: whether the OS lets others of that class
//! run before it, so that nobody of them may wait for what it has begun.

use crate::task::Local;
use doorbell_machine::Machine;

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

impl Class {
    /// How the calling thread stands to it. One that is no worker is as a Fair worker and as a Batch worker,
    /// and below Rt.
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
