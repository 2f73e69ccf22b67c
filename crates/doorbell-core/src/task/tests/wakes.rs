//! Wakes: how often a task is polled for them, through which queue it goes, who is rung.

use super::{Bench, Count, WakerSlot, output, pending, poll_once};
use crate::bell::Announced;
use crate::scheduler::Scheduler;
use crate::task::{Join, Phase};
use crate::testing;
use crate::worker::Local;
use doorbell_machine::{Counter, Host};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

#[test]
fn miri_a_task_runs_and_its_output_is_joined() {
    let bench = Bench::new();
    let mut join = bench.spawn(async { [1_u64, 2, 3] });
    assert_eq!((join.phase(), bench.local.live()), (Phase::Queued, 0));
    assert!(poll_once(&mut join).is_pending());
    assert_eq!(bench.run(), 1);
    assert_eq!((join.phase(), bench.local.live()), (Phase::Complete, 0));
    assert_eq!(output(&mut join).unwrap(), [1, 2, 3]);
    drop(join);
    bench.end();
}

#[test]
fn miri_a_canceller_outlives_the_join_handle_and_keeps_no_future() {
    let bench = Bench::new();
    let drops = Count::default();
    let owned = drops.on_drop();
    let join = bench.spawn(async move {
        std::future::pending::<()>().await;
        drop(owned);
    });
    let canceller = join.canceller();
    let another = canceller.clone();
    assert_eq!((another.id(), bench.run()), (join.id(), 1));
    drop((join, canceller));
    assert_ne!(another.phase(), Phase::Complete);
    another.cancel();
    bench.run();
    assert_eq!((another.phase(), drops.get()), (Phase::Complete, 1));
    // It does nothing to a task that has ended.
    another.cancel();
    drop(another);
    bench.end();
}

#[test]
fn a_task_that_cancels_itself_ends_with_that_poll() {
    let bench = Bench::new();
    let handle: Arc<Mutex<Option<Join<()>>>> = Arc::default();
    let own = Arc::clone(&handle);
    let join = bench.spawn(poll_fn(move |_| {
        if let Some(join) = &*own.lock().unwrap() {
            join.cancel();
        }
        Poll::Pending
    }));
    *handle.lock().unwrap() = Some(join);
    assert_eq!(bench.run(), 1);
    let mut join = handle.lock().unwrap().take().unwrap();
    assert!(output(&mut join).is_err());
    assert_eq!(Arc::strong_count(&handle), 1, "its future was not dropped");
    drop(join);
    bench.end();
}

#[test]
fn miri_a_task_spawned_elsewhere_runs_on_its_worker() {
    let bench = Bench::new();
    let remote = bench.remote.clone();
    let elsewhere = std::thread::spawn(move || {
        let mut join = testing::spawn(&remote, async { std::thread::current().id() });
        drop(remote);
        let _ = poll_once(&mut join);
        join
    });
    let mut join = elsewhere.join().unwrap();
    assert_eq!((join.phase(), bench.serve()), (Phase::Queued, 1));
    assert_eq!(bench.run(), 1);
    assert_eq!(output(&mut join).unwrap(), std::thread::current().id());
    drop(join);
    bench.end();
}

#[test]
fn s7_a_task_that_wakes_itself_rings_nobody() {
    let bench = Bench::new();
    let polls = Count::default();
    let count = polls.clone();
    let join = bench.spawn(poll_fn(move |cx| {
        if count.add() == 9 {
            return Poll::Ready(());
        }
        // By reference, by value, and both: one more poll each time.
        cx.waker().wake_by_ref();
        let by_value = cx.waker().clone();
        by_value.wake();
        Poll::Pending
    }));
    assert_eq!((bench.run(), polls.get()), (10, 10));
    assert_eq!(join.phase(), Phase::Complete);
    assert!(!bench.remote.bell().signalled() && bench.remote.mailbox_is_empty());
    drop(join);
    bench.end();
}

#[test]
fn many_wakes_are_one_poll() {
    let bench = Bench::new();
    let (slot, polls, drops) = (WakerSlot::default(), Count::default(), Count::default());
    let join = bench.spawn(pending(&slot, &polls, &drops));
    assert_eq!(bench.run(), 1);
    let waker = slot.get();
    // On its own worker: by the ready queue. Elsewhere: by the mailbox. Once either way.
    bench.on_worker(|| (0..5).for_each(|_| waker.wake_by_ref()));
    assert_eq!((bench.local.queued(), bench.serve()), (1, 0));
    assert_eq!((bench.run(), polls.get()), (1, 2));
    (0..5).for_each(|_| waker.wake_by_ref());
    assert_eq!((bench.local.queued(), bench.serve()), (0, 1));
    bench.on_worker(|| waker.wake_by_ref());
    assert_eq!((bench.run(), polls.get()), (1, 3));
    assert_eq!((bench.run(), join.phase()), (0, Phase::Idle));
    drop((join, waker, slot.take()));
    bench.end();
    assert_eq!(drops.get(), 1);
}

#[test]
fn a_task_of_another_worker_is_woken_through_its_mailbox() {
    let (here, there) = (Bench::new(), Bench::new());
    let (slot, polls, drops) = (WakerSlot::default(), Count::default(), Count::default());
    let join = there.spawn(pending(&slot, &polls, &drops));
    assert_eq!(there.run(), 1);
    here.on_worker(|| slot.get().wake());
    assert_eq!((here.run(), here.local.queued()), (0, 0));
    assert_eq!((there.serve(), there.run(), polls.get()), (1, 1, 2));
    drop((join, slot.take()));
    here.end();
    there.end();
}

#[test]
fn b18_a_task_is_woken_where_it_ran_last() {
    let remotes = Scheduler::<Host>::new(2, &Arc::default(), |_, _| 0);
    let workers: Vec<Local<Host>> = remotes.iter().map(|f| Local::new(f.clone())).collect();
    let (slot, polls, drops) = (WakerSlot::default(), Count::default(), Count::default());
    let join = workers[0].enter(|| testing::spawn(&remotes[0], pending(&slot, &polls, &drops)));
    assert!(workers[0].enter(|| workers[0].run_one()));
    // Woken on the other worker, it runs there, since the first one is not free.
    workers[1].enter(|| slot.get().wake());
    assert!(workers[1].enter(|| workers[1].run_one()));
    for remote in &remotes {
        assert_eq!(remote.bell().announce_spin(), Announced::Yes);
    }
    // Both are free now: from outside and from the first worker it goes to the second.
    for from_outside in [true, false] {
        if from_outside {
            slot.get().wake();
        } else {
            workers[0].enter(|| slot.get().wake());
        }
        assert!(!remotes[0].has_injected() && workers[0].is_empty());
        assert_eq!(workers[1].enter(|| workers[1].gather()), 1);
        assert!(workers[1].enter(|| workers[1].run_one()));
    }
    assert_eq!((polls.get(), drops.get()), (4, 0));
    drop((join, slot.take()));
    for worker in &workers {
        worker.enter(|| worker.close());
    }
    assert_eq!(drops.get(), 1);
}

#[test]
fn b18_a_task_is_not_woken_where_it_ran_last_if_something_is_before_it_there() {
    for serves in [true, false] {
        let remotes = Scheduler::<Host>::new(2, &Arc::default(), |_, _| 0);
        let workers: Vec<Local<Host>> = remotes.iter().map(|f| Local::new(f.clone())).collect();
        let (slot, polls, drops) = (WakerSlot::default(), Count::default(), Count::default());
        let join = workers[1].enter(|| testing::spawn(&remotes[1], pending(&slot, &polls, &drops)));
        assert!(workers[1].enter(|| workers[1].run_one()));
        assert_eq!(remotes[1].bell().announce_spin(), Announced::Yes);
        if serves {
            remotes[1].set_serving(true);
        } else {
            drop(testing::spawn(&remotes[1], async {}));
        }
        assert_eq!(remotes[1].has_injected(), !serves);
        workers[0].enter(|| slot.get().wake());
        assert_eq!(workers[0].queued(), 1, "serves: {serves}");
        drop((join, slot.take()));
        for worker in &workers {
            worker.enter(|| worker.close());
        }
        assert_eq!((polls.get(), drops.get()), (1, 1));
    }
}

#[test]
fn w15_workers_entered_inside_each_other_end_in_any_order() {
    let at = || Local::<Host>::with_current(|local| local.map(|l| std::ptr::from_ref(l).addr()));
    let address = |local: &Local<Host>| Some(std::ptr::from_ref(local).addr());
    for first_ends in [true, false] {
        let (outer, inner) = (Bench::new(), Bench::new());
        assert_eq!(at(), None);
        outer.on_worker(|| {
            assert_eq!(at(), address(&outer.local));
            inner.on_worker(|| assert_eq!(at(), address(&inner.local)));
            assert_eq!(at(), address(&outer.local));
            let unwound = std::panic::AssertUnwindSafe(|| {
                inner.on_worker(|| std::panic::resume_unwind(Box::new(())));
            });
            assert!(std::panic::catch_unwind(unwound).is_err());
            assert_eq!(at(), address(&outer.local));
        });
        assert_eq!(at(), None);
        let (a, b) = if first_ends {
            (outer, inner)
        } else {
            (inner, outer)
        };
        a.end();
        assert_eq!(output(&mut ready_on(&b)).unwrap(), 1);
        b.end();
    }
}

fn ready_on(bench: &Bench) -> crate::task::Join<u8> {
    let join = bench.spawn(async { 1 });
    assert_eq!(bench.run(), 1);
    join
}

#[test]
fn d12_a_wake_after_the_close_does_nothing() {
    let bench = Bench::new();
    let (slot, polls, drops) = (WakerSlot::default(), Count::default(), Count::default());
    let mut join = bench.spawn(pending(&slot, &polls, &drops));
    assert_eq!(bench.run(), 1);
    bench.on_worker(|| {
        bench.local.close();
        slot.get().wake();
    });
    slot.get().wake();
    assert!(output(&mut join).unwrap_err().is_cancelled());
    assert_eq!((bench.run(), polls.get(), drops.get()), (0, 1, 1));
    let late = bench.spawn(async {});
    assert_eq!(late.phase(), Phase::Complete);
    let waker = slot.take().unwrap();
    drop((join, late));
    // The waker outlives the worker and is the last to hold the task.
    bench.on_worker(|| bench.local.close());
    let remote = bench.remote.clone();
    drop(bench);
    assert_eq!(remote.shares(), 2);
    waker.wake_by_ref();
    waker.wake();
    assert_eq!(remote.shares(), 1);
}

#[test]
fn d4_a_drop_that_wakes_another_task_while_the_worker_closes() {
    struct WakesAndLocks(WakerSlot, Arc<std::sync::Mutex<u32>>);
    impl Drop for WakesAndLocks {
        fn drop(&mut self) {
            // D15: woken with a lock held that the woken task takes in its own drop.
            let mut held = self.1.lock().unwrap();
            *held += 1;
            if let Some(waker) = self.0.take() {
                waker.wake();
            }
        }
    }
    for _ in 0..2 {
        let bench = Bench::new();
        let lock = Arc::new(std::sync::Mutex::new(0));
        let slots: Vec<_> = (0..4).map(|_| WakerSlot::default()).collect();
        let joins: Vec<_> = (0..4)
            .map(|i: usize| {
                let (mine, next) = (slots[i].clone(), slots[(i + 1) % 4].clone());
                let owned = WakesAndLocks(next, Arc::clone(&lock));
                bench.spawn(poll_fn(move |cx| {
                    let _owned = &owned;
                    mine.put(cx);
                    Poll::<()>::Pending
                }))
            })
            .collect();
        assert_eq!(bench.run(), 4);
        bench.on_worker(|| bench.local.close());
        assert_eq!(*lock.lock().unwrap(), 4);
        for mut join in joins {
            assert!(output(&mut join).unwrap_err().is_cancelled());
        }
        drop(slots);
        bench.end();
    }
}

#[test]
fn a_drop_that_spawns_while_the_worker_closes() {
    struct Spawns(crate::scheduler::RemoteRef<Host>, Count);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let dropped = self.1.on_drop();
            let join = testing::spawn(&self.0, async move { drop(dropped) });
            assert_eq!(join.phase(), Phase::Complete);
        }
    }
    let bench = Bench::new();
    let dropped = Count::default();
    let spawns = Spawns(bench.remote.clone(), dropped.clone());
    let join = bench.spawn(async move {
        let _spawns = spawns;
        std::future::pending::<()>().await;
    });
    assert_eq!(bench.run(), 1);
    drop(join);
    bench.end();
    assert_eq!(dropped.get(), 1);
}

#[test]
fn a_waker_is_cloned_a_hundred_thousand_times() {
    let bench = Bench::new();
    let (slot, polls, drops) = (WakerSlot::default(), Count::default(), Count::default());
    let join = bench.spawn(pending(&slot, &polls, &drops));
    assert_eq!(bench.run(), 1);
    let wakers: Vec<Waker> = (0..100_000).map(|_| slot.get()).collect();
    assert!(wakers.iter().all(|waker| waker.will_wake(&wakers[0])));
    wakers.into_iter().for_each(Waker::wake);
    assert_eq!((bench.run(), polls.get()), (1, 2));
    drop((join, slot.take()));
    bench.end();
    assert_eq!(drops.get(), 1);
}

#[test]
fn a_hundred_thousand_tasks_wake_each_other_without_a_deep_stack() {
    // Each awaits the one before: the end of the first is the wake of the second, and so on.
    // Once run to its end, once cancelled at the close. On a stack of 256 KiB.
    let body = || {
        for runs in [true, false] {
            let bench = Bench::new();
            let slot = WakerSlot::default();
            let (first, gate) = (slot.clone(), Count::default());
            let open = gate.clone();
            let mut last = bench.spawn(poll_fn(move |cx| {
                first.put(cx);
                if open.get() == 0 {
                    Poll::Pending
                } else {
                    Poll::Ready(0_u32)
                }
            }));
            for _ in 0..100_000 {
                last = bench.spawn(async move { last.await.map_or(0, |n| n + 1) });
            }
            assert_eq!(bench.run(), 100_001);
            if runs {
                gate.add();
                slot.get().wake();
                assert_eq!(bench.run(), 100_001);
                assert_eq!(output(&mut last).unwrap(), 100_000);
            }
            drop((last, slot.take()));
            bench.end();
        }
    };
    let small = std::thread::Builder::new().stack_size(256 << 10);
    small.spawn(body).unwrap().join().unwrap();
}

/// A waker that counts its wakes and clones.
#[derive(Default)]
struct Counting(Count);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.add();
    }
}

#[test]
fn a_joiner_is_woken_once_and_by_its_last_waker() {
    let bench = Bench::new();
    let gate = WakerSlot::default();
    let (slot, polls) = (gate.clone(), Count::default());
    let count = polls.clone();
    let mut join = bench.spawn(poll_fn(move |cx| {
        slot.put(cx);
        if count.add() < 2 {
            Poll::Pending
        } else {
            Poll::Ready(3)
        }
    }));
    bench.run();
    let (old, new) = (Arc::new(Counting::default()), Arc::new(Counting::default()));
    let wakers = [&old, &new].map(|it| Waker::from(Arc::clone(it)));
    for waker in [&wakers[0], &wakers[0], &wakers[1], &wakers[1]] {
        let polled = std::pin::Pin::new(&mut join).poll(&mut Context::from_waker(waker));
        assert!(polled.is_pending());
    }
    // The old one was let go, the new one is held once, however often it was polled with.
    assert_eq!((Arc::strong_count(&old), Arc::strong_count(&new)), (2, 3));
    gate.get().wake();
    assert_eq!((bench.run(), old.0.get(), new.0.get()), (1, 0, 0));
    gate.get().wake();
    assert_eq!((bench.run(), old.0.get(), new.0.get()), (1, 0, 1));
    assert_eq!(Arc::strong_count(&new), 2);
    assert_eq!(output(&mut join).unwrap(), 3);
    drop((join, gate.take()));
    bench.end();
}

#[test]
#[should_panic(expected = "polled again after it was ready")]
fn a_handle_polled_after_it_was_ready_panics() {
    let bench = Bench::new();
    let mut join = ready_on(&bench);
    assert_eq!(output(&mut join).unwrap(), 1);
    let _ = poll_once(&mut join);
}

#[test]
fn miri_a_remote_wake_against_a_running_worker() {
    // W25: a wake before, while or after the poll; on real threads.
    for _ in 0..if cfg!(miri) { 3 } else { 1_000 } {
        let bench = Bench::new();
        let (slot, opened) = (WakerSlot::default(), Count::default());
        let (mine, open) = (slot.clone(), opened.clone());
        let mut join = bench.spawn(poll_fn(move |cx| {
            mine.put(cx);
            if open.get() == 1 {
                return Poll::Ready(());
            }
            Poll::Pending
        }));
        bench.run();
        let waker = slot.take().unwrap();
        bench.on_worker(|| waker.wake_by_ref());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                opened.add();
                waker.wake();
            });
            while poll_once(&mut join).is_pending() {
                bench.run();
                std::thread::yield_now();
            }
        });
        drop((join, slot.take()));
        bench.end();
    }
}

#[test]
fn bodies_of_any_size_and_alignment() {
    #[repr(align(128))]
    struct Wide([u8; 300]);
    let bench = Bench::new();
    let wide = Wide([7; 300]);
    let mut large = bench.spawn(async move {
        std::future::ready(()).await;
        (std::ptr::from_ref(&wide).addr() % 128, wide.0[299])
    });
    let mut none = bench.spawn(std::future::ready(()));
    assert_eq!(bench.run(), 2);
    assert_eq!(output(&mut large).unwrap(), (0, 7));
    output(&mut none).unwrap();
    drop((large, none));
    assert_eq!(bench.remote.counts().rings.get(), 0);
    bench.end();
}
