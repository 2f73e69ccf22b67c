//! Policies that the OS refuses, the reports of refusals, and the policies of threads that the library
//! starts.
//!
//! Capabilities belong to threads, and a thread inherits those of its parent. So a test's thread gives one
//! up, and whatever it builds lacks it.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{Builder, Class, ClassKind, Runtime, metrics::Policy};
use doorbell_machine::{Host, Machine};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

/// Whether threads that this one starts may have real-time priority.
fn may_go_first() -> bool {
    let first = Policy::Fifo { priority: 1 };
    let tried = std::thread::spawn(move || Host::set_policy(first).is_ok());
    tried.join().unwrap()
}

/// Runs a test on an unprivileged thread. If the limits allow every process real-time priority, it prints
/// that.
fn unprivileged(test: impl FnOnce() + Send + 'static) {
    let apart = move || {
        let mut sets = capabilities(None).unwrap();
        for set in [
            &mut sets.effective,
            &mut sets.permitted,
            &mut sets.inheritable,
        ] {
            set.remove(CapabilitySet::SYS_NICE);
        }
        set_capabilities(None, sets).unwrap();
        if may_go_first() {
            eprintln!("not tested here: RLIMIT_RTPRIO is above 0");
        } else {
            test();
        }
    };
    std::thread::spawn(apart).join().unwrap();
}

type Said = Arc<Mutex<Vec<(ClassKind, String)>>>;

/// A runtime that records the refusals reported to it.
fn noted(cores: usize) -> (Runtime, Said) {
    let said = Said::default();
    let notes = Arc::clone(&said);
    let runtime = Builder::new()
        .cores(cores)
        .on_policy_refused(move |worker| {
            let note = (worker.class(), worker.to_string());
            notes.lock().unwrap().push(note);
        });
    (runtime.build().unwrap(), said)
}

/// Uses every worker of every class.
fn use_all(runtime: &Runtime) {
    for class in [Class::rt(50), Class::BATCH, Class::FAIR] {
        for core in 0..runtime.cores() {
            let task = runtime.task().class(class).on(core);
            runtime.block_on(task.spawn(async {})).unwrap();
        }
    }
}

/// The workers report from their own threads, which may not have run yet when the class is open.
#[test]
fn the_policies_of_a_class_that_was_opened_just_now_are_all_there() {
    for round in 0..100 {
        let runtime = Builder::new().cores(2).build().unwrap();
        let of = |kind| {
            let policies = runtime.policies().into_iter();
            policies.filter(|worker| worker.class() == kind).count()
        };
        assert_eq!(of(ClassKind::Fair), 2, "round {round}");
        for (class, kind) in [
            (Class::rt(1), ClassKind::Rt),
            (Class::BATCH, ClassKind::Batch),
        ] {
            runtime.open_class(class).unwrap();
            assert_eq!(of(kind), 2, "round {round}");
        }
        assert!(
            runtime
                .policies()
                .iter()
                .all(|worker| worker.got().is_some())
        );
        assert_eq!(runtime.policies().len(), 6, "round {round}");
    }
}

#[test]
fn a_refusal_is_heard_of_once_with_the_remedy() {
    unprivileged(|| {
        // Each runtime reports for itself.
        for _ in 0..2 {
            let (runtime, said) = noted(2);
            use_all(&runtime);
            use_all(&runtime);
            drop(runtime);
            let said = said.lock().unwrap();
            assert_eq!(said.len(), 1, "{said:?}");
            let (class, says) = &said[0];
            assert_eq!(*class, ClassKind::Rt);
            for part in ["Rt worker of core", "SCHED_FIFO 10", "CAP_SYS_NICE"] {
                assert!(says.contains(part), "{says}");
            }
        }
    });
}

#[test]
fn what_was_obtained_is_not_told() {
    let (runtime, said) = noted(1);
    // This class needs no privilege, and neither does that of `main`.
    let batch = runtime.task().class(Class::BATCH);
    runtime.block_on(batch.spawn(async {})).unwrap();
    let told = |said: &Said, kind| {
        let said = said.lock().unwrap();
        said.iter().filter(|(class, _)| *class == kind).count()
    };
    assert_eq!(told(&said, ClassKind::Batch), 0);
    assert_eq!(told(&said, ClassKind::Fair), 0);
    // The urgent workers have started before those.
    let refused = usize::from(!may_go_first());
    assert_eq!(told(&said, ClassKind::Rt), refused);
}

#[test]
fn a_hook_that_panics_does_no_harm_and_is_counted() {
    unprivileged(|| {
        let builder = Builder::new().cores(2);
        let runtime = builder.on_policy_refused(|worker| panic!("{worker}"));
        let runtime = runtime.build().unwrap();
        assert_eq!(runtime.metrics().hook_panics(), 0);
        use_all(&runtime);
        assert_eq!(runtime.metrics().hook_panics(), 1);
    });
}

#[test]
fn a_hook_may_use_the_runtime() {
    unprivileged(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&ran);
        let builder = Builder::new().cores(2).on_policy_refused(move |worker| {
            assert_eq!(doorbell::current_core(), Some(worker.core()));
            assert!(doorbell::Handle::current().policies().contains(worker));
            let counts = Arc::clone(&counts);
            let task = doorbell::task().class(Class::rt(1));
            drop(task.spawn(async move { counts.fetch_add(1, SeqCst) }));
        });
        let runtime = builder.build().unwrap();
        use_all(&runtime);
        while ran.load(SeqCst) == 0 && runtime.metrics().hook_panics() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(runtime.metrics().hook_panics(), 0);
    });
}

#[test]
fn closures_that_block_are_above_the_batch_task_that_has_them_run() {
    unprivileged(|| {
        let runtime = Builder::new().cores(1).build().unwrap();
        let seen = runtime.task().class(Class::BATCH).spawn(async {
            let here = Host::policy().unwrap();
            // Two at the same time, so each needs a thread of its own.
            let (met, meets) = std::sync::mpsc::channel();
            let (tell, told) = std::sync::mpsc::channel();
            let first = doorbell::spawn_blocking(move || {
                tell.send(()).unwrap();
                meets.recv().unwrap();
                Host::policy().unwrap()
            });
            let second = doorbell::spawn_blocking(move || {
                told.recv().unwrap();
                met.send(()).unwrap();
                Host::policy().unwrap()
            });
            [here, first.await.unwrap(), second.await.unwrap()]
        });
        let [here, first, second] = runtime.block_on(seen).unwrap();
        assert_eq!(here, Policy::Idle);
        for there in [first, second] {
            assert!(matches!(there, Policy::Other { .. }), "{there}");
        }
        assert_eq!(runtime.metrics().blocking().started, 2);
    });
}

#[test]
fn a_runtime_with_batch_and_blocking_closures_leaves_no_thread() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let named = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with("gone-blk")).count()
    };
    let runtime = Builder::new().cores(1).name("gone").build().unwrap();
    let batch = runtime.task().class(Class::BATCH).spawn(async {
        doorbell::spawn_blocking(|| {}).await.unwrap();
    });
    runtime.block_on(batch).unwrap();
    assert!(threads() > 3);
    // The thread that starts threads, and one that it has started.
    assert_eq!(named(), 2);
    drop(runtime);
    // The OS lists a thread for a moment after it has been joined.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while named() > 0 && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(named(), 0);
}

#[test]
fn closures_that_block_run_on_all_cpus_also_for_bound_workers() {
    let all: Vec<_> = Host::topology().cpus.iter().map(|cpu| cpu.os_id).collect();
    let cpus = || -> Vec<_> {
        let cpus = Host::topology().cpus;
        cpus.iter().map(|cpu| cpu.os_id).collect()
    };
    for class in [Class::FAIR, Class::BATCH] {
        let runtime = Builder::new().core_list([all[0]]).build().unwrap();
        let seen = runtime.task().class(class).spawn(async move {
            let closure = doorbell::spawn_blocking(cpus).await.unwrap();
            (cpus(), closure)
        });
        let (worker, closure) = runtime.block_on(seen).unwrap();
        assert_eq!((worker, closure), (vec![all[0]], all.clone()), "{class}");
    }
}

#[doorbell::test(cores = 1, on_policy_refused = |worker| assert_eq!(worker.class(), ClassKind::Rt))]
async fn the_attribute_takes_a_hook() {
    let urgent = doorbell::task().class(Class::rt(1)).spawn(async {});
    urgent.await.unwrap();
    assert_eq!(doorbell::Handle::current().metrics().hook_panics(), 0);
}
