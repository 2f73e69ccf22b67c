//! Cancellation tokens across workers.

#![cfg(feature = "cancel")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::sync::CancellationToken;
use doorbell::{Builder, JoinSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[test]
fn one_token_ends_tasks_on_all_workers_and_its_children_but_not_its_parent() {
    const TASKS: usize = 1_000;
    let rt = Builder::new().cores(2).build().unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    let root = CancellationToken::new();
    let token = root.child_token();
    rt.block_on(async {
        let mut set = JoinSet::new();
        for i in 0..TASKS {
            let (token, ended) = (token.child_token(), Arc::clone(&ended));
            set.spawn_on(i % 2, async move {
                token.cancelled().await;
                ended.fetch_add(1, SeqCst);
            });
        }
        let parent = root.clone();
        let waits = doorbell::spawn(async move { parent.cancelled().await });
        assert!(set.try_join_next().is_none());
        assert_eq!(ended.load(SeqCst), 0);
        // From a foreign thread.
        std::thread::spawn(move || token.cancel()).join().unwrap();
        while let Some(end) = set.join_next().await {
            end.unwrap();
        }
        assert_eq!(ended.load(SeqCst), TASKS);
        assert!(!waits.is_finished());
        root.cancel();
        waits.await.unwrap();
    });
}

#[test]
fn a_future_under_a_token_is_dropped_where_it_ran() {
    struct Noted(Arc<AtomicUsize>);
    impl Drop for Noted {
        fn drop(&mut self) {
            let core = doorbell::current_core().unwrap();
            self.0.fetch_add(10 + core.index(), SeqCst);
        }
    }
    let rt = Builder::new().cores(2).build().unwrap();
    let (token, drops) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let task = rt.task().on(1).spawn({
        let (token, noted) = (token.clone(), Noted(Arc::clone(&drops)));
        let waits = async move {
            let _noted = noted;
            std::future::pending::<()>().await;
        };
        async move { token.run_until_cancelled(waits).await }
    });
    token.cancel();
    assert_eq!(rt.block_on(task).unwrap(), None);
    assert_eq!(drops.load(SeqCst), 11);
}
