//! Launching: a task is made of a future and given to a worker.

use crate::group::DEFAULT;
use crate::scheduler::RemoteRef;
use crate::scheduler::telemetry::Telemetry;
use crate::task::cell::CellSpec;
use crate::task::extras::Extras;
use crate::task::{About, BodyVtable, Kind, RawJoin, TaskRef};
use crate::worker::Local;
use doorbell_machine::Machine;

/// Makes a task of a body and hands it to its worker. Returns the side that joins it.
///
/// `write` is called once with the address to write the body to. If the worker is gone, the task
/// is complete and cancelled when this returns.
///
/// # Safety
/// `write` writes a body of `vtable`'s type there and does not unwind after it has. The future
/// in it and its output may be sent to the worker's thread, and to wherever the join side goes.
pub unsafe fn launch<M: Machine>(
    remote: RemoteRef<M>,
    kind: Kind,
    vtable: &'static BodyVtable,
    write: impl FnOnce(*mut u8),
) -> RawJoin {
    // SAFETY: passed on from the caller.
    unsafe { launch_described(remote, kind, About::default(), vtable, write) }
}

/// As [`launch`], for a task of which more is said.
///
/// # Safety
/// As for [`launch`].
pub unsafe fn launch_described<M: Machine>(
    remote: RemoteRef<M>,
    kind: Kind,
    about: About<'_>,
    vtable: &'static BodyVtable,
    write: impl FnOnce(*mut u8),
) -> RawJoin {
    let scheduler = remote.scheduler();
    let telemetry = scheduler.telemetry();
    let is_recorded = telemetry.is_some_and(Telemetry::is_of_tasks);
    let is_timed = telemetry.is_some_and(Telemetry::records_times);
    let spec: CellSpec<M> = CellSpec {
        kind,
        rank: about.rank,
        group: join_group(&remote, kind, about.group),
        has_raised_node: kind == Kind::Task && !scheduler.above().is_empty(),
        is_rescuable: about.rescuable,
        extras: Extras::of(kind, &about, is_recorded, is_timed),
        last: remote.into_raw(),
    };
    // SAFETY: passed on from the caller.
    let (task, join) = unsafe { TaskRef::new(spec, vtable, write) };
    if task.header().has_extras() {
        task.note_spawn();
    }
    task.submit_new(kind);
    join
}

/// The group of a task that is launched, which counts it: the one asked for, or that of the
/// launching task of the same scheduler.
#[inline]
fn join_group<M: Machine>(remote: &RemoteRef<M>, kind: Kind, asked: Option<u8>) -> u8 {
    let Some(table) = remote
        .scheduler()
        .groups()
        .table()
        .filter(|_| kind != Kind::Call)
    else {
        return DEFAULT;
    };
    if let Some(group) = asked {
        return group;
    }
    let group = Local::<M>::with_current(|local| {
        let local = local.filter(|local| local.is_of(remote.scheduler()));
        local.map_or(DEFAULT, Local::group)
    });
    match table.slot(group).filter(|_| group != DEFAULT) {
        None => DEFAULT,
        Some(slot) => {
            slot.join();
            group
        }
    }
}
