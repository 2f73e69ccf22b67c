//! Another try after the OS refused a thread: the threads that there are may all wait for what is queued.

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
        // Without a task, as in a runtime that ends, the closures wait for the threads that there are.
        drop(task.try_spawn(async move {
            loop {
                sleep(PAUSE).await;
                pool.start_lacking(&runtime);
                if !pool.lacks_thread() && !goes_on(&pool) {
                    return;
                }
            }
        }));
    }
}

fn is_first<M: Machine>(pool: &Pool<M>) -> bool {
    // ORDER: AcqRel; a read-modify-write, so of two callers one is first. Each sees what the other did before.
    pool.retrying.swap(1, Ordering::AcqRel) == 0
}

/// The task is about to end. A thread that is refused from here on finds that, or this finds its closure.
fn goes_on<M: Machine>(pool: &Pool<M>) -> bool {
    // ORDER: AcqRel, as in `is_first`.
    pool.retrying.swap(0, Ordering::AcqRel);
    pool.lacks_thread() && is_first(pool)
}
