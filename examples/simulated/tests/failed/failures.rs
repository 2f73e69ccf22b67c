//! What a failure says.

use crate::lost;
use doorbell::sim::{self, Config, Problem};
use doorbell::time::{Duration, Instant, sleep};
use std::sync::{Arc, Mutex};

fn few() -> Config {
    Config::new().cores(4).seeds(3..6)
}

async fn loses_updates() {
    sim::check(lost::updates_of_four().await == 4, "an update was lost");
}

#[test]
fn a_lost_update_is_found_and_its_seed_repeats_it() {
    let failed = sim::run(few(), loses_updates).unwrap_err();
    let Problem::Program { what, .. } = &failed.problem else {
        panic!("{failed}");
    };
    assert!(what.contains("an update was lost (") && what.contains("failures.rs:"));
    let again = few()
        .cores(failed.cores)
        .seeds(failed.seed..failed.seed + 1);
    let again = sim::run(again, loses_updates).unwrap_err();
    assert_eq!(again.problem, failed.problem);
}

#[test]
fn an_error_and_a_panic_of_the_program_fail_the_run() {
    let failed = sim::run(few(), || async { Err::<(), _>("no room") }).unwrap_err();
    assert!(
        failed
            .to_string()
            .contains("returned an error: \"no room\"")
    );
    let panics = || async {
        let value = doorbell::spawn(async { 1 }).await.unwrap();
        assert_eq!(value, 2, "one is not two");
    };
    let failed = sim::run(few(), panics).unwrap_err();
    assert!(
        failed
            .to_string()
            .starts_with("seed 3 on 1 core: it panicked: ")
    );
    let text = failed.to_string();
    let panic = text.lines().find(|line| line.starts_with("  a panic at "));
    assert!(panic.is_some_and(|line| line.contains("failures.rs:")));
    assert!(text.contains("one is not two"), "{failed}");
}

#[test]
fn the_panic_of_a_task_is_told_where_others_wait_for_that_task() {
    let waits = || async {
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let opens = Arc::clone(&gate);
        doorbell::spawn(async move {
            let orders: Vec<u64> = Vec::new();
            opens.add_permits(orders[0] as usize);
        });
        drop(gate.acquire().await);
    };
    let failed = sim::run(few(), waits).unwrap_err().to_string();
    assert!(failed.contains("every task waits"), "{failed}");
    assert!(failed.contains("\n  a panic at ") && failed.contains("the len is 0"));
}

#[test]
fn a_wait_for_ever_is_a_failure() {
    let failed = sim::run(few(), std::future::pending::<()>).unwrap_err();
    assert!(failed.to_string().contains("every task waits"), "{failed}");
    let in_a_task = || async { doorbell::spawn(std::future::pending::<()>()).await };
    let failed = sim::run(few(), in_a_task).unwrap_err();
    assert!(failed.to_string().contains("every task waits"), "{failed}");
}

#[test]
fn a_wait_for_ever_names_the_tasks_that_wait() {
    let waits = || async {
        let named = doorbell::task().name("ledger");
        let ledger = named.spawn(std::future::pending::<()>());
        sleep(Duration::from_millis(3)).await;
        let others = (0..22).map(|_| doorbell::spawn(std::future::pending::<()>()));
        let _others: Vec<_> = others.collect();
        doorbell::spawn(async {}).await.unwrap();
        _ = ledger.await;
    };
    let failed = sim::run(few(), waits).unwrap_err();
    let Problem::Program { tasks, .. } = &failed.problem else {
        panic!("{failed}");
    };
    let lines: Vec<&str> = tasks.lines().collect();
    let [_, ledger, other, .., more] = &lines[..] else {
        panic!("{tasks}");
    };
    assert!(
        ledger.starts_with("  a task `ledger`, spawned at ") && ledger.contains("failures.rs:")
    );
    assert!(
        ledger.contains(" 3.") && ledger.contains("ms ago"),
        "{ledger}"
    );
    assert!(other.starts_with("  a task, spawned at "), "{other}");
    // Twenty are shown, and the one that ended is not counted.
    assert_eq!(*more, "  nor have 3 more tasks");
}

#[test]
fn a_wait_for_ever_names_who_holds_which_lock() {
    let two_orders = || async {
        let locks = [0, 1].map(|_| Arc::new(doorbell::sync::Mutex::new(())));
        let task = |name: &'static str, first: usize| {
            let [one, other] = [first, 1 - first].map(|at| Arc::clone(&locks[at]));
            doorbell::task().name(name).spawn(async move {
                let _one = one.lock().await;
                sleep(Duration::from_millis(1)).await;
                let _other = other.lock().await;
            })
        };
        let (ledger, report) = (task("ledger", 0), task("report", 1));
        sleep(Duration::from_micros(500)).await;
        let given_up = doorbell::time::timeout(Duration::from_millis(2), locks[0].lock());
        assert!(given_up.await.is_err());
        let _ = (ledger.await, report.await);
    };
    let failed = sim::run(few(), two_orders).unwrap_err();
    let Problem::Program { tasks, .. } = &failed.problem else {
        panic!("{failed}");
    };
    for (task, other) in [("ledger", "report"), ("report", "ledger")] {
        let lines = tasks.lines();
        let line = lines
            .clone()
            .find(|line| line.contains(&format!("a task `{task}`")));
        let says = format!(
            "holds a `sync::Mutex`; it waits for a `sync::Mutex` that is held by the task `{other}`"
        );
        assert!(line.is_some_and(|line| line.contains(&says)), "{tasks}");
    }
}

/// A task with a name fails in its poll.
async fn fails_in_a_task() {
    let named = doorbell::task().name("ledger");
    let fails = async { sim::check(doorbell::current_core().is_none(), "a task on a worker") };
    named.spawn(fails).await.unwrap();
}

#[test]
fn a_failure_tells_what_each_core_did_last() {
    let failed = sim::run(few(), fails_in_a_task).unwrap_err();
    let Problem::Program { last, .. } = &failed.problem else {
        panic!("{failed}");
    };
    let cpu = last.lines().find(|line| line.starts_with("  CPU 0: "));
    assert!(
        cpu.is_some_and(
            |line| line.contains("polls the task `ledger` of ") && line.contains("failures.rs:")
        ),
        "{last}"
    );
}

#[test]
fn a_trace_has_polls_and_a_mark_where_the_run_failed() {
    let file = std::env::temp_dir().join(format!("simulated-{}.json", std::process::id()));
    let failed = sim::run(few().trace(&file), fails_in_a_task).unwrap_err();
    let names = format!("trace, for https://ui.perfetto.dev: {}", file.display());
    assert!(failed.to_string().contains(&names), "{failed}");
    let trace = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let line = |with: &[&str]| {
        trace
            .lines()
            .any(|line| with.iter().all(|it| line.contains(it)))
    };
    assert!(
        line(&["\"ph\":\"X\"", "polls the task `ledger`"]),
        "no poll"
    );
    assert!(
        line(&["\"ph\":\"i\"", "a task on a worker", "\"s\":\"g\""]),
        "no mark"
    );
    let nowhere = sim::run(few().trace("/nowhere/at/all"), fails_in_a_task).unwrap_err();
    assert!(
        nowhere.to_string().contains("could not be written"),
        "{nowhere}"
    );
}

#[test]
fn a_program_without_an_end_is_a_failure() {
    let ticks = || async {
        while sim::random() < u64::MAX {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let within = few().time_max(Duration::from_secs(1));
    let failed = sim::run(within, ticks).unwrap_err();
    assert!(failed.to_string().contains("of simulated time"), "{failed}");
    let asks = || async { while Instant::now() < Instant::MAX {} };
    let failed = sim::run(few().events_max(100_000), asks).unwrap_err();
    assert!(failed.to_string().contains("no end after"), "{failed}");
}

#[test]
fn a_lock_that_is_held_over_work_is_a_failure() {
    let holds = || async {
        let lock = Arc::new(Mutex::new(()));
        let tasks = [0, 1].map(|core| {
            let lock = Arc::clone(&lock);
            doorbell::task().on(core).spawn(async move {
                let _locked = lock.lock().unwrap();
                sim::work(Duration::from_millis(1));
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
    };
    let soon = few().patience(Duration::from_millis(500));
    let failed = sim::run(soon, holds).unwrap_err();
    assert!(matches!(&failed.problem, Problem::NoRun(text) if text.contains("a lock held over")));
}

#[test]
fn two_runs_that_differ_are_a_failure_and_the_first_step_is_named() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let differs = || async {
        let run = RUNS.fetch_add(1, Relaxed);
        sleep(Duration::from_micros(run)).await;
    };
    let failed = sim::run(few(), differs).unwrap_err();
    let Problem::Differs { first } = &failed.problem else {
        panic!("{failed}");
    };
    assert!(
        first.starts_with("event ") && first.contains(" of "),
        "{first}"
    );
}

#[test]
fn what_cannot_be_simulated_is_no_run() {
    for cores in [0, 1_025, usize::MAX] {
        let failed = sim::run(Config::new().cores(cores), || async {}).unwrap_err();
        assert!(matches!(failed.problem, Problem::NoRun(_)), "{failed}");
    }
    let nested = || async {
        let inner = sim::run(Config::new(), || async {});
        assert!(matches!(inner.unwrap_err().problem, Problem::NoRun(_)));
    };
    sim::run(few(), nested).unwrap();
}

#[test]
fn outside_of_a_simulation_work_takes_no_time_and_a_check_panics() {
    sim::work(Duration::from_secs(1_000));
    assert!(!sim::is_inside());
    sim::check(true, "fine");
    let failed = std::panic::catch_unwind(|| sim::check(false, "wrong"));
    assert!(failed.is_err());
}

#[test]
fn a_lock_that_an_earlier_run_made_is_refused() {
    use std::sync::LazyLock;
    static TOTAL: LazyLock<doorbell::sync::Mutex<u64>> = LazyLock::new(Default::default);
    let adds = || async { *TOTAL.lock().await += 1 };
    let failed = sim::run(few(), adds).unwrap_err();
    assert!(
        failed.to_string().contains("made in another run"),
        "{failed}"
    );
    // On a host it is refused too.
    assert!(std::panic::catch_unwind(|| TOTAL.try_lock().is_ok()).is_err());
}

#[test]
fn a_waker_is_refused_to_a_thread_of_std() {
    use std::task::Poll;
    let refused = Arc::new(Mutex::new(0));
    let ours = Arc::clone(&refused);
    let wakes = move || {
        let ours = Arc::clone(&ours);
        async move {
            let wait = std::future::poll_fn(move |cx| {
                let waker = cx.waker().clone();
                let woken = std::thread::spawn(move || waker.wake()).join();
                *ours.lock().unwrap() += u32::from(woken.is_err());
                Poll::Ready(())
            });
            doorbell::spawn(wait).await.unwrap();
        }
    };
    sim::run(few().seeds(0..1), wakes).unwrap();
    assert_eq!(*refused.lock().unwrap(), 2, "once in each run");
}

#[test]
fn a_failure_of_the_first_run_alone_says_so() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let is_first = AtomicBool::new(true);
    let once = move || {
        let fails = is_first.swap(false, Relaxed);
        async move { sim::check(!fails, "only once") }
    };
    let failed = sim::run(few(), once).unwrap_err().to_string();
    assert!(
        failed.contains("only once") && failed.contains("the second run of this seed differed"),
        "{failed}"
    );
}

#[test]
fn a_range_without_seeds_is_no_run() {
    let failed = sim::run(few().seeds(5..5), || async {}).unwrap_err();
    assert!(
        failed.to_string().contains("there are no seeds"),
        "{failed}"
    );
}

#[test]
fn the_variable_takes_no_seed_that_has_no_range() {
    let of_this = std::env::current_exe().unwrap();
    let ran = std::process::Command::new(of_this)
        .args(["--exact", "failures::a_program_of_nothing"])
        .env("DOORBELL_SIM_SEED", u64::MAX.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(
        !ran.status.success() && text.contains("is no seed"),
        "{text}"
    );
}

#[doorbell::test(sim, cores = 1, seeds = 0..1)]
async fn a_program_of_nothing() {}
