//! Parcels and their pools, on this computer.

// Tests on real threads, outside of any model.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{PARCEL_BYTES, Pool, Room, post, posting};
use crate::link::Taker;
use crate::mailbox::Gone;
use crate::scheduler::Member;
use crate::scheduler::RemoteRef;
use crate::switches::{SwitchWord, Switches};
use crate::testing::{Idler, Inbox, Log, remote};
use crate::worker::Local;
use crate::worker::{IdlePolicy, Worker, WorkerConfig, WorkerShared};
use doorbell_machine::{Counter, Host};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Posts in a parcel of that pool.
fn post_from<F: FnOnce() + Send + 'static>(
    pool: &Pool<Host>,
    remote: &Member<Host>,
    f: F,
) -> Result<(), F> {
    // SAFETY: the closure is Send and borrows nothing; it is posted at most once.
    unsafe {
        posting(
            f,
            |room| Ok(pool.draw(room)),
            |drawn, run| Pool::send(remote, drawn, run),
        )
    }
    .map_err(|(f, Gone)| f)
}

fn serve(remote: &Member<Host>, inbox: &impl Taker<Host>) -> u64 {
    // SAFETY: the remote half is served by this thread alone.
    unsafe { remote.serve(inbox) }.delivered
}

/// A closure of that size and alignment runs whole, and what it owns is dropped once.
fn sized<T: Copy + Send + PartialEq + 'static>(
    remote: &Member<Host>,
    inbox: &Inbox<Host>,
    value: T,
) {
    let (owned, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let (theirs, count) = (Arc::clone(&owned), Arc::clone(&ran));
    let posted = post(remote, move || {
        let aligned = std::ptr::from_ref(&value)
            .addr()
            .is_multiple_of(align_of::<T>());
        count.fetch_add(usize::from(aligned), Relaxed);
        drop(theirs);
    });
    assert!(posted.is_ok());
    assert_eq!(serve(remote, inbox), 1);
    assert_eq!((ran.load(Relaxed), Arc::strong_count(&owned)), (1, 1));
}

#[repr(align(64))]
#[derive(Clone, Copy, PartialEq)]
struct Aligned(u8);

#[test]
fn miri_parcels_carry_closures_of_any_size() {
    let (remote, inbox) = (remote::<Host>(), Inbox::default());
    sized(&remote, &inbox, ());
    sized(&remote, &inbox, 7_u8);
    // With the two shares just inline, and just not.
    sized(&remote, &inbox, [1_u8; PARCEL_BYTES - 16]);
    sized(&remote, &inbox, [1_u8; PARCEL_BYTES - 15]);
    sized(&remote, &inbox, 1_u128);
    sized(&remote, &inbox, [7_u64; 100]);
    sized(&remote, &inbox, Aligned(3));
    assert!(post(&*remote, || ()).is_ok());
    assert_eq!(serve(&remote, &inbox), 1);
}

#[test]
fn miri_a_refused_closure_comes_back_whole() {
    let (remote, inbox) = (remote::<Host>(), Inbox::default());
    // SAFETY: the remote half is this thread's.
    unsafe { remote.close().deliver(&inbox) };
    let (owned, room) = (Arc::new(5), [1_u64; 20]);
    let (small, large) = (Arc::clone(&owned), Arc::clone(&owned));
    for _ in 0..3 {
        assert!(post(&*remote, || ()).is_err());
    }
    assert!(post(&*remote, move || drop(small)).is_err());
    match post(&*remote, move || assert_eq!((*large, room), (5, [1; 20]))) {
        Ok(()) => panic!("the worker is gone"),
        Err(f) => f(),
    }
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[test]
fn miri_d10_a_pool_may_end_while_its_parcels_are_out() {
    for posts in [0, 1, 2, 63, 64, 200] {
        let (remote, memory, log) = (remote::<Host>(), Arc::new(()), Log::default());
        let pool = Pool::probed(Arc::clone(&memory));
        for entry in 0..posts {
            let log = log.clone();
            assert!(post_from(&pool, &remote, move || log.push(entry)).is_ok());
        }
        drop(pool);
        assert_eq!(Arc::strong_count(&memory) > 1, posts > 0, "freed early");
        let inbox = Inbox::default();
        assert_eq!(serve(&remote, &inbox), posts);
        assert_eq!(inbox.returns.holds(), posts > 0);
        // A worker that ends returns what it holds.
        drop(inbox);
        assert_eq!(Arc::strong_count(&memory), 1, "{posts} posts leaked");
        assert_eq!(log.entries(), (0..posts).collect::<Vec<_>>());
    }
}

#[test]
fn miri_parcels_are_used_again() {
    let (remote, inbox, memory) = (remote::<Host>(), Inbox::default(), Arc::new(()));
    let pool = Pool::probed(Arc::clone(&memory));
    let rounds = if cfg!(miri) { 30 } else { 3_000 };
    for round in 0..rounds {
        for _ in 0..10 {
            assert!(post_from(&pool, &remote, || ()).is_ok());
        }
        assert_eq!(serve(&remote, &inbox), 10);
        if round % 3 == 0 {
            inbox.returns.flush();
            assert!(!inbox.returns.holds());
        }
    }
    // Ten in the mailbox and at most a batch at the worker: two slabs, whatever the number.
    assert!(pool.parcels() <= 124, "{} parcels", pool.parcels());
    drop(pool);
    inbox.returns.flush();
    assert_eq!(Arc::strong_count(&memory), 1);
}

#[test]
fn miri_small_and_large_parcels_of_one_pool_keep_their_order() {
    fn room_of<F: FnOnce()>(_: &F) -> Option<Room> {
        Room::of::<F>()
    }
    let (remote, inbox, memory) = (remote::<Host>(), Inbox::default(), Arc::new(()));
    let (pool, log) = (Pool::probed(Arc::clone(&memory)), Log::default());
    let rounds = if cfg!(miri) { 20 } else { 500 };
    for round in 0..rounds {
        let (small, large, wide) = (log.clone(), log.clone(), [0_u64; 4]);
        let small = move || small.push(2 * round);
        let large = move || large.push(2 * round + 1 + wide[3]);
        let rooms = (room_of(&small), room_of(&large));
        assert_eq!(rooms, (Some(Room::Small), Some(Room::Large)));
        assert!(post_from(&pool, &remote, small).is_ok());
        assert!(post_from(&pool, &remote, large).is_ok());
        if round % 7 == 0 {
            serve(&remote, &inbox);
            inbox.returns.flush();
        }
    }
    serve(&remote, &inbox);
    assert_eq!(log.entries(), (0..2 * rounds).collect::<Vec<_>>());
    assert!(
        pool.parcels() <= 2 * (62 + 31),
        "{} parcels",
        pool.parcels()
    );
    drop((pool, inbox));
    assert_eq!(Arc::strong_count(&memory), 1);
}

#[test]
fn miri_a_worker_collects_of_more_slabs_than_it_has_room_for() {
    let (remote, inbox, memory) = (remote::<Host>(), Inbox::default(), Arc::new(()));
    let pools: Vec<_> = (0..100)
        .map(|_| Pool::probed(Arc::clone(&memory)))
        .collect();
    for _ in 0..2 {
        for pool in &pools {
            assert!(post_from(pool, &remote, || ()).is_ok());
        }
        assert_eq!(serve(&remote, &inbox), 100);
    }
    drop(pools);
    inbox.returns.flush();
    assert_eq!(Arc::strong_count(&memory), 1);
}

#[test]
fn miri_b4_a_closure_may_post_again_in_its_own_parcel() {
    fn again(remote: &RemoteRef<Host>, left: u32) {
        let theirs = remote.clone();
        let posted = post(&**remote, move || {
            if left > 0 {
                again(&theirs, left - 1);
            }
        });
        assert!(posted.is_ok());
    }
    let (remote, inbox) = (remote::<Host>(), Inbox::default());
    again(&remote, 5);
    let mut ran = 0;
    while !remote.mailbox_is_empty() {
        ran += serve(&remote, &inbox);
        inbox.returns.flush();
    }
    assert_eq!(ran, 6);
}

#[test]
fn miri_a_panic_is_counted_and_the_worker_goes_on() {
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            resume_unwind(Box::new("in a drop"));
        }
    }
    let local = Local::new(remote::<Host>());
    let (remote, room) = (local.remote(), [0_u64; 20]);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    local.enter(|| {
        assert!(post(&**remote, || resume_unwind(Box::new("on purpose"))).is_ok());
        assert!(
            post(&**remote, move || resume_unwind(Box::new(room.len()))).is_ok(),
            "a boxed one"
        );
        let payload = || resume_unwind(Box::new(PanicsWhenDropped));
        assert!(post(&**remote, payload).is_ok());
        let after = move || {
            count.fetch_add(1, Relaxed);
        };
        assert!(post(&**remote, after).is_ok());
        assert_eq!(serve(remote, &local), 4);
    });
    assert_eq!(remote.counts().posts_panicked.get(), 3);
    assert_eq!(ran.load(Relaxed), 1);
}

#[test]
fn miri_threads_that_end_leave_their_parcels_to_the_worker() {
    let (threads, posts) = if cfg!(miri) { (2, 5) } else { (8, 2_000) };
    let (log, done) = (Log::default(), Arc::new(AtomicUsize::new(0)));
    let remote = remote::<Host>();
    let posters: Vec<_> = (0..threads)
        .map(|thread| {
            let (remote, log, done) = (remote.clone(), log.clone(), Arc::clone(&done));
            std::thread::spawn(move || {
                for entry in 0..posts {
                    let log = log.clone();
                    let entry = thread * 10_000 + entry;
                    assert!(post(&*remote, move || log.push(entry)).is_ok());
                }
                let last = move || {
                    done.fetch_add(1, Relaxed);
                };
                assert!(post(&*remote, last).is_ok());
            })
        })
        .collect();
    let local = Local::new(remote);
    let idler = Idler::new(&local, false);
    local.enter(|| idler.until(|| done.load(Relaxed) as u64 == threads));
    idler.assert_rings_are_paid_for();
    for poster in posters {
        poster.join().unwrap();
    }
    for thread in 0..threads {
        let mine = log.entries().into_iter().filter(|e| e / 10_000 == thread);
        let expected = (0..posts).map(|entry| thread * 10_000 + entry);
        assert!(mine.eq(expected), "lost, doubled or out of order");
    }
}

#[test]
fn an_idle_worker_returns_what_it_holds() {
    // One that parks at once, one that spins for a while, one that never stops spinning.
    for spin_ns in [0, 50_000, u64::MAX / 2] {
        let switches = Arc::new(SwitchWord::new(Switches::default()));
        let worker = Arc::new(WorkerShared::<Host>::new(
            WorkerConfig {
                idle: IdlePolicy::Spin { spin_ns },
            },
            &switches,
        ));
        let theirs = Arc::clone(&worker);
        let thread = std::thread::spawn(move || Worker::new(theirs).run());
        let memory = Arc::new(());
        let pool = Pool::probed(Arc::clone(&memory));
        for _ in 0..5 {
            assert!(post_from(&pool, worker.remote(), || ()).is_ok());
        }
        drop(pool);
        let start = std::time::Instant::now();
        while Arc::strong_count(&memory) > 1 {
            let waited = start.elapsed().as_secs();
            assert!(waited < 30, "held for ever, spinning {spin_ns} ns");
            std::thread::yield_now();
        }
        worker.close();
        thread.join().unwrap();
    }
}
