//! The raised node of a task, raised again and again in every interleaving: by a waker that is no worker,
//! while a worker of its own scheduler and one of the scheduler above both take a node of it.

use super::loom_above::{Stage, polled_by_both};
use crate::testing::model::{check, check_large, join_all};
use crate::worker::Local;
use ::loom::thread;
use doorbell_machine::Loom;
use std::sync::Arc;

/// Takes what there is, twice: a wake may come in between.
fn run(local: &Local<Loom>) {
    for _ in 0..2 {
        let _ = local.gather();
        while local.run_one() {}
    }
}

/// Its own worker has polled the task once, and it waits for a door; somebody opens that while both workers
/// look for it, and end.
fn woken_while_both_look() {
    let (stage, join) = Stage::new(1, 0);
    stage.local.enter(|| assert!(stage.local.run_one()));
    let (gate, waker) = (Arc::clone(&stage.gate), stage.gate.waker());
    let waking = thread::spawn(move || {
        gate.open(0);
        waker.wake();
    });
    let above = stage.above.clone();
    let awaiting = thread::spawn(move || Stage::awaits(above, join));
    stage.local.enter(|| {
        run(&stage.local);
        stage.local.close();
    });
    join_all([waking]);
    stage.assert_freed(awaiting.join().unwrap());
}

/// A task that never ran is complete after its first poll, by either node.
fn ready_at_once() {
    polled_by_both(0, 0);
}

#[test]
fn a_task_that_is_woken_while_both_its_workers_look_ends_once() {
    check_large(woken_while_both_look);
}

#[test]
fn a_task_that_never_ran_is_complete_by_either_node() {
    check(ready_at_once);
}
