//! Wrong use gives a clear error with a remedy.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{
    BuildError, Builder, Handle, SpawnError,
    error::{BlockOnError, NoRuntime},
};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn message(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it must panic");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn zero_cores() {
    let error = Builder::new().cores(0).build().unwrap_err();
    assert!(matches!(error, BuildError::NoCores));
    assert!(error.to_string().contains("at least one core"), "{error}");
}

#[test]
fn a_list_outside_the_affinity_mask() {
    let error = Builder::new().core_list([100_000]).build().unwrap_err();
    assert!(matches!(
        error,
        BuildError::CpuNotAllowed { cpu: 100_000, .. }
    ));
    assert!(
        error.to_string().contains("CPU 100000 is not among"),
        "{error}"
    );
}

#[test]
fn a_core_out_of_range() {
    let rt = Builder::new().cores(1).build().unwrap();
    let error = rt.task().on(1).try_spawn(async {}).unwrap_err();
    assert!(matches!(error, SpawnError::NoSuchCore { cores: 1, .. }));
    let text = message(|| drop(rt.task().on(1).spawn(async {})));
    assert_eq!(text, "there is no core 1: the runtime has cores 0 to 0");
}

#[test]
fn no_runtime_on_this_thread() {
    assert_eq!(Handle::try_current().unwrap_err(), NoRuntime);
    for text in [
        message(|| drop(doorbell::spawn(async {}))),
        message(|| drop(doorbell::task())),
        message(|| drop(doorbell::call_on(0, || ()))),
        message(|| drop(Handle::current())),
    ] {
        assert!(text.contains("keep a Handle"), "{text}");
    }
}

#[test]
fn block_on_inside_a_worker() {
    let rt = std::sync::Arc::new(Builder::new().cores(1).build().unwrap());
    let other = Builder::new().cores(1).build().unwrap();
    let handle = rt.handle().clone();
    let inside = rt.block_on(rt.spawn(async move { handle.try_block_on(async {}) }));
    assert_eq!(inside.unwrap(), Err(BlockOnError::InsideWorker));
    // Also on a worker of another runtime, which it would block as well.
    let panicked = rt
        .block_on(rt.spawn(async move { other.block_on(async {}) }))
        .unwrap_err();
    assert!(
        panicked
            .to_string()
            .contains("block_on was called on a worker"),
        "{panicked}"
    );
}

#[test]
fn wrong_switches_in_the_environment() {
    // In a child process, since the environment belongs to all threads of a process.
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "bad_input::helper_builds_a_runtime",
            "--exact",
            "--nocapture",
        ])
        .env("DOORBELL_SWITCHES", "idle_notify=loud")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(
        text.contains(
            "built: DOORBELL_SWITCHES is wrong: switch `idle_notify` has no setting `loud`"
        ),
        "{text}"
    );
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "bad_input::helper_builds_a_runtime",
            "--exact",
            "--nocapture",
        ])
        .env("DOORBELL_SWITCHES", "call_coalesce=base")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(
        text.contains("built: idle_notify=on,call_coalesce=base"),
        "{text}"
    );
}

/// Not a test of its own: `wrong_switches_in_the_environment` runs it in a child process.
#[test]
fn helper_builds_a_runtime() {
    match Builder::new().cores(1).build() {
        Ok(rt) => println!("built: {}", rt.switches()),
        Err(error) => println!("built: {error}"),
    }
}
