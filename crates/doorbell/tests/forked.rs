//! A child process that fork(2) has made: the runtime of the parent has ended there, and the parent's goes on.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::net::UnixStream;
use doorbell::{Builder, CallError, Class, Runtime, ThreadRole, error::SpawnBlockingError};
use std::cell::Cell;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

/// Far longer than anything should take, so that a loaded machine passes.
const LONG: Duration = Duration::from_secs(30);

/// Runs `f` in a child, and returns what it returned; `None` if it did not end in time, or not by itself.
///
/// The child has one thread, and others of this process may have had locks. So `f` prints nothing and does not
/// panic. The parent does not drop what `f` owns.
fn in_child(f: impl FnOnce() -> u8) -> Option<u8> {
    let f = ManuallyDrop::new(f);
    // SAFETY: the child only runs `f`, and ends without any destructor.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let said = ManuallyDrop::into_inner(f)();
        // SAFETY: it ends the child.
        unsafe { libc::_exit(i32::from(said)) };
    }
    let begin = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: a child of this process, which is waited for once.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if ended == child {
            let by_itself = libc::WIFEXITED(status);
            return by_itself.then(|| u8::try_from(libc::WEXITSTATUS(status)).unwrap());
        }
        if begin.elapsed() > LONG {
            // SAFETY: the child still exists.
            unsafe { libc::kill(child, libc::SIGKILL) };
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number of the first check that fails; 0 if all hold.
fn first_wrong<const N: usize>(checks: [bool; N]) -> u8 {
    let wrong = checks.iter().position(|right| !right);
    wrong.map_or(0, |at| u8::try_from(at + 1).unwrap())
}

fn runtime() -> Runtime {
    let rt = Builder::new().cores(2).build().unwrap();
    rt.open_class(Class::rt(1)).unwrap();
    // A thread for blocking closures that is idle.
    rt.block_on(rt.spawn_blocking(|| ())).unwrap();
    rt
}

#[test]
fn c4_the_runtime_has_ended_in_a_child() {
    let rt = runtime();
    let said = in_child(|| {
        let gone = |error| matches!(error, CallError::RuntimeGone);
        first_wrong([
            rt.call_blocking(0, || ()).is_err_and(gone),
            rt.block_on(rt.call_on(1, || ())).is_err_and(gone),
            rt.post_on(0, || ()).is_err_and(gone),
            rt.block_on(rt.call_all(|_| ()))
                .unwrap()
                .into_iter()
                .all(|it| it.is_err_and(gone)),
            rt.block_on(rt.spawn(async {}))
                .is_err_and(|error| error.is_cancelled()),
            rt.block_on(rt.task().on(1).spawn(async {})).is_err(),
            rt.task().try_spawn(async {}).is_err(),
            rt.task().class(Class::rt(1)).try_spawn(async {}).is_err(),
            rt.open_class(Class::BATCH).is_err(),
            rt.block_on(rt.spawn_blocking(|| ())).is_err(),
            matches!(
                rt.try_spawn_blocking(|| ()),
                Err(SpawnBlockingError::RuntimeGone)
            ),
            rt.block_on(async { 7 }) == 7,
            rt.block_on(rt.core_offline(1)).is_err(),
            rt.block_on(rt.dump()).is_empty(),
        ])
    });
    assert_eq!(said, Some(0), "the number of a check, or none that ended");
    // The parent's goes on.
    assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
}

#[test]
fn c4_a_runtime_is_dropped_in_a_child_without_waiting() {
    let rt = runtime();
    let said = in_child(move || {
        drop(rt);
        0
    });
    assert_eq!(said, Some(0));
    let rt = runtime();
    let said = in_child(move || u8::from(rt.shutdown_timeout(LONG).is_err()));
    assert_eq!(said, Some(0));
}

#[test]
fn c4_a_new_runtime_works_in_a_child() {
    let _parents = runtime();
    let said = in_child(|| {
        let rt = Builder::new().cores(1).build().unwrap();
        first_wrong([
            rt.block_on(rt.spawn(async { 7 })).is_ok(),
            rt.call_blocking(0, || 7).is_ok(),
            rt.block_on(rt.spawn_blocking(|| 7)).is_ok(),
        ])
    });
    assert_eq!(said, Some(0));
}

#[test]
fn c4_the_hooks_around_threads_are_not_entered_in_a_child() {
    thread_local!(static INSIDE: Cell<bool> = Cell::default());
    let rt = Builder::new()
        .cores(1)
        .around_threads(|_| {
            Ok(|_: &ThreadRole, work: &mut dyn FnMut()| {
                INSIDE.set(true);
                work();
                INSIDE.set(false);
            })
        })
        .build()
        .unwrap();
    let is_inside = || rt.block_on(async { INSIDE.get() });
    assert!(is_inside());
    assert_eq!(in_child(|| u8::from(is_inside())), Some(0));
}

#[test]
fn c4_a_stream_that_a_child_drops_still_wakes_the_parent() {
    let rt = runtime();
    let (here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let _entered = rt.enter();
    let mut stream = UnixStream::from_std(here).unwrap();
    // It waits once, so it is registered.
    there.write_all(b"a").unwrap();
    let mut byte = [0];
    let mut read = async |stream: &mut UnixStream| stream.read(&mut byte).await.unwrap();
    rt.block_on(async {
        assert_eq!(read(&mut stream).await, 1);
        let waits = doorbell::time::timeout(Duration::from_millis(20), read(&mut stream));
        assert!(waits.await.is_err());
    });
    // SAFETY: only the child drops the copy, and it does not drop the original.
    let copy = unsafe { std::ptr::read(&raw const stream) };
    let said = in_child(move || {
        drop(copy);
        0
    });
    assert_eq!(said, Some(0));
    there.write_all(b"b").unwrap();
    let comes = rt.block_on(doorbell::time::timeout(LONG, read(&mut stream)));
    assert_eq!(comes, Ok(1));
}
