//! Every setting of a `Builder` counts in a simulation, or is refused with its name (`options.rs`).

use doorbell::sim::{self, Config};
use doorbell::switches::{RtPush, Switches, TimerPull};
use doorbell::time::{Duration, sleep};
use doorbell::{Builder, CallError, Class, ClassKind, Handle, IdlePolicy, post_on, spawn, task};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sleeps on all cores, and urgent tasks that compute for longer than a small budget allows.
async fn sleeps_and_computes() {
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            spawn(async move {
                for _ in 0..5 {
                    sleep(Duration::from_micros(200 + number * 13)).await;
                }
            })
        })
        .collect();
    let urgent: Vec<_> = (1..7)
        .map(|rank| {
            task().class(Class::rt(10 * rank)).spawn(async {
                for _ in 0..40 {
                    sim::work(Duration::from_micros(50));
                    doorbell::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks.into_iter().chain(urgent) {
        task.await.unwrap();
    }
}

fn hash_with(builder: Builder) -> u64 {
    let config = Config::new().builder(builder.cores(4)).seeds(0..2);
    sim::run(config, sleeps_and_computes).unwrap().hash
}

#[test]
fn settings_of_workers_change_the_run() {
    let switches = |change: fn(&mut Switches)| {
        let mut switches = Switches::default();
        change(&mut switches);
        Builder::new().switches(switches)
    };
    let usual = hash_with(Builder::new());
    assert_eq!(hash_with(Builder::new()), usual);
    let (short, ms) = (Duration::from_micros(20), Duration::from_millis(1));
    let others = [
        ("idle", Builder::new().idle(IdlePolicy::NeverPark)),
        ("spin", Builder::new().spin(short)),
        ("shuffle", Builder::new().shuffle(1)),
        ("poll_times", Builder::new().poll_times(true)),
        ("rt_budget", Builder::new().rt_budget(0.1, ms)),
        ("timer_pull", switches(|it| it.timer_pull = TimerPull::On)),
        ("rt_push", switches(|it| it.rt_push = RtPush::On)),
    ];
    for (setting, builder) in others {
        assert_ne!(hash_with(builder), usual, "{setting} changes nothing");
    }
}

#[test]
fn each_hook_is_called() {
    let calls: Arc<[AtomicU64; 8]> = Arc::default();
    let count = |hook: usize| {
        let calls = Arc::clone(&calls);
        move || _ = calls[hook].fetch_add(1, Relaxed)
    };
    let counts = [0, 1, 2, 3, 4, 5, 6, 7].map(count);
    let [start, stop, park, unpark, spawned, finished, before, after] = counts;
    let builder = Builder::new()
        .cores(2)
        .on_worker_start(move |_| start())
        .on_worker_stop(move |_| stop())
        .before_park(move |_| park())
        .after_unpark(move |_| unpark())
        .on_task_spawn(move |_| spawned())
        .on_task_finish(move |_| finished())
        .on_before_task_poll(move |_| before())
        .on_after_task_poll(move |_| after());
    let config = Config::new().builder(builder).seeds(0..1);
    sim::run(config, sleeps_and_computes).unwrap();
    let calls = calls.each_ref().map(|calls| calls.load(Relaxed));
    assert!(calls.iter().all(|calls| *calls > 0), "{calls:?}");
}

fn with_small_mailboxes_and_a_priority() -> Builder {
    // The simulated OS refuses no policy.
    let builder = Builder::new().cores(2).mailbox_limit(2).rt_priority(7);
    let builder = builder.poll_times(true).long_poll(Duration::from_millis(3));
    builder.on_policy_refused(|worker| sim::check(false, &worker.to_string()))
}

#[doorbell::test(sim, seeds = 0..2, builder = with_small_mailboxes_and_a_priority)]
async fn limits_and_priorities_count() {
    let busy = task().on(1).spawn(async {
        sim::work(Duration::from_millis(2));
        doorbell::yield_now().await;
        sim::work(Duration::from_millis(4));
    });
    sleep(Duration::from_micros(500)).await;
    let posts = [(); 3].map(|()| post_on(1, || ()));
    assert!(matches!(
        posts,
        [Ok(()), Ok(()), Err(CallError::Full { .. })]
    ));
    busy.await.unwrap();
    let runtime = Handle::current();
    let long = runtime.metrics();
    assert_eq!(long.long_polls().len(), 1, "polls of 3 ms and more");
    task().class(Class::rt(1)).spawn(async {}).await.unwrap();
    let policies = runtime.policies();
    let mut urgent = policies.iter().filter(|it| it.class() == ClassKind::Rt);
    assert!(urgent.all(|it| it.to_string().contains("SCHED_FIFO 7")));
}

#[test]
fn threads_have_the_name_of_the_builder() {
    let config = Config::new().builder(Builder::new().cores(1).name("orders"));
    let failed = sim::run(config, || async { sim::check(false, "wrong") }).unwrap_err();
    assert!(failed.to_string().contains("orders"), "{failed}");
}

/// The settings of a `Builder` in a file of doorbell's.
fn settings_of(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let blocks = text.split("\nimpl Builder {").skip(1);
    let blocks = blocks.map(|block| block.split("\n}\n").next().unwrap());
    let functions = blocks.flat_map(|block| block.split("\n    pub fn ").skip(1));
    let settings = functions.filter(|function| {
        let signature = function.split('{').next().unwrap();
        signature.contains("self") && signature.contains("-> Self")
    });
    let names = settings.map(|function| function.split(['(', '<']).next().unwrap());
    names.map(str::to_owned).collect()
}

#[test]
fn no_setting_is_left_out() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/doorbell/src");
    let folders = [sources.clone(), sources.join("blocking")];
    let entries = folders.iter().flat_map(|it| std::fs::read_dir(it).unwrap());
    let files = entries.map(|entry| entry.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|it| it == "rs"));
    let settings: Vec<String> = files.flat_map(|file| settings_of(&file)).collect();
    assert!(settings.len() > 20, "{settings:?}");
    let here = [include_str!("settings.rs"), include_str!("options.rs")].concat();
    for setting in settings {
        // `around_threads` is what doorbell-tokio's builder sets.
        let (called, named) = (format!(".{setting}("), format!("\"{setting}\""));
        assert!(here.contains(&called) || here.contains(&named), "{setting}");
    }
}
