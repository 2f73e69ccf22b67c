//! Parcels between their pool and a worker, in every interleaving. A slab has two parcels
//! here.

// What a model counts with std's atomics is not part of it and orders nothing in it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Pool, posting};
use crate::mailbox::Gone;
use crate::scheduler::Member;
use crate::testing::model::{check, check_large};
use crate::testing::{Idler, remote};
use crate::worker::Local;
use ::loom::thread;
use doorbell_machine::Loom;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Posts a closure that counts; `false` if the worker was gone and it came back.
fn post(pool: &Pool<Loom>, remote: &Member<Loom>, ran: &Arc<AtomicUsize>) -> bool {
    let ran = Arc::clone(ran);
    let count = move || {
        ran.fetch_add(1, Relaxed);
    };
    // SAFETY: the closure is Send and owns what it uses; it is posted once.
    let posted = unsafe {
        posting(
            count,
            |room| Ok(pool.draw(room)),
            |drawn, run| Pool::send(remote, drawn, run),
        )
    };
    match posted {
        Ok(()) => true,
        Err((f, Gone)) => {
            f();
            false
        }
    }
}

/// A producer that posts and is gone, against a worker that returns what it has run whenever it
/// has nothing to do.
fn pool_ends(posts: usize) {
    let remote = remote::<Loom>();
    let (ran, memory) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    let theirs = (remote.clone(), Arc::clone(&ran), Arc::clone(&memory));
    let producer = thread::spawn(move || {
        let (remote, ran, memory) = theirs;
        let pool = Pool::probed(memory);
        for _ in 0..posts {
            assert!(post(&pool, &remote, &ran));
        }
    });
    let local = Local::new(remote);
    let idler = Idler::new(&local, false);
    local.enter(|| {
        idler.until(|| {
            local.returns().flush();
            ran.load(Relaxed) == posts
        });
    });
    producer.join().unwrap();
    assert_eq!(ran.load(Relaxed), posts);
    assert_eq!(Arc::strong_count(&memory), 1, "a pool was leaked");
}

fn one_post() {
    pool_ends(1);
}

fn two_posts() {
    pool_ends(2);
}

fn three_posts() {
    pool_ends(3);
}

/// Two workers return parcels of a pool that ends meanwhile: one of three frees it.
fn two_workers() {
    let (ran, memory) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    let remotes = [remote::<Loom>(), remote::<Loom>()];
    let pool = Pool::probed(Arc::clone(&memory));
    for remote in &remotes {
        assert!(post(&pool, remote, &ran));
    }
    let workers = remotes.map(|remote| {
        thread::spawn(move || {
            let local = Local::new(remote);
            // Runs the one post; what the worker holds goes back when it ends.
            local.enter(|| local.close());
        })
    });
    drop(pool);
    crate::testing::model::join_all(workers);
    assert_eq!(ran.load(Relaxed), 2);
    assert_eq!(Arc::strong_count(&memory), 1, "a pool was leaked");
}

/// The worker closes meanwhile: each closure runs there, or comes back.
fn post_against_close() {
    let remote = remote::<Loom>();
    let (ran, memory) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    let theirs = (remote.clone(), Arc::clone(&ran), Arc::clone(&memory));
    let producer = thread::spawn(move || {
        let (remote, ran, memory) = theirs;
        let pool = Pool::probed(memory);
        let first = post(&pool, &remote, &ran);
        let second = post(&pool, &remote, &ran);
        assert!(first || !second, "closed, and open again");
    });
    let local = Local::new(remote);
    local.enter(|| local.close());
    drop(local);
    producer.join().unwrap();
    assert_eq!(ran.load(Relaxed), 2);
    assert_eq!(Arc::strong_count(&memory), 1, "a pool was leaked");
}

/// Two slabs come back while their owner draws on: it finds both.
fn two_slabs_come_back() {
    let remote = remote::<Loom>();
    let (ran, memory) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    let pool = Pool::probed(Arc::clone(&memory));
    for _ in 0..3 {
        assert!(post(&pool, &remote, &ran));
    }
    let theirs = remote.clone();
    let worker = thread::spawn(move || {
        let local = Local::new(theirs);
        local.enter(|| local.close());
    });
    for _ in 0..2 {
        let _ = post(&pool, &remote, &ran);
    }
    drop(pool);
    worker.join().unwrap();
    assert_eq!(ran.load(Relaxed), 5);
    assert_eq!(Arc::strong_count(&memory), 1, "a pool was leaked");
}

/// A thread's own pool ends with it.
fn pool_of_thread() {
    let remote = remote::<Loom>();
    let ran = Arc::new(AtomicUsize::new(0));
    let theirs = (remote.clone(), Arc::clone(&ran));
    let producer = thread::spawn(move || {
        let (remote, ran) = theirs;
        for _ in 0..2 {
            let ran = Arc::clone(&ran);
            let posted = super::post(&*remote, move || {
                ran.fetch_add(1, Relaxed);
            });
            assert!(posted.is_ok());
        }
    });
    let local = Local::new(remote);
    let idler = Idler::new(&local, false);
    local.enter(|| idler.until(|| ran.load(Relaxed) == 2));
    drop(local);
    producer.join().unwrap();
}

#[test]
fn d10_a_pool_that_ends_before_its_parcels_is_freed_once() {
    check(one_post);
    check_large(two_posts);
    check_large(three_posts);
}

#[test]
fn b1_one_of_two_workers_or_the_owner_frees() {
    check_large(two_workers);
}

#[test]
fn b8_a_post_to_a_closing_worker_runs_or_comes_back() {
    check_large(post_against_close);
}

#[test]
fn two_slabs_that_come_back_are_both_found() {
    check_large(two_slabs_come_back);
}

#[test]
fn a_threads_own_pool_ends_with_it() {
    check_large(pool_of_thread);
}
