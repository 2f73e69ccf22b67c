//! While a runtime ends, a worker may be inside a poll that waits for what another task has, such as a channel's sender.
//! The worker cannot end the other tasks that it owns. The thread that ends the runtime ends them: any thread may end a
//! task that is not under poll.

use super::place::end_unplaced;
use crate::group::{DEFAULT, Table};
use crate::link::Node;
use crate::mailbox::Batch;
use crate::queue::{Greed, Queue};
use crate::scheduler::Member;
use crate::task::TaskRef;
use crate::task::home::Listed;
use crate::task::state::Seized;
use crate::worker::WorkerShared;
use doorbell_machine::Machine;
use std::ptr::NonNull;

/// What a visit of a worker's list and mailbox took out.
struct Relieved<M: Machine> {
    seized: Vec<(TaskRef<M>, Seized)>,
    /// The nodes of tasks that were on their way to the worker.
    posted: Vec<NonNull<Node<M>>>,
}

impl<M: Machine> WorkerShared<M> {
    /// Ends the tasks of a worker that was asked to end and has not done so: all but the one under poll, and those
    /// whose future may not leave the worker's thread. Calls are left to the worker. The worker may go on meanwhile.
    /// Not for the worker's own thread.
    pub fn relieve(&self) {
        let member: &Member<M> = self.remote();
        if let Some((chain, _)) = member.close_injected() {
            // SAFETY: a closed queue of tasks, which the caller has taken.
            chain.drain(|node| unsafe { end_unplaced(node) });
        }
        // Deferred tasks have run, so the list of their home worker has them.
        let groups = member.scheduler().groups().table();
        let numbers = groups.into_iter().flat_map(Table::numbers);
        for queue in std::iter::once(DEFAULT)
            .chain(numbers)
            .filter_map(|it| member.queue_of(it))
        {
            empty(queue);
        }
        let visited = member.task_list().visit(member.parker(), |list| {
            let mut mail = member.take_mail_elsewhere();
            let posted = mail.pick(|node| ends_elsewhere(node));
            list.mail.push(mail);
            list.mail.retain(|mail: &Batch<M>| !mail.is_empty());
            let seized = seize_all(list);
            Relieved { seized, posted }
        });
        // Outside of the list, because these are drops of futures.
        let Some(Relieved { seized, posted }) = visited else {
            return;
        };
        for node in posted {
            // SAFETY: a node of a task, which the visit has taken.
            unsafe { end_unplaced(node) };
        }
        for (task, seized) in seized {
            task.end_seized(seized);
        }
    }
}

/// Seizes all tasks of the list whose futures may be dropped here. They leave it.
fn seize_all<M: Machine>(list: &mut Listed<M>) -> Vec<(TaskRef<M>, Seized)> {
    let movable = list.iter().filter(|task| !task.header().stays());
    let movable: Vec<TaskRef<M>> = movable.collect();
    let seize = |task: TaskRef<M>| {
        list.remove(task);
        (task, task.header().state.seize())
    };
    movable.into_iter().map(seize).collect()
}

/// Whether the node in a mailbox is that of a task that waits there, and whose future may be dropped here.
fn ends_elsewhere<M: Machine>(node: NonNull<Node<M>>) -> bool {
    // SAFETY: it was taken from a mailbox, so it is alive.
    unsafe { TaskRef::of_task_node(node) }
        .is_some_and(|task| !task.header().stays() && !task.header().state.is_complete())
}

/// Ends the tasks in a run queue of another thread's worker.
fn empty<M: Machine>(queue: &Queue<M>) {
    let taken = match queue.order() {
        None => Queue::new(M::RING_CAPACITY),
        Some(_) => Queue::ordered(M::RING_CAPACITY, TaskRef::<M>::rank_of),
    };
    loop {
        // SAFETY: only this thread has `taken`.
        let node = unsafe { taken.pop() };
        let node = node.or_else(|| {
            // SAFETY: as above, and the other queue is the worker's; both or neither are ordered.
            let loot = unsafe { queue.steal_into(&taken, Greed::Single) };
            loot.map(|loot| loot.first)
        });
        match node {
            // SAFETY: a task's node, which was taken out.
            Some(node) => unsafe { end_unplaced(node) },
            None => return,
        }
    }
}
