//! Rescue: tasks that are polled although the Fair worker of their core is stuck in a long poll.
//!
//! A Fair task whose polls are always brief can be made [rescuable](crate::TaskBuilder::rescuable), for
//! example one that reads requests and hands them on. It runs on Fair workers like any other task. But while
//! the Fair worker of a core is stuck in long polls, the Rt worker of that core polls the stuck worker's
//! descriptors. The Rt worker runs the rescuable tasks that it wakes or spawns meanwhile. It also runs
//! rescuable tasks that are queued behind the long poll, up to 64 at a time.
//! [`Handle::open_rescue`](crate::Handle::open_rescue) switches this on.
//!
//! Contract: *except in the cases under "Not covered", and while other threads have the stuck worker's CPU: a
//! descriptor of a stuck worker becomes ready, for which a rescuable task waits, and the Rt worker has run
//! less than three tenths of the time ⇒ an Rt worker polls that task.* The Rt worker notices that the Fair
//! worker is stuck within 16 ms and 250 µs, or within 64 ms and 250 µs if other threads had the stuck
//! worker's CPU at the previous look. It must get CPU time itself, and have nothing more urgent to run. The
//! time that the task then waits for its turn there has no bound. (Test:
//! `a_rescuable_task_reads_while_its_worker_is_stuck`.)
//!
//! A Fair worker counts as stuck when it has been inside one poll for 250 µs, and then as long as its polls
//! take that long on average. The Rt worker checks for a long poll when one of the Fair worker's descriptors
//! becomes ready. After a check that found none, the next check comes 250 µs later at the earliest. This time
//! doubles with each further such check, up to 16 ms. So the first long poll after many short ones may be
//! noticed 16 ms late.
//!
//! An Rt worker that has run three tenths of the time, whatever it ran, rescues nothing for up to 20 ms. The
//! three tenths are of each period of 2 ms. Time beyond them is a debt that the next periods pay. Rescued
//! tasks, and the task that looks after the stuck worker, have the rank of `Class::rt(49)`. Rt tasks of a
//! higher number run before them. If those never wait, nothing is rescued.
//!
//! A poll can also take long because another program has the CPU, or because the poll blocks in the OS. Such
//! a worker is rescued once, and again after at most 64 ms. With more rescues, all rescuable tasks of the
//! worker would run at Rt priority beside a busy neighbour.
//!
//! Not covered:
//!
//! * A task behind a long poll that another thread wakes: no descriptor tells the Rt worker. The task waits
//!   for the end of that poll, or until the Rt worker next goes through the queue.
//! * Timers that the task armed on its own worker.
//! * Tasks behind a long poll, once the class has groups.
//! * Rarely, a descriptor of the stuck worker that another busy Fair worker polled first: the task then waits
//!   for the polls of that worker.
//!
//! In a rescue do not compute, and call nothing whose duration you do not know, such as a callback of your
//! user's. Leave that to the task's own workers ([`decline`]), or spawn it. If an Rt task begins to await a
//! task that is already raised for a rescue, the raised task keeps the rank of `Class::rt(49)` until its next
//! poll.

use doorbell_core::worker::Local;
use doorbell_machine::Host;
use std::task::Context;

/// Whether an Rt worker polls the current task as a rescue. `false` if a task of a higher class awaits the
/// current one: then it is polled for that task.
#[must_use]
pub fn is_under_way() -> bool {
    Local::<Host>::with_current(|local| local.is_some_and(Local::is_rescue))
}

/// Leaves the rest of the poll to the task's own workers, by waking the task. Return `Poll::Pending` after
/// this call. Wakes during this poll do not raise the task again; a later event may. Outside of a rescue this
/// only wakes the task.
pub fn decline(cx: &mut Context<'_>) {
    Local::<Host>::with_current(|local| {
        if let Some(local) = local {
            local.decline_rescue();
        }
    });
    cx.waker().wake_by_ref();
}
