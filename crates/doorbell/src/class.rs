//! [`Class`]: how urgent a task is.

use crate::ambient;
use std::fmt;

/// How urgent a task is: Rt, Fair or Batch, the most urgent first. A task that can run takes the CPU at once
/// from a task of a lower one of these three, also from one that is inside a long poll.
///
/// Each class has its own worker on each core: a thread that the OS schedules before those of the lower
/// classes. [`Handle::policies`](crate::Handle::policies) shows what the OS allowed. A child has the class of
/// the task that spawns it, unless it is given one. If a task awaits one of a lower class, the workers of the
/// higher class run the awaited task too: see [what inverts
/// priorities](crate#what-inverts-priorities-and-what-to-do).
///
/// ```
/// use doorbell::Class;
///
/// # #[doorbell::main(cores = 1)]
/// # async fn main() {
/// let beat = doorbell::task().class(Class::rt(50)).spawn(async { doorbell::current_class() });
/// assert_eq!(beat.await.unwrap(), Some(Class::rt(50)));
/// assert!(Class::rt(50) > Class::FAIR && Class::FAIR > Class::BATCH);
/// # }
/// ```
#[doc(alias("priority", "nice"))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

/// The number of an Rt class is not one of 1 to 99.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no class Rt {number}; choose 1, the least urgent, to 99, the most urgent")]
#[non_exhaustive]
pub struct ClassError {
    /// The number asked for.
    pub number: u8,
}

impl Class {
    /// For work that computes for long and may wait. It runs on CPUs that no other thread wants.
    ///
    /// The same holds for threads that such a task starts itself (`std::thread`): a thread begins under the
    /// policy of its starter, and without a privilege it cannot leave `SCHED_IDLE`. It does not hold for
    /// threads that the runtime starts, such as those of [`spawn_blocking`](crate::spawn_blocking()).
    pub const BATCH: Class = Class(0);
    /// The default class.
    pub const FAIR: Class = Class(1);

    /// An urgent class. The number, 1 to 99, is the rank of its tasks. It orders the Rt tasks that can run on
    /// the same core, pinned or not: the highest number runs next, and equal numbers run in the order in which
    /// they became ready.
    ///
    /// No poll is interrupted for another Rt task of the same core, whatever the numbers are: a pinned task
    /// that becomes ready meanwhile waits for the end of that poll. So keep Rt polls short. A task that is not
    /// pinned may run elsewhere. An idle core takes it at once. If no core is idle, the first core whose next
    /// poll would be of a lower number takes it instead.
    ///
    /// With a [paused clock](crate::Builder::start_paused) the number orders nothing.
    ///
    /// # Panics
    /// If the number is not one of 1 to 99. In a constant this is a compile error. [`Class::try_rt`] returns
    /// an error instead.
    #[track_caller]
    pub const fn rt(number: u8) -> Class {
        match Class::try_rt(number) {
            Ok(class) => class,
            Err(_) => panic!("an urgent class is a number from 1 to 99"),
        }
    }

    /// As [`Class::rt`], but returns an error instead of panicking.
    ///
    /// # Errors
    /// [`ClassError`] if the number is not one of 1 to 99.
    pub const fn try_rt(number: u8) -> Result<Class, ClassError> {
        match number {
            1..=99 => Ok(Class(number + 1)),
            _ => Err(ClassError { number }),
        }
    }

    /// The number of an Rt class, 1 to 99; `None` for Fair and Batch.
    pub const fn rt_number(self) -> Option<u8> {
        if self.0 > Class::FAIR.0 {
            Some(self.0 - 1)
        } else {
            None
        }
    }

    /// The rank of the class: the number with which a task is launched.
    pub(crate) const fn rank(self) -> u8 {
        self.0
    }

    /// The class with this rank.
    pub(crate) const fn of_rank(rank: u8) -> Class {
        Class(rank)
    }

    /// A class that runs on the workers of this kind.
    pub(crate) const fn any_of(kind: ClassKind) -> Class {
        match kind {
            ClassKind::Batch => Class::BATCH,
            ClassKind::Fair => Class::FAIR,
            ClassKind::Rt => Class::rt(99),
        }
    }

    /// Which workers run tasks of this class.
    pub const fn kind(self) -> ClassKind {
        match self.0 {
            0 => ClassKind::Batch,
            1 => ClassKind::Fair,
            _ => ClassKind::Rt,
        }
    }
}

impl Default for Class {
    fn default() -> Self {
        Class::FAIR
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rt_number() {
            Some(number) => write!(f, "Rt {number}"),
            None => fmt::Display::fmt(&self.kind(), f),
        }
    }
}

/// Which workers run a class: the class without its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ClassKind {
    /// The workers of [`Class::BATCH`].
    Batch,
    /// The workers of [`Class::FAIR`].
    Fair,
    /// The workers of all Rt classes.
    Rt,
}

impl fmt::Display for ClassKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClassKind::Batch => "Batch",
            ClassKind::Fair => "Fair",
            ClassKind::Rt => "Rt",
        })
    }
}

/// The class of the task or call that runs on this thread; `None` on a thread that is not a worker: inside `block_on`,
/// in a blocking closure, on a thread of another runtime that has entered this one.
pub fn current_class() -> Option<Class> {
    ambient::with_worker(|worker| worker.map(ambient::Frame::class))
}

#[cfg(test)]
mod tests {
    use super::{Class, ClassError};

    #[test]
    fn numbers_outside_of_the_range_are_refused() {
        assert_eq!(Class::try_rt(0), Err(ClassError { number: 0 }));
        assert_eq!(Class::try_rt(100), Err(ClassError { number: 100 }));
        assert_eq!(Class::try_rt(255), Err(ClassError { number: 255 }));
        let numbers = (1..=99).map(|number| Class::try_rt(number).unwrap().rt_number());
        assert!(numbers.eq((1..=99).map(Some)));
        assert!(ClassError { number: 0 }.to_string().contains('1'));
    }

    #[test]
    fn classes_are_in_order() {
        let mut classes = [
            Class::rt(2),
            Class::FAIR,
            Class::rt(99),
            Class::BATCH,
            Class::rt(1),
        ];
        classes.sort();
        let shown = classes.map(|class| class.to_string());
        assert_eq!(shown, ["Batch", "Fair", "Rt 1", "Rt 2", "Rt 99"]);
        assert_eq!(Class::default(), Class::FAIR);
    }

    #[test]
    #[should_panic(expected = "from 1 to 99")]
    fn a_wrong_number_panics() {
        let _ = Class::rt(100);
    }
}
