//! Tasks that a lane above runs while those of their own crew are stuck in long polls.
//!
//! Such a task is [rescuable](super::About::rescuable). It is lent by its second node, as one that is awaited from
//! above: its own node is queued as ever, so a loan that nobody takes costs an empty run, and no wake.
//! It is lent to the lane that wakes or spawns it, if that is a lane above which rescues
//! ([`Local::rescue_for`]). Any other waker of a task that waits at a lane which is guarded ([`Front::set_guarded`])
//! sends a parcel to the lane that guards it.

use super::boost;
use super::cell::TaskRef;
use super::local::Local;
use super::state_boost::Above;
use crate::call::post;
use crate::mailbox::{Front, Origin};
use crate::node::Node;
use crate::queue::{Greed, Queue};
use doorbell_machine::Machine;
use std::cell::Cell;
use std::ptr::NonNull;

/// What a lane notes of tasks that were lent to it.
#[derive(Debug, Default)]
pub(super) struct Lent {
    /// The task under poll is of a crew below.
    of_below: Cell<bool>,
    /// And it is rescuable.
    is_rescue: Cell<bool>,
    /// What is left of that one is for its own lanes.
    is_declined: Cell<bool>,
    /// For how long the lane may poll what it rescues; 0 where it does not rescue.
    left_ns: Cell<u64>,
}

impl<M: Machine> Local<M> {
    /// As [`Local::rank`], if the task under poll is of a crew below, which lent it to this lane.
    #[inline]
    pub fn lent_rank(&self) -> Option<u8> {
        self.lent.of_below.get().then(|| self.rank())
    }

    /// Polls a task that a crew below lent.
    pub(super) fn poll_lent<R>(&self, task: TaskRef<M>, poll: impl FnOnce() -> R) -> R {
        let header = task.header();
        let before = self.rank();
        self.set_rank(header.rank);
        self.lent.of_below.set(true);
        self.lent.is_rescue.set(header.is_rescuable());
        self.lent.is_declined.set(false);
        // Does not unwind: a task's panics are caught where its future is polled.
        let polled = if header.is_rescuable() {
            let began_ns = M::now_ns();
            let polled = poll();
            self.spend(M::now_ns().saturating_sub(began_ns));
            polled
        } else {
            poll()
        };
        self.lent.of_below.set(false);
        self.lent.is_rescue.set(false);
        self.set_rank(before);
        polled
    }

    /// Whether the task under poll is one that is run here because its own lanes may be stuck: what is not
    /// certain to be brief is to be left to them.
    #[inline]
    pub fn is_rescue(&self) -> bool {
        self.lent.is_rescue.get()
    }

    /// The task under poll is not to be lent for what wakes it in this poll: the rest is for its own
    /// lanes. The caller wakes it.
    pub fn decline_rescue(&self) {
        self.lent.is_declined.set(true);
    }

    /// What this lane wakes and spawns of rescuable tasks of crews below is lent to it from here on, until polls of
    /// those have taken so long. 0: nothing is.
    pub fn rescue_for(&self, left_ns: u64) {
        self.lent.left_ns.set(left_ns);
    }

    /// What is left of that.
    pub fn rescue_left_ns(&self) -> u64 {
        self.lent.left_ns.get()
    }

    /// A rescue has taken so long.
    pub fn spend(&self, took_ns: u64) {
        let left_ns = self.lent.left_ns.get();
        self.lent.left_ns.set(left_ns.saturating_sub(took_ns));
    }

    fn rescues(&self) -> bool {
        self.lent.left_ns.get() != 0
    }
}

/// A task on its way to a lane above, with a reference.
struct Rescued<M: Machine>(TaskRef<M>);

// SAFETY: a task is lent and let go by any thread, as by its wakers.
unsafe impl<M: Machine> Send for Rescued<M> {}

impl<M: Machine> Rescued<M> {
    fn arrive(self) {
        let task = self.0;
        Local::<M>::bring_mail(|| {
            let _ = task.rescue_here();
        });
        task.release();
    }
}

/// Room for the tasks that are taken from a ward: [`Local::sweep`].
#[derive(Debug)]
pub struct Hold<M: Machine>(Queue<M>);

impl<M: Machine> Default for Hold<M> {
    fn default() -> Self {
        Hold(Queue::new(M::RING_CAPACITY))
    }
}

impl<M: Machine> Local<M> {
    /// Has this lane, which rescues, look through what waits at a ward of a crew below: what is rescuable
    /// of that is lent to this lane. All of it goes to the ward's crew again, to an idle lane if there is one.
    /// Not of tasks in groups. How many tasks that were.
    pub fn sweep(&self, ward: &Front<M>, hold: &Hold<M>) -> usize {
        if ward.crew().groups().table().is_some() {
            return 0;
        }
        // Before: what is put back goes there.
        let inbox = ward.take_inbox();
        let mut count = 0;
        // SAFETY: this thread is the only one that has the hold, and is not the ward's.
        while let Some(loot) = unsafe { ward.queue().steal_into(&hold.0, Greed::One) } {
            count += 1;
            put_back(ward, loot.first);
            // SAFETY: as above.
            while let Some(node) = unsafe { hold.0.pop() } {
                count += 1;
                put_back(ward, node);
            }
        }
        let mut rest = inbox.map(|(chain, _)| chain);
        while let Some(chain) = rest {
            let (node, others) = chain.pop();
            // SAFETY: taken out, so it is the caller's, and alive.
            unsafe { node.as_ref() }.leave();
            count += 1;
            put_back(ward, node);
            rest = others;
        }
        count
    }
}

/// Lends what this node is of, if it is rescuable, and queues the node as one from outside.
fn put_back<M: Machine>(ward: &Front<M>, node: NonNull<Node<M>>) {
    // SAFETY: a node that was queued has a reference of its task.
    let own = unsafe { boost::own_of(node) };
    if let Some(task) = own {
        task.rescue();
    }
    let place = ward.crew().place(ward);
    // SAFETY: it has left its queue, and is one of a task that any lane of that crew may run.
    let posted = unsafe { place.post_task(node, Origin::Outside) };
    match own {
        Some(task) => task.unless_refused(posted),
        // SAFETY: as above.
        None => unsafe { boost::unless_refused(node, posted) },
    }
}

impl<M: Machine> TaskRef<M> {
    /// Has a rescuable task, which was woken or spawned just now, lent to a lane above that rescues: the one that the
    /// caller is, or the one that looks after the lane where the task waits. The caller holds a reference.
    #[inline]
    pub(super) fn rescue(self) {
        if self.header().is_rescuable() {
            self.rescue_now();
        }
    }

    #[cold]
    fn rescue_now(self) {
        if self.rescue_here() {
            return;
        }
        let own = self.last().crew();
        let guard = Local::<M>::with_current(|local| {
            let here = local.filter(|local| local.is_of(own));
            let waits = here.map_or(self.last(), |local| local.front());
            let fronts = own.above().last()?.crew().fronts();
            let guard = &fronts[waits.lane() % fronts.len()];
            let is_here = local.is_some_and(|local| local.is(guard));
            (waits.is_guarded() && !is_here).then_some(guard)
        });
        if let Some(guard) = guard {
            self.header().state.retain();
            let sent = Rescued(self);
            // A lane that is gone rescues nothing.
            if post(guard, move || sent.arrive()).is_err() {
                self.release();
            }
        }
    }

    /// Lends it to the lane that the caller is, if that rescues.
    fn rescue_here(self) -> bool {
        let above = Local::<M>::with_current(|local| {
            let local = local.filter(|local| local.rescues())?;
            let mut above = self.last().crew().above().iter();
            above.position(|front| local.is_of(front.crew()))
        });
        if let Some(above) = above {
            self.lend_to(Above::nth(above));
        }
        above.is_some()
    }

    /// As [`TaskRef::rescue`], behind a lent poll in which it was woken.
    pub(super) fn rescue_again(self, local: &Local<M>) {
        if !local.lent.is_declined.get() {
            self.rescue();
        }
    }
}
