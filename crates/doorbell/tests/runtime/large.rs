//! Large futures and closures, handed over on a thread with the usual stack size.
//!
//! Each is handed over in a function that is not inlined, so the caller's stack holds the future itself
//! once, plus what the call needs.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::large_futures,
    clippy::large_stack_arrays,
    clippy::large_types_passed_by_value,
    reason = "tests play the outside world, and try what is large"
)]

use doorbell::{
    Builder, CallError, Class, Handle, JoinHandle, JoinSet, Runtime, Scope, ScopedJoinHandle,
    call::Call, local::LocalJoinHandle, yield_now,
};
use std::hint::black_box;
use std::sync::mpsc::{Sender, channel};

const KIB: usize = 1_024;
const FUTURE: usize = 1_000 * KIB;
const CLOSURE: usize = 256 * KIB;

fn runtime() -> Runtime {
    Builder::new().cores(2).build().unwrap()
}

/// A future of that size. Its output shows that it arrived complete.
async fn large() -> usize {
    let bytes = [1_u8; FUTURE];
    yield_now().await;
    count(&bytes)
}

/// The number of bytes, after checking one byte per KiB.
fn count(bytes: &[u8]) -> usize {
    let bytes = black_box(bytes);
    assert!(
        bytes
            .iter()
            .step_by(KIB)
            .chain(bytes.last())
            .all(|byte| *byte == 1)
    );
    bytes.len()
}

/// Runs a function on a worker, inside a poll.
fn on_a_worker<R: Send + 'static>(runtime: &Runtime, f: impl FnOnce() -> R + Send + 'static) -> R {
    runtime.block_on(runtime.spawn(async { f() })).unwrap()
}

#[test]
fn the_future_is_as_large_as_it_says() {
    assert!((FUTURE..FUTURE + KIB).contains(&size_of_val(&large())));
}

#[test]
fn large_futures_are_spawned_from_a_worker() {
    #[inline(never)]
    fn spawn() -> JoinHandle<usize> {
        doorbell::spawn(large())
    }
    #[inline(never)]
    fn by_handle() -> JoinHandle<usize> {
        Handle::current().spawn(large())
    }
    #[inline(never)]
    fn described() -> JoinHandle<usize> {
        doorbell::task().on(1).spawn(large())
    }
    #[inline(never)]
    fn tried() -> JoinHandle<usize> {
        let task = doorbell::task().class(Class::rt(1)).name("large");
        task.try_spawn(large()).unwrap()
    }
    let ways: [fn() -> JoinHandle<usize>; 4] = [spawn, by_handle, described, tried];
    let rt = runtime();
    for way in ways {
        let task = on_a_worker(&rt, way);
        assert_eq!(rt.block_on(task).unwrap(), FUTURE);
        // Dropped before its end, and before its first poll.
        on_a_worker(&rt, way).abort();
    }
}

#[test]
fn large_futures_are_children_of_sets_and_scopes() {
    #[inline(never)]
    fn into(set: &mut JoinSet<usize>) {
        set.spawn(large());
    }
    #[inline(never)]
    fn into_on(set: &mut JoinSet<usize>) {
        set.spawn_on(1, large());
    }
    #[inline(never)]
    fn child(scope: &Scope) -> ScopedJoinHandle<usize> {
        scope.spawn(large())
    }
    #[inline(never)]
    fn child_on(scope: &Scope) -> ScopedJoinHandle<usize> {
        scope.spawn_on(1, large())
    }
    let rt = runtime();
    let task = rt.spawn(async {
        let mut set = JoinSet::new();
        into(&mut set);
        into_on(&mut set);
        let mut whole = 0;
        while let Some(bytes) = set.join_next().await {
            whole += bytes.unwrap();
        }
        whole
            + doorbell::scope(async |scope| {
                let (one, other) = (child(scope), child_on(scope));
                one.await.unwrap() + other.await.unwrap()
            })
            .await
    });
    assert_eq!(rt.block_on(task).unwrap(), 4 * FUTURE);
}

#[test]
fn large_futures_are_local_tasks() {
    #[inline(never)]
    fn here() -> LocalJoinHandle<usize> {
        doorbell::spawn_local(large())
    }
    #[inline(never)]
    fn tried() -> LocalJoinHandle<usize> {
        doorbell::try_spawn_local(large()).unwrap()
    }
    #[inline(never)]
    fn made_there() -> JoinHandle<usize> {
        doorbell::spawn_local_on(1, large)
    }
    #[inline(never)]
    fn made_of_much(handle: &Handle) -> JoinHandle<usize> {
        let bytes = [1_u8; CLOSURE];
        handle.spawn_local_on(1, move || async move { count(&bytes) })
    }
    let rt = runtime();
    let local = rt.spawn_local_on(0, || async {
        let (one, other) = (here(), tried());
        one.await.unwrap() + other.await.unwrap()
    });
    assert_eq!(rt.block_on(local).unwrap(), 2 * FUTURE);
    let there = on_a_worker(&rt, made_there);
    assert_eq!(rt.block_on(there).unwrap(), FUTURE);
    let there = made_of_much(&rt);
    assert_eq!(rt.block_on(there).unwrap(), CLOSURE);
}

/// On a thread of std, with the same stack size as a worker.
#[test]
fn large_futures_are_run_by_block_on() {
    #[inline(never)]
    fn run(rt: &Runtime) -> usize {
        rt.block_on(large())
    }
    #[inline(never)]
    fn tried(rt: &Runtime) -> usize {
        rt.try_block_on(large()).unwrap()
    }
    let rt = runtime();
    let threads = std::thread::scope(|scope| {
        let run = scope.spawn(|| run(&rt));
        let tried = scope.spawn(|| tried(&rt));
        run.join().unwrap() + tried.join().unwrap()
    });
    assert_eq!(threads, 2 * FUTURE);
}

type Sum = Result<usize, CallError>;

#[test]
fn large_closures_are_called_from_a_worker() {
    #[inline(never)]
    fn on() -> Call<usize> {
        let bytes = [1_u8; CLOSURE];
        doorbell::call_on(1, move || count(&bytes))
    }
    #[inline(never)]
    fn tried() -> Call<usize> {
        let bytes = [1_u8; CLOSURE];
        doorbell::try_call_on(1, move || count(&bytes)).unwrap()
    }
    #[inline(never)]
    fn by_handle() -> Call<usize> {
        let bytes = [1_u8; CLOSURE];
        Handle::current().call_on(0, move || count(&bytes))
    }
    #[inline(never)]
    fn tried_by_handle() -> Call<usize> {
        let bytes = [1_u8; CLOSURE];
        let handle = Handle::current();
        handle.try_call_on(0, move || count(&bytes)).unwrap()
    }
    #[inline(never)]
    fn urgent() -> Call<usize> {
        let bytes = [1_u8; CLOSURE];
        let call = doorbell::call().class(Class::rt(1));
        call.on(1, move || count(&bytes))
    }
    let ways: [fn() -> Call<usize>; 5] = [on, tried, by_handle, tried_by_handle, urgent];
    // With a limit a call may wait for room, together with its closure.
    let limited = Builder::new().cores(2).mailbox_limit(1).build().unwrap();
    for rt in [&runtime(), &limited] {
        for way in ways {
            let called = on_a_worker(rt, way);
            assert_eq!(rt.block_on(called).unwrap(), CLOSURE);
        }
    }
}

#[test]
fn large_closures_are_called_from_a_thread() {
    #[inline(never)]
    fn blocking(rt: &Runtime) -> Sum {
        let bytes = [1_u8; CLOSURE];
        rt.call_blocking(1, move || count(&bytes))
    }
    #[inline(never)]
    fn urgent(rt: &Runtime) -> Sum {
        let bytes = [1_u8; CLOSURE];
        let call = rt.call().class(Class::rt(1));
        call.on_blocking(1, move || count(&bytes))
    }
    #[inline(never)]
    fn many(rt: &Runtime) -> Sum {
        let bytes = [1_u8; CLOSURE];
        let many = rt.call_many_blocking([1], move |_| count(&bytes))?;
        many.into_iter().sum()
    }
    #[inline(never)]
    fn all(rt: &Runtime) -> Sum {
        let bytes = [1_u8; CLOSURE];
        let all = rt.call_all_blocking(move |_| count(&bytes))?;
        all.into_iter().sum()
    }
    let rt = runtime();
    let whole: Sum = [blocking(&rt), urgent(&rt), many(&rt), all(&rt)]
        .into_iter()
        .sum();
    assert_eq!(whole.unwrap(), 5 * CLOSURE);
}

#[test]
fn large_closures_are_posted_and_sent_to_many() {
    #[inline(never)]
    fn post(to: Sender<usize>) {
        let bytes = [1_u8; CLOSURE];
        let closure = move || to.send(count(&bytes)).unwrap();
        doorbell::post_on(1, closure).unwrap();
    }
    #[inline(never)]
    fn post_by_handle(to: Sender<usize>) {
        let bytes = [1_u8; CLOSURE];
        let closure = move || to.send(count(&bytes)).unwrap();
        Handle::current().post_on(1, closure).unwrap();
    }
    #[inline(never)]
    fn many() -> doorbell::call::CallMany<usize> {
        let bytes = [1_u8; CLOSURE];
        doorbell::call_many([1, 0], move |_| count(&bytes))
    }
    #[inline(never)]
    fn all() -> doorbell::call::CallMany<usize> {
        let bytes = [1_u8; CLOSURE];
        doorbell::call_all(move |_| count(&bytes))
    }
    let rt = runtime();
    let (to, came) = channel();
    let theirs = to.clone();
    on_a_worker(&rt, move || post(theirs));
    on_a_worker(&rt, move || post_by_handle(to));
    assert_eq!(came.iter().sum::<usize>(), 2 * CLOSURE);
    for way in [many, all] {
        let called = rt.block_on(on_a_worker(&rt, way)).unwrap();
        let whole: Sum = called.into_iter().sum();
        assert_eq!(whole.unwrap(), 2 * CLOSURE);
    }
}

#[test]
fn large_closures_block() {
    #[inline(never)]
    fn blocks() -> doorbell::BlockingHandle<usize> {
        let bytes = [1_u8; CLOSURE];
        doorbell::spawn_blocking(move || count(&bytes))
    }
    #[inline(never)]
    fn tried() -> doorbell::BlockingHandle<usize> {
        let bytes = [1_u8; CLOSURE];
        let closure = move || count(&bytes);
        Handle::current().try_spawn_blocking(closure).unwrap()
    }
    let rt = runtime();
    for way in [blocks, tried] {
        let done = on_a_worker(&rt, way);
        assert_eq!(rt.block_on(done).unwrap(), CLOSURE);
    }
}

/// Uses at least this much of the stack.
#[inline(never)]
fn deep(bytes: usize) -> usize {
    let frame = black_box([1_u8; 4 * KIB]);
    let rest = bytes.saturating_sub(frame.len());
    let below = if rest == 0 { 0 } else { deep(rest) };
    below + count(&frame)
}

#[test]
fn workers_and_threads_that_block_have_the_stack_that_was_asked_for() {
    const STACK: usize = 32 * KIB * KIB;
    const USED: usize = 6 * KIB * KIB;
    let rt = Builder::new().cores(1).stack_size(STACK).build().unwrap();
    for class in [Class::FAIR, Class::rt(1), Class::BATCH] {
        let task = rt.task().class(class).spawn(async {
            let blocks = doorbell::spawn_blocking(|| deep(USED));
            deep(USED) + blocks.await.unwrap()
        });
        assert_eq!(rt.block_on(task).unwrap(), 2 * USED);
    }
    // A small stack is enough for small futures.
    let small = Builder::new().cores(1).stack_size(128 * KIB);
    let rt = small.build().unwrap();
    assert_eq!(rt.block_on(rt.spawn(async { 1 })).unwrap(), 1);
}

#[test]
fn a_stack_that_cannot_be_is_refused() {
    for (bytes, says) in [
        (0, "64 KiB"),
        (KIB, "64 KiB"),
        (usize::MAX, "64 KiB"),
        // The machine has no room for it.
        (usize::MAX / 4, "stack size"),
    ] {
        let refused = Builder::new().cores(1).stack_size(bytes).build();
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(says), "{bytes}: {error}");
    }
}
