//! Tasks that are served while everything computes.
//!
//! A task of class Fair whose polls are always brief, as one that reads requests and hands them on, can be made
//! [rescuable](crate::TaskBuilder::rescuable). It runs on Fair lanes like any other. But while the Fair lane of a core is stuck
//! in long polls, the urgent lane of that core looks at the stuck one's descriptors, and runs those rescuable tasks that it
//! wakes or spawns meanwhile. [`Handle::open_rescue`](crate::Handle::open_rescue) has urgent lanes do that.
//!
//! Contract: *a descriptor of a stuck lane becomes ready, for which a rescuable task waits, and rescues take less than half
//! of the core's time ⇒ an urgent lane polls that task.* Urgent lanes note that a lane is stuck when a descriptor of it becomes ready
//! and it has been inside one poll for 250 µs; under a load of short polls they look for that 15 times a second.
//!
//! In such a poll a task is to do nothing that may take long, nor to call what is not its own: it leaves that to its own
//! lanes ([`decline`]), or spawns it.

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
