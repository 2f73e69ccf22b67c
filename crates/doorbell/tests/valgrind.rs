//! A program runs under valgrind, which removes the vDSO from the process.
//!
//! The test starts itself again as a child process.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::Builder;
use doorbell::time::{Duration, sleep};
use std::process::Command;

/// Set in the child process.
const CHILD: &str = "DOORBELL_TEST_VALGRIND";

#[test]
fn a_program_runs_under_valgrind() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Builder::new().cores(1).build().unwrap();
        let task = runtime.spawn(async {
            sleep(Duration::from_millis(1)).await;
            doorbell::call_on(0, || 42).await.unwrap()
        });
        assert_eq!(runtime.block_on(task).unwrap(), 42);
        return;
    }
    let is_there = Command::new("valgrind").arg("--version").output();
    if cfg!(doorbell_tsan) || !is_there.is_ok_and(|said| said.status.success()) {
        eprintln!("not tested here: valgrind is not installed, or the sanitizer is built in");
        return;
    }
    let mut child = Command::new("valgrind");
    child
        .arg("--tool=none")
        .arg(std::env::current_exe().unwrap());
    child.args(["--exact", "a_program_runs_under_valgrind"]);
    let ended = child.env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
}
