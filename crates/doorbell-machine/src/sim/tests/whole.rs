//! Tests of code of a user's that is whole, of the slots of two machines, and of the watch over a run.

use super::{exact, run, spawn};
use crate::sim::{self, Config, RunError, Sim, run_apart, work};
use crate::{Host, Machine, Ordering, ThreadHandle, Word};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn whole(cpus: usize) -> Config {
    Config {
        whole_polls: true,
        ..exact(cpus)
    }
}

/// Two threads that each add `times` to a word, by a load and a store.
fn lost_updates(config: Config, times: u32) -> u32 {
    let lost = Arc::new(Mutex::new(0));
    let ours = Arc::clone(&lost);
    run(config, move || {
        let word = Arc::new(<Sim as Machine>::U32::new(0));
        let add = |cpu| {
            let word = Arc::clone(&word);
            spawn(cpu, move || {
                for _ in 0..times {
                    Sim::<0>::user(|| {
                        let seen = word.load(Ordering::Relaxed);
                        Sim::<0>::relax(1);
                        word.store(seen + 1, Ordering::Relaxed);
                    });
                }
            })
        };
        for thread in [add(0), add(1)] {
            thread.join().unwrap();
        }
        *ours.lock().unwrap() = 2 * times - word.load(Ordering::Relaxed);
    });
    *lost.lock().unwrap()
}

#[test]
fn no_thread_runs_inside_code_that_is_whole() {
    assert!(lost_updates(exact(2), 2_000) > 0, "the threads do meet");
    assert_eq!(lost_updates(whole(2), 2_000), 0);
}

#[test]
fn work_inside_of_it_lets_others_run() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let (ours, theirs) = (Arc::clone(&order), Arc::clone(&order));
    run(whole(2), move || {
        let thread = spawn(1, move || theirs.lock().unwrap().push("other"));
        Sim::<0>::user(|| {
            ours.lock().unwrap().push("before");
            work(1_000_000);
            ours.lock().unwrap().push("after");
        });
        thread.join().unwrap();
    });
    assert_eq!(*order.lock().unwrap(), ["before", "other", "after"]);
}

#[test]
fn a_drop_inside_of_it_makes_steps_while_the_thread_unwinds() {
    struct Tells(Arc<<Sim as Machine>::U32>);
    impl Drop for Tells {
        fn drop(&mut self) {
            let before = sim::events_of(sim::thread().unwrap());
            self.0.store(1, Ordering::Relaxed);
            assert!(sim::events_of(sim::thread().unwrap()) > before);
        }
    }
    run(whole(1), || {
        let word = Arc::new(<Sim as Machine>::U32::new(0));
        let tells = Tells(Arc::clone(&word));
        let panics = std::panic::AssertUnwindSafe(|| {
            let _tells = tells;
            panic!("on purpose");
        });
        Sim::<0>::user(|| std::panic::catch_unwind(panics).unwrap_err());
        assert_eq!(word.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_run_without_an_end_ends_inside_of_it_too() {
    let config = Config {
        events_max: 10_000,
        ..whole(1)
    };
    let endless = || {
        Sim::<0>::user(|| {
            loop {
                let _ = Sim::<0>::now_ns();
            }
        });
    };
    let outcome = sim::run(config, endless).unwrap();
    assert!(matches!(outcome.failure, Some(sim::Failure::Events(_))));
}

#[test]
fn a_worker_of_one_machine_is_not_found_by_another() {
    run(exact(1), || {
        let worker = 1_u8;
        // SAFETY: only this test reads the slot.
        unsafe { Sim::<0>::set_worker_slot((&raw const worker).cast()) };
        assert!(Host::worker_slot().is_null());
        assert!(!Sim::<1>::worker_slot().is_null() && crate::slots::is_worker());
        // SAFETY: as above.
        unsafe { Sim::<0>::set_worker_slot(std::ptr::null()) };
        assert!(!crate::slots::is_worker());
    });
}

#[test]
fn a_run_on_a_thread_of_its_own_is_the_same_run() {
    let body = || {
        let _ = Sim::<0>::now_ns();
        work(100);
    };
    let here = sim::run(exact(1), body).unwrap();
    let patience = Duration::from_secs(60);
    let apart = run_apart(exact(1), patience, None, body).unwrap();
    assert_eq!((apart.hash, apart.events), (here.hash, here.events));
}

#[test]
fn a_program_that_waits_in_the_os_is_told_of() {
    let (keep, wait) = std::sync::mpsc::channel::<()>();
    let patience = Duration::from_millis(100);
    let silent = run_apart(exact(1), patience, None, move || {
        let _ = wait.recv();
    });
    assert!(matches!(silent, Err(RunError::Silent(_))));
    drop(keep);
}

#[test]
fn a_program_that_computes_in_one_poll_is_not_taken_for_silent() {
    let patience = Duration::from_millis(100);
    let endless = Config {
        events_max: u64::MAX,
        time_max_ns: u64::MAX,
        ..exact(1)
    };
    let apart = run_apart(endless, patience, None, || {
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            let _ = Sim::<0>::now_ns();
        }
    });
    assert_eq!(apart.unwrap().failure, None);
}

#[test]
fn a_wait_in_a_drop_while_a_panic_unwinds_is_a_failure_of_its_own() {
    struct Joins(Option<sim::SimThread>);
    impl Drop for Joins {
        fn drop(&mut self) {
            self.0.take().unwrap().join().unwrap();
        }
    }
    let patience = Duration::from_secs(1);
    let apart = run_apart(whole(2), patience, None, || {
        let joins = Joins(Some(spawn(1, || work(1_000_000))));
        let panics = std::panic::AssertUnwindSafe(|| {
            let _joins = joins;
            panic!("on purpose");
        });
        Sim::<0>::user(|| std::panic::catch_unwind(panics).unwrap_err());
    });
    let failure = apart.unwrap().failure;
    assert!(matches!(failure, Some(sim::Failure::WaitsInPanic { .. })));
}

#[test]
fn a_loop_in_a_drop_while_a_panic_unwinds_ends_with_the_run() {
    struct Loops;
    impl Drop for Loops {
        fn drop(&mut self) {
            loop {
                let _ = Sim::<0>::now_ns();
            }
        }
    }
    let config = Config {
        events_max: 10_000,
        ..whole(1)
    };
    let patience = Duration::from_secs(1);
    let apart = run_apart(config, patience, None, || {
        let panics = || {
            let _loops = Loops;
            panic!("on purpose");
        };
        Sim::<0>::user(|| std::panic::catch_unwind(panics).unwrap_err());
    });
    let failure = apart.unwrap().failure;
    assert!(matches!(failure, Some(sim::Failure::Events(_))));
}

#[test]
fn what_a_step_calls_is_outside_of_the_world() {
    let sink = |_: &sim::Event| assert!(!sim::is_inside(), "a step inside of a step");
    let outcome = sim::run_traced(exact(1), Some(Box::new(sink)), || {
        let _ = Sim::<0>::now_ns();
        assert!(sim::is_inside());
    });
    assert_eq!(outcome.unwrap().failure, None);
}

#[test]
fn what_a_world_made_is_refused_to_other_threads() {
    let (ours, theirs) = std::sync::mpsc::channel();
    run(exact(1), move || {
        let word = Arc::new(<Sim as Machine>::U32::new(1));
        let other = Arc::clone(&word);
        let touched = std::thread::spawn(move || other.fetch_add(1, Ordering::Relaxed)).join();
        assert!(touched.is_err());
        assert_eq!(word.load(Ordering::Relaxed), 1);
        ours.send(word).unwrap();
    });
    // Here its world ran.
    let word = theirs.recv().unwrap();
    assert_eq!(word.load(Ordering::Relaxed), 1);
    let patience = Duration::from_secs(60);
    let apart = run_apart(exact(1), patience, None, move || {
        let _ = word.load(Ordering::Relaxed);
    });
    let failure = apart.unwrap().failure;
    assert!(matches!(failure, Some(sim::Failure::Elsewhere { .. })));
}

#[test]
fn a_failure_that_does_not_come_again_is_told_from_one_that_does() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let is_first = AtomicBool::new(true);
    let once = Arc::new(move |_| assert!(!is_first.swap(false, Relaxed), "only once"));
    let twice = sim::run_twice(&exact(1), Duration::from_secs(60), &once).unwrap();
    assert!(twice.outcome.failure.is_some() && twice.parting.is_some());
    let always = Arc::new(|_| panic!("each time"));
    let twice = sim::run_twice(&exact(1), Duration::from_secs(60), &always).unwrap();
    assert!(twice.outcome.failure.is_some() && twice.parting.is_none());
    let [panic] = &twice.outcome.panics[..] else {
        panic!("{twice:?}");
    };
    assert!(panic.contains("whole.rs:") && panic.ends_with(": each time"));
}

#[test]
fn a_difference_tells_the_first_event_of_each_run_and_what_ran_there() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    let runs = AtomicU32::new(0);
    let differs = Arc::new(move |witness: Option<sim::Witness>| {
        let run = runs.fetch_add(1, Relaxed);
        for (number, name) in ["packs", "ships"].into_iter().enumerate() {
            if let Some(witness) = &witness {
                witness.begin(name.to_owned());
            }
            work(if number == 1 {
                1_000 + u64::from(run)
            } else {
                500
            });
            witness.iter().for_each(sim::Witness::end);
        }
    });
    let twice = sim::run_twice(&exact(1), Duration::from_secs(60), &differs).unwrap();
    let parting = twice.parting.unwrap();
    // The two that are compared are the third and the fourth.
    for ns in ["1002", "1003"] {
        let work = format!("`work {ns}` of main on CPU 0");
        assert!(parting.contains(&work), "{parting}");
    }
    assert_eq!(parting.matches(", which ships").count(), 2, "{parting}");
}
