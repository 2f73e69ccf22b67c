//! Tasks that are served while everything computes.
//!
//! A task of class Fair whose polls are always brief, as one that reads requests and hands them on, can be made
//! [rescuable](crate::TaskBuilder::rescuable). It runs on Fair lanes like any other. But while the Fair lane of a core is stuck
//! in long polls, the urgent lane of that core looks at the stuck one's descriptors, and runs those rescuable tasks that it
//! wakes or spawns meanwhile. [`Handle::open_rescue`](crate::Handle::open_rescue) has urgent lanes do that.
//!
//! Contract: *a descriptor of a stuck lane becomes ready, for which a rescuable task waits, and the urgent lane has run less
//! than three tenths of the time ⇒ an urgent lane polls that task.* A lane is stuck while it is inside one poll for 250 µs,
//! and then as long as its polls take that long on average. Urgent lanes note it when a descriptor of it becomes ready. They
//! do not look more often than each 16 ms: the first long poll after many short ones is noticed up to 16 ms late.
//! An urgent lane that other tasks keep busy rescues each 20 ms at least.
//!
//! A lane whose CPU others have (other programs, or a poll that sleeps in the OS) is in one poll for long, too. It is rescued
//! once, and then again up to 64 ms later: else a busy neighbour would have all its tasks run before its own turn.
//!
//! Not covered: what another thread wakes behind a long poll, where no descriptor tells the urgent lane. It waits for the
//! end of that poll, or for the next time that the urgent lane goes through what waits there. Nor anything that lies behind a poll
//! once the class has groups. Nor, rarely, a descriptor that another Fair lane, with work of its own, has looked at first in
//! place of the stuck one: its task lies behind the polls of that lane.
//!
//! In such a poll a task is to do nothing that may take long, nor to call what is not its own: it leaves that to its own
//! lanes ([`decline`]), or spawns it. If a task is rescued, then awaited by a task that is more urgent than `Class::rt(49)`, it
//! keeps that rank until it has been polled.

use doorbell_core::task::Local;
use doorbell_machine::Host;
use std::task::Context;

/// Whether the task under poll is rescuable, and an urgent lane polls it.
#[must_use]
pub fn is_under_way() -> bool {
    Local::<Host>::with_current(|local| local.is_some_and(Local::is_rescue))
}

/// Leaves the rest of the poll to the task's own lanes: wakes the task, and what wakes it in this poll does not have it
/// rescued. The caller is pending. Elsewhere than in a rescue this is a wake.
pub fn decline(cx: &mut Context<'_>) {
    Local::<Host>::with_current(|local| {
        if let Some(local) = local {
            local.decline_rescue();
        }
    });
    cx.waker().wake_by_ref();
}
