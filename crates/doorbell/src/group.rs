//! [`Group`]: tasks that share CPU time by weight.

use crate::{Class, ClassKind, TaskName};
use doorbell_core::group::{DEFAULT, Groups, WEIGHT_MAX};
use doorbell_core::scheduler::Scheduler;
use doorbell_core::task::About;
use doorbell_machine::Machine;
use std::sync::{Arc, Weak};

/// Tasks that get CPU time together, in proportion to a weight. This is a handle; a clone refers to the same
/// group.
///
/// While tasks of several groups can run, each group gets a part of the time of all cores in proportion to
/// its weight, however many tasks it has. The tasks without a group are together the default group, of weight
/// 100. Only tasks of class Fair can be in a group. A child is in the group of the task that spawns it,
/// unless it is given another ([`TaskBuilder::group`](crate::TaskBuilder::group)) or none
/// ([`TaskBuilder::no_group`](crate::TaskBuilder::no_group)). A pinned task counts like any other, and stays
/// on its core. Calls and blocking closures are in no group.
///
/// Contract: *in each moment of a span every group has at least one task more that can run than there are
/// cores, none of them pinned, and no poll takes longer than 1 ms ⇒ over 100 ms each group gets its part of
/// the time, within 5 per cent of the time of all cores.* A group that has too few tasks gathers credit for
/// at most 4 ms of CPU time. An idle group gathers none: after 5 ms without work it starts where the others
/// are. No core stays idle to keep the proportion: if only one group can run, it gets all the time.
///
/// Time is counted at the end of each poll, and a poll is never interrupted. After a poll of length `t` the
/// group waits until the others have had their part. Polls are counted by wall time, with a [paused
/// clock](crate::Builder::start_paused) too: do not rely on an order there. While groups are in use, each
/// poll of a task without a group costs two readings of the clock.
///
/// One runtime serves 63 groups at a time. A group counts from its first task there until its last handle is
/// gone and its last task has ended.
///
/// ```
/// use doorbell::Group;
///
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let (gold, free) = (Group::new(900), Group::new(100));
/// let serve = doorbell::task().group(&gold).spawn(async { "quickly" });
/// let later = doorbell::task().group(&free).spawn(async { "in its turn" });
/// assert_eq!((serve.await.unwrap(), later.await.unwrap()), ("quickly", "in its turn"));
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Group(Arc<GroupInner>);

#[derive(Debug)]
struct GroupInner {
    weight: u32,
    name: Option<TaskName>,
}

/// The weight is not one of 1 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a group has no weight of {weight}; choose 1 to {max}, where 100 is that of tasks without a group", max = WEIGHT_MAX)]
#[non_exhaustive]
pub struct WeightError {
    /// The weight asked for.
    pub weight: u32,
}

impl Group {
    /// A new group.
    ///
    /// # Panics
    /// If the weight is not one of 1 to 10,000; [`Group::try_new`] returns an error instead.
    #[track_caller]
    pub fn new(weight: u32) -> Group {
        match Group::try_new(weight) {
            Ok(group) => group,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`Group::new`], but returns an error instead of panicking.
    ///
    /// # Errors
    /// [`WeightError`] if the weight is not one of 1 to 10,000.
    pub fn try_new(weight: u32) -> Result<Group, WeightError> {
        Group::made(weight, None)
    }

    /// As [`Group::try_new`], with a name for logs.
    ///
    /// # Errors
    /// As for [`Group::try_new`].
    ///
    /// ```
    /// let group = doorbell::Group::try_named("reports", 20).unwrap();
    /// assert_eq!((group.name(), group.weight()), (Some("reports"), 20));
    /// assert!(doorbell::Group::try_named("none", 0).is_err());
    /// ```
    pub fn try_named(name: impl Into<TaskName>, weight: u32) -> Result<Group, WeightError> {
        Group::made(weight, Some(name.into()))
    }

    fn made(weight: u32, name: Option<TaskName>) -> Result<Group, WeightError> {
        match weight {
            1..=WEIGHT_MAX => Ok(Group(Arc::new(GroupInner { weight, name }))),
            _ => Err(WeightError { weight }),
        }
    }

    /// The weight of the group.
    pub fn weight(&self) -> u32 {
        self.0.weight
    }

    /// The name of the group, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_ref().map(TaskName::as_str)
    }
}

impl PartialEq for Group {
    /// Whether both are handles of the same group.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Group {}

/// As many groups are in use as a runtime serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyGroups {
    pub(crate) max: usize,
}

/// Completes what a task of this class is launched with. Only Fair tasks have groups.
pub(crate) fn about_of(class: Class, about: About<'_>) -> About<'_> {
    let none = (class.kind() != ClassKind::Fair).then_some(DEFAULT);
    About {
        rank: class.rank(),
        group: none.or(about.group),
        ..about
    }
}

/// Which group each number of a scheduler stands for, from 1 on.
#[derive(Debug, Default)]
pub(crate) struct Registry(Vec<Weak<GroupInner>>);

impl Registry {
    /// Reserves a place for a task in a group. The number stands for the group while the group has tasks or
    /// handles.
    pub(crate) fn reserve<M: Machine>(
        &mut self,
        scheduler: &Scheduler<M>,
        group: &Group,
    ) -> Result<u8, TooManyGroups> {
        let number = self.number(scheduler, group)?;
        // Under the lock of the registry: a thread that looks for an unused number sees this place.
        scheduler.groups().reserve(number);
        Ok(number)
    }

    /// The number of a group. A group without one is opened.
    fn number<M: Machine>(
        &mut self,
        scheduler: &Scheduler<M>,
        group: &Group,
    ) -> Result<u8, TooManyGroups> {
        // A weak reference keeps the address from being used again.
        let known = |known: &Weak<GroupInner>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&group.0));
        if let Some(at) = self.0.iter().position(known) {
            return Ok(at as u8 + 1);
        }
        let unused = |(at, known): (usize, &Weak<GroupInner>)| {
            known.strong_count() == 0 && scheduler.groups().is_unused(at as u8 + 1)
        };
        let at = self.0.iter().enumerate().position(unused);
        let max = Groups::<M>::ROOM;
        let at = at.unwrap_or(self.0.len());
        if at == max {
            return Err(TooManyGroups { max });
        }
        // SAFETY: the registry is borrowed exclusively, so no other thread opens a group or reserves a place.
        // No task belongs to the group that had the number before.
        unsafe {
            scheduler
                .groups()
                .open(scheduler.remotes().len(), at as u8 + 1, group.weight());
        }
        let remembered = Arc::downgrade(&group.0);
        match self.0.get_mut(at) {
            Some(known) => *known = remembered,
            None => self.0.push(remembered),
        }
        Ok(at as u8 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{Group, Registry, TooManyGroups, WeightError};
    use doorbell_core::group::Groups;
    use doorbell_core::scheduler::Scheduler;
    use doorbell_machine::Host;
    use std::sync::Arc;

    #[test]
    fn weights_outside_of_the_range_are_refused() {
        assert_eq!(Group::try_new(0), Err(WeightError { weight: 0 }));
        assert_eq!(Group::try_new(10_001), Err(WeightError { weight: 10_001 }));
        let weights = [1, 10_000].map(|weight| Group::new(weight).weight());
        assert_eq!(weights, [1, 10_000]);
        assert!(WeightError { weight: 0 }.to_string().contains("1 to 10000"));
        let group = Group::new(1);
        assert!(group == group.clone() && group != Group::new(1));
    }

    #[test]
    fn numbers_of_groups_that_are_gone_are_given_again() {
        let remotes = Scheduler::<Host>::new(1, &Arc::default(), |_, _| 0);
        let mut registry = Registry::default();
        let mut number = |group: &Group| registry.number(remotes[0].scheduler(), group);
        let max = Groups::<Host>::ROOM;
        let groups: Vec<Group> = (0..max).map(|_| Group::new(5)).collect();
        let numbers: Vec<_> = groups.iter().map(&mut number).collect();
        assert!(numbers.iter().copied().eq((1..=max).map(|at| Ok(at as u8))));
        assert_eq!(number(&groups[1].clone()), Ok(2));
        assert_eq!(number(&Group::new(5)), Err(TooManyGroups { max }));
        drop(groups);
        assert_eq!(number(&Group::new(7)), Ok(1));
        // A group without handles keeps its number for its tasks.
        let scheduler = remotes[0].scheduler();
        assert_eq!(registry.reserve(scheduler, &Group::new(8)), Ok(1));
        assert_eq!(registry.number(scheduler, &Group::new(9)), Ok(2));
        assert_eq!(registry.number(scheduler, &Group::new(9)), Ok(2));
    }
}
