//! A task for which something is always ready gives the others a turn.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::Builder;
use doorbell::coop::{consume_budget, cooperative};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

#[test]
fn s3_a_channel_that_is_never_empty_does_not_starve_the_others() {
    let rt = Builder::new().cores(1).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let received = Arc::new(AtomicUsize::new(0));
    let (to, mut from) = tokio::sync::mpsc::unbounded_channel();
    to.send(()).unwrap();
    let (seen, count) = (Arc::clone(&stop), Arc::clone(&received));
    let reader = rt.spawn(async move {
        while !seen.load(SeqCst) {
            cooperative(pin!(from.recv())).await.unwrap();
            count.fetch_add(1, SeqCst);
            to.send(()).unwrap();
        }
    });
    while received.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    // Both come through although the reader never waits.
    rt.block_on(rt.spawn(async {})).unwrap();
    rt.block_on(rt.call_on(0, || ())).unwrap();
    stop.store(true, SeqCst);
    rt.block_on(reader).unwrap();
}

#[test]
fn a_poll_completes_so_many_ready_operations_and_no_more() {
    let rt = Builder::new().cores(1).build().unwrap();
    let (done, polls) = rt
        .block_on(rt.spawn(async {
            let mut work = pin!(async {
                for _ in 0..1_000 {
                    consume_budget().await;
                }
            });
            let mut polls = 0_usize;
            std::future::poll_fn(|cx| {
                polls += 1;
                work.as_mut().poll(cx)
            })
            .await;
            (1_000, polls)
        }))
        .unwrap();
    // 128 each: eight polls, of which the last is not full.
    assert_eq!((done, polls), (1_000, 8));
}

#[test]
fn on_a_thread_of_ones_own_nothing_is_counted() {
    let rt = Builder::new().cores(1).build().unwrap();
    rt.block_on(async {
        let mut work = pin!(async {
            for _ in 0..1_000 {
                consume_budget().await;
            }
        });
        let first = futures::poll!(work.as_mut());
        assert!(first.is_ready());
    });
}
