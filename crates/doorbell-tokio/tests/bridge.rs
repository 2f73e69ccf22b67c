//! What finds which runtime on which thread, and what happens at the edges.

#![allow(
    clippy::async_yields_async,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "tests play the outside world"
)]

use doorbell::{
    Builder, Class, ClassKind, Runtime,
    metrics::{Policy, StallKind},
};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long anything may take before it counts as hung.
const LONG: Duration = Duration::from_secs(60);

fn runtime(cores: usize) -> Runtime {
    doorbell_tokio::builder().cores(cores).build().unwrap()
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

/// The class, the core and the thread's name where a task of doorbell runs that is spawned here.
async fn where_a_task_runs() -> (Option<Class>, bool, String) {
    let task = async {
        let on_a_worker = doorbell::current_core().is_some();
        (doorbell::current_class(), on_a_worker, thread_name())
    };
    doorbell::spawn(task).await.unwrap()
}

#[doorbell::main(builder = doorbell_tokio::builder, cores = 1)]
async fn in_main() -> String {
    tokio::time::sleep(Duration::from_millis(1)).await;
    tokio::spawn(async { thread_name() }).await.unwrap()
}

#[test]
fn tokio_is_found_in_main_in_tasks_of_all_classes_and_on_blocking_threads() {
    assert_eq!(in_main(), "doorbell-tokio");
    let rt = runtime(1);
    for class in [Class::FAIR, Class::rt(3), Class::BATCH] {
        let task = rt.task().class(class).spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let here = doorbell::current_class();
            let there = tokio::spawn(async { thread_name() }).await.unwrap();
            (here, there)
        });
        assert_eq!(
            rt.block_on(task).unwrap(),
            (Some(class), "doorbell-tokio".to_owned())
        );
    }
    let local = rt.spawn_local_on(0, || tokio::spawn(async { thread_name() }));
    assert_eq!(rt.block_on(local).unwrap().unwrap(), "doorbell-tokio");
    let blocking = rt.spawn_blocking(|| {
        let handle = tokio::runtime::Handle::current();
        handle.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        doorbell::Handle::try_current().is_ok()
    });
    assert!(rt.block_on(blocking).unwrap());
}

#[test]
fn doorbell_is_found_in_tasks_of_tokio_and_on_its_blocking_threads() {
    let rt = runtime(1);
    let inside = rt.block_on(async {
        let task = tokio::spawn(async {
            let started = Instant::now();
            doorbell::time::sleep(Duration::from_millis(5)).await;
            assert!(started.elapsed() >= Duration::from_millis(5));
            let listener = doorbell::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let client = doorbell::net::TcpStream::connect(address).await;
            let (_, _) = (client.unwrap(), listener.accept().await.unwrap());
            // On a thread of its own: tokio moves its worker there.
            let nested = tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(where_a_task_runs())
            });
            (doorbell::current_class(), where_a_task_runs().await, nested)
        });
        task.await.unwrap()
    });
    let on_a_worker = (Some(Class::FAIR), true, "doorbell-0".to_owned());
    assert_eq!(inside, (None, on_a_worker.clone(), on_a_worker));
    let blocking = rt.block_on(async {
        tokio::task::spawn_blocking(|| doorbell::Handle::try_current().is_ok()).await
    });
    assert!(blocking.unwrap());
}

doorbell::task_local! {
    static REQUEST: u64;
}

#[test]
fn a_task_of_tokio_has_no_class_and_no_task_local_and_what_it_spawns_is_fair() {
    let rt = doorbell_tokio::Bridge::new()
        .urgent_helper(true)
        .install(Builder::new().cores(1))
        .build()
        .unwrap();
    for class in [Class::FAIR, Class::BATCH, Class::rt(3)] {
        let task = rt.task().class(class).spawn(REQUEST.scope(7, async {
            let of_tokio = async {
                let here = (doorbell::current_class(), REQUEST.try_with(|id| *id).ok());
                (here, where_a_task_runs().await.0)
            };
            tokio::spawn(of_tokio).await.unwrap()
        }));
        assert_eq!(
            rt.block_on(task).unwrap(),
            ((None, None), Some(Class::FAIR))
        );
    }
}

#[test]
fn what_a_scope_gives_to_tokio_outlives_the_scope() {
    let rt = runtime(1);
    let ended = rt.block_on(async {
        let (ends, end) = tokio::sync::oneshot::channel();
        let task = doorbell::scope(async |_| tokio::spawn(end)).await;
        ends.send(7).unwrap();
        task.await.unwrap()
    });
    assert_eq!(ended, Ok(7));
}

/// A value of a worker, which ends after all its tasks.
struct Last(mpsc::Sender<&'static str>);

impl Drop for Last {
    fn drop(&mut self) {
        let found = tokio::runtime::Handle::try_current().is_ok();
        let _ = self.0.send(if found { "last" } else { "last, alone" });
    }
}

doorbell::worker_local! {
    static LAST: std::cell::OnceCell<Last> = std::cell::OnceCell::new();
}

#[test]
fn tk3_the_workers_guard_of_tokio_is_the_first_and_the_last_of_its_thread() {
    let (says, hears) = mpsc::channel();
    let (starts, stops) = (says.clone(), says.clone());
    let rt = doorbell_tokio::builder()
        .cores(1)
        .on_worker_start(move |_| {
            drop(tokio::spawn(async {}));
            starts.send("first").unwrap();
        })
        .on_worker_stop(move |_| {
            drop(tokio::spawn(async {}));
            stops.send("stops").unwrap();
        })
        .build()
        .unwrap();
    let task = rt.spawn(async { LAST.with(|last| last.set(Last(says)).is_ok()) });
    assert!(rt.block_on(task).unwrap());
    drop(rt);
    let mut heard: Vec<_> = hears.iter().collect();
    assert_eq!(heard.remove(0), "first");
    heard.sort_unstable();
    assert_eq!(heard, ["last", "stops"]);
}

#[test]
fn what_urgent_tasks_give_to_tokio_runs_on_the_urgent_helper() {
    let builder = Builder::new().cores(1);
    let rt = doorbell_tokio::Bridge::new()
        .urgent_helper(true)
        .install(builder)
        .build()
        .unwrap();
    let of = |class| {
        let task = rt.task().class(class).spawn(async {
            let ran = doorbell_tokio::run(async { thread_name() }).await.unwrap();
            (tokio::spawn(async { thread_name() }).await.unwrap(), ran)
        });
        rt.block_on(task).unwrap()
    };
    let both = |name: &str| (name.to_owned(), name.to_owned());
    assert_eq!(of(Class::FAIR), both("doorbell-tokio"));
    assert_eq!(of(Class::rt(1)), both("doorbell-tok-rt"));
    // It does not wait for the other helper, which is inside a long poll.
    let (ends, ended) = mpsc::channel::<()>();
    let busy = rt.block_on(async { tokio::spawn(async move { ended.recv() }) });
    assert_eq!(of(Class::rt(1)), both("doorbell-tok-rt"));
    drop(ends);
    rt.block_on(busy).unwrap().unwrap_err();
}

/// The policy of the calling thread, and the CPUs that it may use.
fn policy_and_cpus() -> (Option<Policy>, String) {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let cpus = status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed:"));
    let runtime = doorbell::Handle::current();
    // As a Fair worker: it keeps its policy.
    let policy = runtime.schedule_thread_as(ClassKind::Fair);
    (policy, cpus.unwrap().to_owned())
}

#[test]
fn tk1_one_thread_of_the_urgent_helper_is_urgent() {
    let rt = doorbell_tokio::Bridge::new()
        .urgent_helper(true)
        .install(Builder::new().cores(1))
        .build()
        .unwrap();
    let handle = rt.handle().clone();
    let of_rt = std::thread::spawn(move || handle.schedule_thread_as(ClassKind::Rt));
    let of_rt = of_rt.join().unwrap();
    let of_fair = rt.handle().schedule_thread_as(ClassKind::Fair);
    let task = rt.task().class(Class::rt(1)).spawn(async {
        let of_worker = tokio::spawn(async { policy_and_cpus().0 }).await;
        let closures = [(); 3].map(|()| tokio::task::spawn_blocking(|| policy_and_cpus().0));
        let nested =
            tokio::spawn(async { tokio::task::spawn_blocking(|| policy_and_cpus().0).await });
        let mut of_closures = vec![nested.await.unwrap().unwrap()];
        for closure in closures {
            of_closures.push(closure.await.unwrap());
        }
        (of_worker.unwrap(), of_closures)
    });
    let (of_worker, of_closures) = rt.block_on(task).unwrap();
    assert_eq!(of_worker, of_rt);
    assert_eq!(of_closures, [of_fair; 4]);
}

#[test]
fn tk2_closures_of_tokio_are_not_bound_to_the_cpu_of_a_worker() {
    // A runtime for each class: an idle thread would take the second closure.
    for class in [Class::FAIR, Class::BATCH] {
        let rt = doorbell_tokio::builder()
            .cores(1)
            .pin(true)
            .build()
            .unwrap();
        let cpus = {
            let _entered = rt.enter();
            policy_and_cpus().1
        };
        let task = rt.task().class(class).spawn(async {
            let closure = tokio::task::spawn_blocking(|| policy_and_cpus().1);
            closure.await.unwrap()
        });
        assert_eq!(rt.block_on(task).unwrap(), cpus);
    }
}

#[test]
fn what_runs_on_the_helper_is_aborted_when_its_future_is_dropped() {
    struct Says(mpsc::Sender<&'static str>);
    impl Drop for Says {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let rt = runtime(1);
    let (says, hears) = mpsc::channel();
    rt.block_on(async {
        let running = doorbell_tokio::run(async move {
            let says = Says(says);
            says.0.send("began").unwrap();
            std::future::pending::<()>().await;
        });
        assert_eq!(hears.recv_timeout(LONG).unwrap(), "began");
        drop(running);
    });
    assert_eq!(hears.recv_timeout(LONG).unwrap(), "dropped");
    let failed = rt.block_on(async { doorbell_tokio::run(async { panic!("on purpose") }).await });
    assert!(failed.unwrap_err().is_panic());
}

#[test]
#[should_panic(expected = "install it on the Builder")]
fn without_a_bridge_there_is_no_helper() {
    let rt = Builder::new().cores(1).build().unwrap();
    let ran = rt.block_on(async { doorbell_tokio::run(async {}) });
    drop(ran);
}

#[test]
fn a_paused_clock_is_refused() {
    let error = doorbell_tokio::builder()
        .start_paused(true)
        .build()
        .unwrap_err();
    assert!(
        error.to_string().contains("do not follow a paused clock"),
        "{error}"
    );
    let error = doorbell_tokio::install_error(&error);
    assert!(matches!(
        error,
        Some(doorbell_tokio::InstallError::PausedClock)
    ));
}

#[test]
fn a_builder_with_a_bridge_builds_several_runtimes_with_a_helper_each() {
    let builder = doorbell_tokio::builder().cores(1);
    let one = builder.clone().name("one").build().unwrap();
    let other = builder.name("other").build().unwrap();
    let worker_of = |rt: &Runtime| {
        rt.block_on(async { tokio::spawn(where_a_task_runs()).await })
            .unwrap()
            .2
    };
    assert_eq!(worker_of(&one), "one-0");
    drop(one);
    assert_eq!(worker_of(&other), "other-0");
}

#[test]
fn spawn_local_of_tokio_says_what_is_missing() {
    let rt = runtime(1);
    let local = rt.spawn_local_on(0, || async { tokio::task::spawn_local(async {}).await });
    let error = rt.block_on(local).unwrap_err();
    assert!(error.to_string().contains("LocalSet"), "{error}");
}

/// The class of the worker of the first stall that is told.
fn told(hears: &mpsc::Receiver<doorbell::metrics::Stall>) -> Option<ClassKind> {
    let stall = hears.recv_timeout(LONG).unwrap();
    assert_eq!(stall.kind(), StallKind::Poll);
    stall.worker().map(|worker| worker.class())
}

fn telling(cores: usize) -> (Runtime, mpsc::Receiver<doorbell::metrics::Stall>) {
    let (says, hears) = mpsc::channel();
    let rt = doorbell_tokio::builder()
        .cores(cores)
        .on_stall(Duration::from_millis(20), move |stall| {
            let _ = says.send(*stall);
        })
        .build()
        .unwrap();
    (rt, hears)
}

#[test]
fn block_in_place_and_block_on_of_tokio_on_a_worker_are_told_as_stalls() {
    let (rt, hears) = telling(1);
    let (ends, ended) = mpsc::channel::<()>();
    let task = rt.spawn(async move { tokio::task::block_in_place(|| ended.recv()) });
    assert_eq!(told(&hears), Some(ClassKind::Fair));
    drop(ends);
    rt.block_on(task).unwrap().unwrap_err();
    drop(rt);

    let (rt, hears) = telling(1);
    let (ends, ended) = tokio::sync::oneshot::channel::<()>();
    let task = rt.spawn(async move { tokio::runtime::Handle::current().block_on(ended) });
    assert_eq!(told(&hears), Some(ClassKind::Fair));
    drop(ends);
    rt.block_on(task).unwrap().unwrap_err();
}

#[test]
fn a_loop_over_what_tokio_always_has_ready_is_told_as_a_stall() {
    let (rt, hears) = telling(1);
    let (stops, stop) = tokio::sync::watch::channel(false);
    let free = tokio::sync::Semaphore::new(1);
    // In a task of tokio each acquisition would spend of its budget.
    let task = rt.spawn(async move {
        while !*stop.borrow() {
            drop(free.acquire().await);
        }
    });
    assert_eq!(told(&hears), Some(ClassKind::Fair));
    stops.send(true).unwrap();
    rt.block_on(task).unwrap();
}

/// Reads from a socket of tokio that always has something, until `stop`.
async fn read_on(mut socket: tokio::net::TcpStream, stop: tokio::sync::watch::Receiver<bool>) {
    use doorbell::coop::cooperative;
    use std::pin::pin;

    let mut buffer = [0; 1];
    while !*stop.borrow() {
        let read = cooperative(pin!(socket.read(&mut buffer))).await;
        assert_eq!(read.unwrap(), 1);
    }
}

#[test]
fn a_loop_over_a_socket_of_tokio_gives_way_inside_cooperative() {
    let rt = runtime(1);
    let (stops, stop) = tokio::sync::watch::channel(false);
    let reader = rt.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        drop(tokio::spawn(async move {
            while client.write_all(&[0; 16 * 1024]).await.is_ok() {}
        }));
        doorbell::spawn(read_on(socket, stop))
    });
    // The only worker also runs this.
    let other = rt.task().on(0).spawn(async move { stops.send(true) });
    rt.block_on(other).unwrap().unwrap();
    rt.block_on(reader).unwrap();
}

#[test]
fn a_guard_of_tokio_that_is_held_over_an_await_breaks_no_worker() {
    let foreign = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let rt = runtime(1);
    let handles = [foreign.handle().clone(), foreign.handle().clone()];
    // Two local tasks of one worker hold guards and drop them in the order in which they were made.
    let tasks = handles.map(|handle| {
        rt.spawn_local_on(0, move || async move {
            let _entered = handle.enter();
            doorbell::yield_now().await;
            doorbell::time::sleep(Duration::from_millis(1)).await;
        })
    });
    for task in tasks {
        // Tokio may panic inside the task.
        let _ = rt.block_on(task);
    }
    assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
    rt.shutdown_timeout(LONG).unwrap();
}

/// Uses tokio when it is dropped.
struct UsesTokio(mpsc::Sender<bool>);

impl Drop for UsesTokio {
    fn drop(&mut self) {
        let found = tokio::runtime::Handle::try_current();
        if let Ok(handle) = &found {
            drop(handle.spawn(async {}));
        }
        // A timer and a socket are of the helper's driver.
        if found.is_ok() {
            drop(tokio::time::sleep(Duration::from_millis(1)));
        }
        self.0.send(found.is_ok()).unwrap();
    }
}

#[test]
fn the_helper_outlives_every_drop_of_a_task() {
    for ends_at_once in [false, true] {
        let rt = runtime(2);
        let (says, hears) = mpsc::channel();
        let (ends, ended) = mpsc::channel::<()>();
        let (began, has_begun) = mpsc::channel();
        let stuck = UsesTokio(says.clone());
        drop(rt.task().on(0).spawn(async move {
            let _stuck = stuck;
            began.send(()).unwrap();
            let _ = ended.recv();
            std::future::pending::<()>().await;
        }));
        has_begun.recv_timeout(LONG).unwrap();
        for core in [0, 1, 1] {
            let uses = UsesTokio(says.clone());
            drop(rt.task().on(core).spawn(async move {
                let _uses = uses;
                tokio::time::sleep(LONG).await;
            }));
        }
        if ends_at_once {
            // The worker of core 0 is left behind, inside its poll.
            rt.shutdown_timeout(Duration::from_millis(200)).unwrap_err();
            drop(ends);
        } else {
            drop(ends);
            drop(rt);
        }
        for _ in 0..4 {
            assert!(hears.recv_timeout(LONG).unwrap());
        }
    }
}

/// Number of open descriptors of this process that are epoll sets, events, or timers.
fn driver_descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets
        .filter(|target| target.to_string_lossy().starts_with("anon_inode:"))
        .count()
}

#[test]
fn neither_runtime_keeps_the_other() {
    // In a process of its own: other tests have runtimes too.
    const ALONE: &str = "DOORBELL_TOKIO_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "neither_runtime_keeps_the_other"])
            .env(ALONE, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let cycle = || {
        let rt = runtime(1);
        let weak = rt.handle().downgrade();
        rt.block_on(async {
            tokio::spawn(doorbell::time::sleep(Duration::from_millis(1)))
                .await
                .unwrap();
            // What is still there when the runtime ends, in both directions.
            drop(tokio::spawn(async {
                let _handle = doorbell::Handle::current();
                std::future::pending::<()>().await;
            }));
            drop(doorbell::spawn(async {
                let _handle = tokio::runtime::Handle::current();
                std::future::pending::<()>().await;
            }));
        });
        drop(rt);
        weak
    };
    let gone = |weak: doorbell::WeakHandle| {
        let until = Instant::now() + LONG;
        while weak.upgrade().is_some() {
            assert!(Instant::now() < until, "the runtime is kept");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    gone(cycle());
    let before = driver_descriptors();
    for _ in 0..8 {
        gone(cycle());
    }
    let until = Instant::now() + LONG;
    while driver_descriptors() > before {
        assert!(Instant::now() < until, "descriptors are kept");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_runtime_may_end_on_its_own_helper() {
    let rt = runtime(1);
    let handle = rt.handle().clone();
    let (says, hears) = mpsc::channel();
    handle
        .try_block_on(async move {
            drop(tokio::spawn(async move {
                drop(rt);
                says.send(()).unwrap();
            }));
        })
        .unwrap();
    hears.recv_timeout(LONG).unwrap();
}
