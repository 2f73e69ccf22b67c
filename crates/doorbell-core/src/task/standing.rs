//! How the calling thread stands to a class. Its own class is that of the worker that it runs.

use super::schedule::Schedule;
use crate::class::{Class, Standing};

impl Class {
    /// Whether the calling thread is lower-class for this class. A thread that is no worker is so for Rt only.
    #[inline]
    pub(crate) fn standing<M: Schedule>(self) -> Standing {
        let is_below = match M::class_here() {
            Some(class) => class < self,
            None => self == Class::Rt,
        };
        if is_below {
            Standing::Below
        } else {
            Standing::Level
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::class::{Class, Standing};
    use crate::scheduler::{Scheduler, SchedulerSpec};
    use crate::worker::Local;
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
