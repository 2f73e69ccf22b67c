//! A panic of a public function names the line that called it, not one of this crate.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "tests play the outside world"
)]
#![allow(
    clippy::semicolon_if_nothing_returned,
    clippy::redundant_async_block,
    reason = "each case is one line, and awaits what it polls"
)]

use doorbell::sync::Mutex;
use doorbell::time::{interval, interval_at, sleep, timeout};
use doorbell::{Builder, Class, Group, Handle, JoinSet, Runtime};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::{Arc, Once};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

doorbell::worker_local!(static OF_WORKER: u32 = 1);
doorbell::task_local!(static OF_TASK: u32);

thread_local! {
    /// Whether the thread looks where it panics.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
    /// The place of its last panic.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The file and line of the panic of `f`.
fn place_of(f: impl FnOnce()) -> String {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if LOOKS.get() {
                let place = panic.location().unwrap().to_string();
                PLACE.with(|last| *last.borrow_mut() = place);
            } else {
                others(panic);
            }
        }));
    });
    LOOKS.set(true);
    let ended = catch_unwind(AssertUnwindSafe(f));
    LOOKS.set(false);
    assert!(ended.is_err(), "it does not panic");
    PLACE.with(|last| std::mem::take(&mut *last.borrow_mut()))
}

/// What panics, by the file and the name of what documents that.
type Case = (&'static str, Box<dyn FnOnce() + Send>);

fn case(name: &'static str, f: impl FnOnce() + Send + 'static) -> Case {
    (name, Box::new(f))
}

fn runtime() -> Runtime {
    Builder::new().cores(1).build().unwrap()
}

/// Polls a future of `block_on` again after it was ready.
fn twice<F: Future + Unpin>(rt: &Runtime, mut future: F) {
    rt.block_on(async {
        poll_fn(|cx| Pin::new(&mut future).poll(cx).map(drop)).await;
        drop(future.await);
    });
}

/// Polls once, on a thread that has no runtime.
fn once(future: impl Future) {
    let waker = Waker::noop();
    let future = async { future.await };
    let _ = pin!(future).poll(&mut Context::from_waker(waker));
}

/// On a thread without a runtime.
fn outside() -> Vec<Case> {
    let soon = Duration::from_secs(1);
    vec![
        case("post.rs post_on", || doorbell::post_on(0, || ()).unwrap()),
        case("join_set.rs spawn", || {
            JoinSet::new().spawn(async {});
        }),
        case("join_set.rs spawn_blocking", || {
            JoinSet::new().spawn_blocking(|| ());
        }),
        case("join_set.rs spawn_on", || {
            JoinSet::new().spawn_on(0, async {});
        }),
        case("call_class.rs call", || drop(doorbell::call())),
        case("local_tasks.rs spawn_local", || {
            drop(doorbell::spawn_local(async {}))
        }),
        case("local_tasks.rs spawn_local_on", || {
            drop(doorbell::spawn_local_on(0, || async {}))
        }),
        case("worker_local.rs with", || OF_WORKER.with(|_| ())),
        case("class.rs rt", || assert!(Class::rt(100) != Class::FAIR)),
        case("blocking/mod.rs spawn_blocking", || {
            drop(doorbell::spawn_blocking(|| ()))
        }),
        case("group.rs new", || drop(Group::new(0))),
        case("call_on.rs call_on", || drop(doorbell::call_on(0, || ()))),
        case("call_on.rs try_call_on", || {
            drop(doorbell::try_call_on(0, || ()))
        }),
        case("task_local.rs with", || OF_TASK.with(|_| ())),
        case("task_local.rs get", || assert!(OF_TASK.get() > 0)),
        case("time/interval.rs interval", || {
            drop(interval(Duration::ZERO))
        }),
        case("time/interval.rs interval_at", || {
            drop(interval_at(doorbell::time::Instant::now(), Duration::ZERO));
        }),
        case("time/interval.rs poll_tick", move || {
            let mut every = interval_at(doorbell::time::Instant::now() + soon, soon);
            let _ = every.poll_tick(&mut Context::from_waker(Waker::noop()));
        }),
        case("time/sleep.rs Sleep", move || once(sleep(soon))),
        case("time/timeout.rs Timeout", move || {
            once(timeout(soon, pending::<()>()))
        }),
        case("call_many.rs call_many", || {
            drop(doorbell::call_many([0], |_| ()))
        }),
        case("call_many.rs call_all", || drop(doorbell::call_all(|_| ()))),
        case("handle.rs current", || drop(Handle::current())),
        case("task.rs spawn", || drop(doorbell::spawn(async {}))),
        case("task.rs task", || drop(doorbell::task())),
    ]
}

/// With a runtime.
fn inside(rt: &Arc<Runtime>) -> Vec<Case> {
    let with = |name, f: fn(&Runtime)| {
        let rt = Arc::clone(rt);
        case(name, move || f(&rt))
    };
    vec![
        with("runtime.rs block_on", |rt| {
            let place = rt.call_blocking(0, || place_of(|| runtime().block_on(async {})));
            PLACE.with(|last| *last.borrow_mut() = place.unwrap());
            std::panic::resume_unwind(Box::new(()));
        }),
        with("join_set.rs spawn_on", |rt| {
            let _entered = rt.enter();
            JoinSet::new().spawn_on(9, async {});
        }),
        with("local_tasks.rs spawn_local_on", |rt| {
            drop(rt.spawn_local_on(9, || async {}))
        }),
        with("local_tasks.rs LocalJoinHandle", |rt| {
            let place = rt.spawn_local_on(0, || async {
                let mut task = doorbell::spawn_local(async {});
                (&mut task).await.unwrap();
                let mut again = pin!(async { task.await });
                poll_fn(move |cx| {
                    let place = place_of(|| drop(again.as_mut().poll(cx)));
                    Poll::Ready(place)
                })
                .await
            });
            let place = rt.block_on(place).unwrap();
            PLACE.with(|last| *last.borrow_mut() = place);
            std::panic::resume_unwind(Box::new(()));
        }),
        with("blocking/mod.rs BlockingHandle", |rt| {
            twice(rt, rt.spawn_blocking(|| ()))
        }),
        with("call_on.rs Call", |rt| twice(rt, rt.call_on(0, || ()))),
        with("call_many.rs CallMany", |rt| twice(rt, rt.call_all(|_| ()))),
        with("call_many.rs CallMany", |rt| {
            twice(rt, rt.call_many([9], |_| ()))
        }),
        with("task.rs JoinHandle", |rt| twice(rt, rt.spawn(async {}))),
        with("task.rs spawn", |rt| drop(rt.task().on(9).spawn(async {}))),
        with("task_local.rs TaskLocalFuture", |rt| {
            twice(rt, OF_TASK.scope(1, ready(())));
        }),
        with("scope.rs spawn_on", |rt| {
            rt.block_on(doorbell::scope(async |s| {
                drop(catch_unwind(AssertUnwindSafe(|| {
                    drop(s.spawn_on(9, async {}))
                })));
            }));
            std::panic::resume_unwind(Box::new(()));
        }),
        with("scope.rs ScopedJoinHandle", |rt| {
            let mut handle = None;
            rt.block_on(doorbell::scope(async |s| handle = Some(s.spawn(async {}))));
            twice(rt, handle.unwrap());
        }),
    ]
}

/// On a worker.
fn on_a_worker(rt: &Arc<Runtime>) -> Vec<Case> {
    let with = |name, f: fn(&Runtime)| {
        let rt = Arc::clone(rt);
        case(name, move || f(&rt))
    };
    vec![
        with("sync/mutex.rs blocking_lock", |rt| {
            let place = rt.call_blocking(0, || place_of(|| drop(Mutex::new(()).blocking_lock())));
            PLACE.with(|last| *last.borrow_mut() = place.unwrap());
            std::panic::resume_unwind(Box::new(()));
        }),
        with("sync/mutex.rs blocking_lock_owned", |rt| {
            let lock = || drop(Arc::new(Mutex::new(())).blocking_lock_owned());
            let place = rt.call_blocking(0, move || place_of(lock));
            PLACE.with(|last| *last.borrow_mut() = place.unwrap());
            std::panic::resume_unwind(Box::new(()));
        }),
    ]
}

fn all_cases(rt: &Arc<Runtime>) -> impl Iterator<Item = Case> + use<> {
    let cases = [outside(), inside(rt), on_a_worker(rt)];
    cases.into_iter().flatten()
}

/// What documents a panic and has no case, with the reason.
const LEFT_OUT: [(&str, &str); 4] = [
    (
        "sim/mod.rs check",
        "it is there with the feature `sim` only",
    ),
    (
        "sim/run.rs test",
        "it is for the macro, which gives the place",
    ),
    ("net/split.rs reunite", "it never panics"),
    (
        "handle.rs try_block_on",
        "the panic is that of the caller's future",
    ),
];

#[test]
fn c2_a_panic_of_a_public_function_names_the_line_that_called_it() {
    let rt = Arc::new(runtime());
    let mut failed = Vec::new();
    for (name, f) in all_cases(&rt) {
        let place = std::thread::spawn(|| place_of(f)).join();
        let place = place.unwrap_or_else(|_| String::from("(no panic)"));
        if !place.contains("panic_places.rs") {
            failed.push(format!("{name}: {place}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The files of a folder, with their paths inside `root`.
fn files(root: &Path, at: &Path, all: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(root, &path, all);
        } else {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            all.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// What the sources say of a panic: the file, and the name behind the comment.
fn documented() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&root, &root, &mut all);
    let mut found = BTreeSet::new();
    for (file, text) in all {
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line != "/// # Panics" {
                continue;
            }
            let Some(item) = lines.find(|line| line.starts_with("pub")) else {
                continue;
            };
            let words = item.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
            let keyword = |word: &&str| {
                !matches!(
                    *word,
                    "pub" | "crate" | "const" | "async" | "fn" | "struct" | ""
                )
            };
            // An async function has no place of its caller.
            if !item.starts_with("pub(") && !item.starts_with("pub async") {
                found.insert(format!(
                    "{file} {}",
                    words.into_iter().find(keyword).unwrap()
                ));
            }
        }
    }
    found
}

#[test]
fn every_panic_that_is_documented_has_a_case() {
    let rt = Arc::new(runtime());
    let cases = all_cases(&rt).map(|case| case.0);
    let known: BTreeSet<_> = cases.chain(LEFT_OUT.map(|it| it.0)).collect();
    let documented = documented();
    assert!(documented.len() > 30, "{documented:?}");
    let missing: Vec<_> = documented
        .iter()
        .filter(|name| !known.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
