//! Values that futures carry: visible to what they call, and hidden from everything else.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use crate::shuffled::Builder;
use doorbell::{Runtime, call_on, spawn, task_local, yield_now};
use futures::FutureExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Mutex;

task_local! {
    static ID: u64;
    /// Not `Copy`, and of another type.
    pub(crate) static NAME: String;
}

fn runtime() -> Runtime {
    Builder::new().cores(2).build().unwrap()
}

#[test]
fn many_tasks_on_few_workers_each_see_their_own() {
    runtime().block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|i| {
                let body = async move {
                    for _ in 0..20 {
                        assert_eq!(ID.get(), i);
                        assert_eq!(NAME.with(|name| name.parse::<u64>().unwrap()), i);
                        yield_now().await;
                    }
                };
                spawn(ID.scope(i, NAME.scope(i.to_string(), body)))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(ID.try_with(|_| ()).is_err());
    });
}

#[test]
fn futures_polled_by_turns_in_one_task_are_kept_apart() {
    runtime().block_on(async {
        let one = |id| {
            ID.scope(id, async move {
                for _ in 0..10 {
                    yield_now().await;
                    assert_eq!(ID.get(), id);
                }
            })
        };
        ID.scope(0, async {
            futures::join!(one(1), one(2), async {
                yield_now().await;
                assert_eq!(ID.get(), 0);
            });
        })
        .await;
    });
}

#[test]
fn nobody_inherits_a_value() {
    runtime().block_on(ID.scope(3, async {
        assert!(spawn(async { ID.try_with(|_| ()).is_err() }).await.unwrap());
        assert!(call_on(0, || ID.try_with(|_| ()).is_err()).await.unwrap());
        let blocking = doorbell::spawn_blocking(|| ID.try_with(|_| ()).is_err());
        assert!(blocking.await.unwrap());
        assert_eq!(ID.get(), 3);
    }));
}

#[test]
fn a_panic_takes_the_value_off() {
    let thrown = catch_unwind(|| ID.sync_scope(1, || panic!("on purpose")));
    assert!(thrown.map(|(): ()| ()).is_err());
    assert!(ID.try_with(|_| ()).is_err());
    runtime().block_on(ID.scope(1, async {
        let inner = ID.scope(2, async { assert!(ID.get() != 2, "on purpose") });
        assert!(AssertUnwindSafe(inner).catch_unwind().await.is_err());
        assert_eq!(ID.get(), 1);
        let thrown = catch_unwind(|| ID.sync_scope(3, || assert!(ID.get() != 3, "on purpose")));
        assert!(thrown.is_err());
        assert_eq!(ID.get(), 1);
    }));
}

/// Records the value that its destructor finds.
struct Looks(&'static Mutex<Vec<Option<u64>>>);

impl Drop for Looks {
    fn drop(&mut self) {
        let seen = ID.try_with(|id| *id).ok();
        self.0.lock().unwrap().push(seen);
    }
}

#[test]
fn destructors_of_the_future_find_the_value() {
    static SEEN: Mutex<Vec<Option<u64>>> = Mutex::new(Vec::new());
    let waits = |id| {
        let looks = Looks(&SEEN);
        ID.scope(id, async move {
            let _looks = looks;
            if id > 1 {
                std::future::pending::<()>().await;
            }
        })
    };
    let rt = runtime();
    rt.block_on(waits(1));
    // Never polled; polled and dropped; aborted as a task.
    drop(waits(2));
    rt.block_on(async {
        {
            let mut begun = pin!(waits(3));
            assert!(futures::poll!(&mut begun).is_pending());
        }
        let task = spawn(waits(4));
        yield_now().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    });
    assert_eq!(*SEEN.lock().unwrap(), [Some(1), Some(2), Some(3), Some(4)]);
    assert!(ID.try_with(|_| ()).is_err());
}

#[test]
fn without_a_scope_the_text_says_what_to_do() {
    let error = NAME.try_with(|_| ()).unwrap_err().to_string();
    assert!(error.contains("NAME.scope(value, future)"), "{error}");
    let thrown = catch_unwind(|| ID.get()).unwrap_err();
    assert!(
        thrown
            .downcast_ref::<String>()
            .unwrap()
            .contains("ID.scope")
    );
    // No runtime is needed.
    assert_eq!(
        NAME.sync_scope("a".to_owned(), || NAME.with(String::len)),
        1
    );
}
