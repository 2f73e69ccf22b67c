//! Another try after the OS refused a thread: the threads that there are may all wait for what is queued.
//!
//! A thread that has run a closure tries too. That is all there is where the task gets no turn: with a paused clock,
//! which the queued closures hold, and while all Fair workers are inside polls or calls. There, closures that wait for
//! a queued one while no other closure ends wait until a closure is submitted.

use super::pool::Pool;
use crate::class::Class;
use crate::handle::Handle;
use crate::time::sleep;
use doorbell_machine::{Machine, Ordering, Word};
use std::sync::Arc;
use std::time::Duration;

/// Pause between two tries. Short beside what a closure that blocks takes, and long beside a refused try.
const PAUSE: Duration = Duration::from_millis(100);

/// Has a task start the threads that were refused, later. At most one such task of a pool runs.
pub(super) fn try_later<M: Machine>(pool: &Arc<Pool<M>>, handle: &Handle) {
    if is_first(pool) {
        let (pool, runtime) = (Arc::clone(pool), handle.clone());
        let task = handle.task().class(Class::FAIR).no_group();
        let its = Arc::clone(&pool);
        let spawned = task.try_spawn(async move {
            loop {
                sleep(PAUSE).await;
                its.start_lacking(&runtime);
                if !its.lacks_thread() && !goes_on(&its) {
                    return;
                }
            }
        });
        if spawned.is_err() {
            // The closures wait for the threads that there are. The next refusal asks for a task again.
            end(&pool);
        }
    }
}

fn is_first<M: Machine>(pool: &Pool<M>) -> bool {
    // ORDER: AcqRel; a read-modify-write, so of two callers one is first. Each sees what the other did before.
    pool.retrying.swap(1, Ordering::AcqRel) == 0
}

/// The task is about to end. A thread that is refused from here on finds that, or this finds its closure.
fn goes_on<M: Machine>(pool: &Pool<M>) -> bool {
    end(pool);
    pool.lacks_thread() && is_first(pool)
}

fn end<M: Machine>(pool: &Pool<M>) {
    // ORDER: AcqRel, as in `is_first`.
    pool.retrying.swap(0, Ordering::AcqRel);
}
