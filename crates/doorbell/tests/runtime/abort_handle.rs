//! Handles that abort a task beside its join handle.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{AbortHandle, Builder, JoinSet};
use std::future::pending;
use std::sync::Arc;

#[test]
fn any_of_them_aborts_the_task_from_any_thread_with_or_without_a_runtime() {
    let runtime = Builder::new().cores(2).build().unwrap();
    for pinned in [false, true] {
        let task = if pinned {
            runtime.task().on(1).spawn(pending::<()>())
        } else {
            runtime.spawn(pending())
        };
        let abort = task.abort_handle();
        let another = abort.clone();
        assert_eq!((abort.id(), another.id()), (task.id(), task.id()));
        drop(abort);
        assert!(!another.is_finished());
        std::thread::spawn(move || another.abort()).join().unwrap();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
    }
    // The task of a handle that was dropped, too.
    let held = Arc::new(());
    let theirs = Arc::clone(&held);
    let task = runtime.spawn(async move {
        pending::<()>().await;
        drop(theirs);
    });
    let abort = task.abort_handle();
    drop(task);
    abort.abort();
    runtime.block_on(async {
        while !abort.is_finished() || Arc::strong_count(&held) > 1 {
            doorbell::yield_now().await;
        }
    });
}

#[test]
fn they_do_nothing_to_a_task_that_has_ended_and_outlive_its_runtime() {
    let runtime = Builder::new().cores(1).build().unwrap();
    let task = runtime.spawn(async { 7 });
    let abort = task.abort_handle();
    while !abort.is_finished() {
        std::thread::yield_now();
    }
    abort.abort();
    assert_eq!(runtime.block_on(task).unwrap(), 7);
    let held = Arc::new(());
    let theirs = Arc::clone(&held);
    let waits = runtime.spawn(async move {
        pending::<()>().await;
        drop(theirs);
    });
    let of_waits = waits.abort_handle();
    drop(runtime);
    assert_eq!(Arc::strong_count(&held), 1, "it keeps the future");
    for handle in [abort, of_waits] {
        assert!(handle.is_finished());
        handle.abort();
        drop(handle.clone());
    }
    assert!(waits.is_finished());
}

#[doorbell::test(cores = 2)]
async fn a_local_task_is_aborted_from_another_core() {
    let (tell, told) = tokio::sync::oneshot::channel::<AbortHandle>();
    let local = doorbell::spawn_local_on(0, || async {
        let local = doorbell::spawn_local(pending::<()>());
        drop(tell.send(local.abort_handle()));
        local.await.unwrap_err().is_cancelled()
    });
    let abort = told.await.unwrap();
    doorbell::task()
        .on(1)
        .spawn(async move { abort.abort() })
        .await
        .unwrap();
    assert!(local.await.unwrap());
}

#[doorbell::test]
async fn a_set_gives_one_for_each_of_its_tasks() {
    let mut set = JoinSet::new();
    let one = set.spawn(pending());
    let pinned = set.spawn_on(0, pending());
    let inserted = set.insert(doorbell::spawn(pending()));
    let runs = set.spawn_blocking(|| 7);
    for aborted in [one, pinned, inserted] {
        aborted.abort();
        let (id, result) = set.join_next_with_id().await.unwrap();
        if id == runs.id() {
            // It is the quickest.
            assert_eq!(result.unwrap(), 7);
            continue;
        }
        assert!(result.unwrap_err().is_cancelled());
    }
    while let Some((id, result)) = set.join_next_with_id().await {
        assert_eq!(result.is_ok(), id == runs.id());
    }
}
