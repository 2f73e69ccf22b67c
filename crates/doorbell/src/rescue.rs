//! Tasks that are served while everything computes.
//!
//! A task of class Fair whose polls are always brief, for example one that reads requests and hands them on, can be
//! made [rescuable](crate::TaskBuilder::rescuable). It runs on Fair workers like any other. But while the Fair worker
//! of a core is stuck in long polls, the urgent worker of that core looks at the stuck worker's descriptors. The urgent
//! worker runs the rescuable tasks that it wakes or spawns there, and up to 64 at a time of those queued behind the
//! long poll. [`Handle::open_rescue`](crate::Handle::open_rescue) switches this on.
//!
//! Contract: *except in the cases under "Not covered", and while other threads have the stuck worker's CPU: a
//! descriptor of a stuck worker becomes ready, for which a rescuable task waits, and the urgent worker has run less
//! than three tenths of the time ⇒ an urgent worker polls that task.* The urgent worker notices that the other one is
//! stuck within 16 ms and 250 µs, or 64 ms and 250 µs if other threads had the stuck worker's CPU at the previous look.
//! It must get CPU time itself, and have nothing more urgent to run. How long the task then waits for its turn there
//! has no bound. (Test: `a_rescuable_task_reads_while_its_worker_is_stuck`.)
//!
//! A worker is stuck while it is inside one poll for 250 µs, and then as long as its polls take that long on average.
//! An urgent worker checks for a long poll when one of the worker's descriptors becomes ready. After a check that found
//! none the next one comes 250 µs later at the earliest, then twice as long after each further one, up to 16 ms. So the
//! first long poll after many short ones may be noticed 16 ms late.
//!
//! An urgent worker that has run three tenths of the time, whatever it ran, rescues nothing for 20 ms at most. The
//! three tenths are of each 2 ms. What the worker runs beyond them is a debt, which the periods that follow pay.
//! Rescued tasks, and the task that looks after the stuck worker, have the rank of `Class::rt(49)`. Urgent tasks of a
//! higher number go first, as those of `Class::rt(50)`. If these never let go, nothing is rescued.
//!
//! A poll can also be long because another program has the CPU or because the poll blocks in the OS. Such a worker is
//! rescued once, then again after at most 64 ms. Otherwise, beside a busy neighbour, all rescuable tasks of the worker
//! would run with urgent priority.
//!
//! Not covered: what another thread wakes behind a long poll, where no descriptor tells the urgent worker. It waits for
//! the end of that poll, or for the next time that the urgent worker goes through what waits there. Nor timers that the
//! task armed on its own worker. Nor anything that lies behind a poll once the class has groups. Nor, rarely, a
//! descriptor that another Fair worker, with work of its own, has looked at first in place of the stuck one: its task
//! lies behind the polls of that worker.
//!
//! In a rescue do not compute, and call nothing whose duration you do not know, such as a callback of your user's.
//! Leave that to the task's own workers ([`decline`]), or spawn it. If an urgent task begins to await a task already
//! raised for a rescue, the raised task keeps the rank of `Class::rt(49)` until its next poll.

use doorbell_core::task::Local;
use doorbell_machine::Host;
use std::task::Context;

/// Whether an urgent worker polls the current task as a rescue. `false` if a task of a higher class awaits it: then it
/// is polled for that task.
#[must_use]
pub fn is_under_way() -> bool {
    Local::<Host>::with_current(|local| local.is_some_and(Local::is_rescue))
}

/// Leaves the rest of the poll to the task's own workers: wakes the task. Return `Poll::Pending` after it. Wakes during
/// this poll do not raise it again; a later event may. Elsewhere than in a rescue this is a wake.
pub fn decline(cx: &mut Context<'_>) {
    Local::<Host>::with_current(|local| {
        if let Some(local) = local {
            local.decline_rescue();
        }
    });
    cx.waker().wake_by_ref();
}
