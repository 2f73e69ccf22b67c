//! Tests of the simulated OS's scheduler.

use super::{Diary, costs, exact, run, spawn};
use crate::sim::{self, Policy, Sim, sleep, work};
use crate::{Machine, ThreadError, ThreadHandle};

const MS: u64 = 1_000_000;

/// Two threads on CPU 1, each with a policy and a time to work. The second is ready a millisecond later.
fn two(first: (Policy, u64), second: (Policy, u64)) -> Diary {
    let diary = Diary::default();
    let theirs = diary.clone();
    run(exact(2), move || {
        let (a, b) = (theirs.clone(), theirs);
        let threads = [
            spawn(1, move || {
                // Wait until the second has its policy too.
                sleep(MS / 4);
                sim::set_policy(first.0);
                a.note("first begins");
                work(first.1);
                a.note("first ends");
            }),
            spawn(1, move || {
                sim::set_policy(second.0);
                sleep(MS);
                b.note("second begins");
                work(second.1);
                b.note("second ends");
            }),
        ];
        for thread in threads {
            thread.join().unwrap();
        }
    });
    diary
}

fn nice(nice: i8) -> Policy {
    Policy::Other {
        nice,
        slice_ns: None,
    }
}

#[test]
fn a_higher_class_takes_the_cpu_at_once() {
    let fifo = |priority| Policy::Fifo { priority };
    for (low, high) in [
        (nice(0), fifo(1)),
        (fifo(1), fifo(2)),
        (Policy::Idle, nice(0)),
        (Policy::Idle, fifo(1)),
    ] {
        let diary = two((low, 20 * MS), (high, MS));
        let order = diary.order();
        let wanted = ["first begins", "second begins", "second ends", "first ends"];
        assert_eq!(order, wanted, "{low:?} {high:?}");
        let waited = diary.when("second ends") - diary.when("second begins");
        assert_eq!(waited, MS, "{low:?} {high:?}");
        // The interrupted work goes on where it was.
        let took = diary.when("first ends") - diary.when("first begins");
        let switches = 3 * costs().context_switch_ns + 3 * costs().syscall_ns;
        assert!((21 * MS..=21 * MS + 2 * switches).contains(&took), "{took}");
    }
}

/// A thread gets its CPU many times for less than a switch takes.
#[test]
fn a_switch_that_is_interrupted_is_not_made_up_for() {
    let diary = Diary::default();
    let theirs = diary.clone();
    run(exact(2), move || {
        let low = spawn(1, move || {
            sim::set_policy(Policy::Idle);
            work(MS);
            theirs.note("low ends");
        });
        let high = spawn(1, || {
            for _ in 0..1_000 {
                sleep(costs().context_switch_ns / 2);
                work(MS / 100);
            }
        });
        low.join().unwrap();
        high.join().unwrap();
    });
    // The other one works for 10 ms.
    let ended = diary.when("low ends");
    assert!(ended < 15 * MS, "{ended}");
}

#[test]
fn fifo_waits_for_its_like_and_others_for_it() {
    let fifo = Policy::Fifo { priority: 1 };
    for (first, second) in [(fifo, fifo), (fifo, nice(-20)), (fifo, Policy::Idle)] {
        let order = two((first, 20 * MS), (second, MS)).order();
        let wanted = ["first begins", "first ends", "second begins", "second ends"];
        assert_eq!(order, wanted, "{first:?} {second:?}");
    }
}

#[test]
fn those_who_share_a_cpu_get_their_shares() {
    // With equal weights the second takes about twice as long as it works.
    let took = |second: Policy| {
        let diary = two((nice(0), 200 * MS), (second, 20 * MS));
        diary.when("second ends") - diary.when("second begins")
    };
    let alike = took(nice(0));
    assert!((34 * MS..48 * MS).contains(&alike), "{alike}");
    // A step of nice changes the weight by a quarter, so five steps leave a third.
    let less = took(nice(5));
    assert!((60 * MS..110 * MS).contains(&less), "{less}");
    let more = took(nice(-5));
    assert!((20 * MS..32 * MS).contains(&more), "{more}");
}

#[test]
fn a_short_slice_gets_the_cpu_soon() {
    let begins = |slice_ns| {
        let policy = Policy::Other { nice: 0, slice_ns };
        let diary = two((nice(0), 50 * MS), (policy, 50_000));
        diary.when("second begins") - diary.when("first begins")
    };
    let short = begins(Some(100_000));
    assert!(short < MS + 200_000, "{short}");
    assert!(begins(Some(10 * MS)) > short + MS);
}

/// The time while it sleeps, or while another thread has the CPU, does not count.
#[test]
fn it_is_known_for_how_long_a_thread_has_had_its_cpu() {
    let ran_ns = || <Sim as Machine>::cpu_time_ns(<Sim as Machine>::thread_number()).unwrap();
    run(exact(2), move || {
        let low = spawn(1, move || {
            let before_ns = ran_ns();
            work(10 * MS);
            sleep(MS);
            let took_ns = ran_ns() - before_ns;
            assert!((10 * MS..10 * MS + MS / 10).contains(&took_ns), "{took_ns}");
        });
        let high = spawn(1, || {
            sim::set_policy(Policy::Fifo { priority: 1 });
            sleep(MS);
            work(5 * MS);
        });
        for thread in [low, high] {
            thread.join().unwrap();
        }
        assert_eq!(<Sim as Machine>::cpu_time_ns(0), None);
    });
}

#[test]
fn threads_go_where_they_are_bound() {
    run(exact(4), || {
        assert_eq!(sim::cpu(), Some(0));
        Sim::<0>::bind_thread(&[0, 1]).unwrap();
        assert_eq!(sim::cpu(), Some(0), "it is on one of them");
        Sim::<0>::bind_thread(&[2, 3]).unwrap();
        assert_eq!(sim::cpu(), Some(2));
        for wrong in [&[4][..], &[]] {
            let error = Sim::<0>::bind_thread(wrong).unwrap_err();
            assert!(matches!(error, ThreadError::Bind { .. }));
        }
        let spec = crate::ThreadSpec {
            name: "free".into(),
            cpu: None,
            stack_size: None,
        };
        let free = Sim::<0>::spawn(spec, Box::new(|| assert_eq!(sim::cpu(), Some(0))));
        free.unwrap().join().unwrap();
        assert!(sim::is_idle(1) && !sim::is_idle(2));
    });
}

#[test]
fn slots_belong_to_threads() {
    run(exact(2), || {
        let (a, b) = (1_u8, 2_u8);
        // SAFETY: only this test reads the slots.
        unsafe { Sim::<0>::set_worker_slot((&raw const a).cast()) };
        let other = spawn(1, move || {
            assert!(Sim::<0>::worker_slot().is_null());
            // SAFETY: as above.
            unsafe { Sim::<0>::set_worker_slot((&raw const b).cast()) };
            work(50_000);
            assert_eq!(Sim::<0>::worker_slot(), (&raw const b).cast());
        });
        assert!(!other.is_current() && !other.is_finished());
        other.join().unwrap();
        assert_eq!(Sim::<0>::worker_slot(), (&raw const a).cast());
    });
    assert!(Sim::<0>::worker_slot().is_null());
}

#[test]
fn a_pool_is_ended_with_its_thread() {
    /// # Safety
    /// `ptr` came from a box of an atomic.
    unsafe fn end(ptr: *const ()) {
        // SAFETY: the caller's promise.
        let counter = unsafe { Box::from_raw(ptr.cast_mut().cast::<std::sync::Arc<()>>()) };
        assert!(Sim::<0>::pool_slot().is_null());
        // SAFETY: it is refused, so `end` is not called with it.
        assert!(!unsafe { Sim::<0>::set_pool_slot(ptr, end) });
        drop(counter);
    }
    let probe = std::sync::Arc::new(());
    let theirs = std::sync::Arc::clone(&probe);
    run(exact(2), move || {
        let other = spawn(1, move || {
            let kept = Box::into_raw(Box::new(theirs)).cast_const().cast();
            // SAFETY: `end` takes what is stored.
            assert!(unsafe { Sim::<0>::set_pool_slot(kept, end) });
            work(10);
            assert_eq!(Sim::<0>::pool_slot(), kept);
        });
        other.join().unwrap();
    });
    assert_eq!(std::sync::Arc::strong_count(&probe), 1);
}

/// What oracles ask about a thread: whether it has its CPU, could run, or sleeps.
#[test]
fn others_see_who_has_a_cpu_who_could_and_who_sleeps() {
    let diary = Diary::default();
    let theirs = diary.clone();
    run(exact(2), move || {
        let low = spawn(1, || {
            sim::set_policy(Policy::Idle);
            work(10 * MS);
        });
        let high = spawn(1, || {
            sleep(2 * MS);
            work(2 * MS);
            sleep(2 * MS);
        });
        let (one, other) = (low.number(), high.number());
        let look = |what| {
            let has = [one, other].map(|it| sim::runs_on(1) == Some(it));
            let ready = [one, other].map(sim::is_ready);
            let asleep = [one, other].map(sim::is_asleep);
            let yes = [true, false];
            let no = [false; 2];
            let is = |of| match of {
                0 => (has, ready, asleep) == (yes, no, [false, true]),
                _ => (has, ready, asleep) == ([false, true], yes, no),
            };
            theirs.note(if is(what) { "as it is" } else { "otherwise" });
        };
        sleep(MS);
        look(0);
        sleep(2 * MS);
        look(1);
        sleep(2 * MS);
        look(0);
        low.join().unwrap();
        high.join().unwrap();
        assert!(sim::runs_on(1).is_none() && sim::runs_on(99).is_none());
        assert!(!sim::is_ready(99) && !sim::is_asleep(99));
    });
    assert_eq!(diary.order(), ["as it is"; 3]);
}
