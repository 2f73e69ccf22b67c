//! Errors that several files have. All others are said where they happen.

use anyhow::{Error, Result, anyhow, ensure};

/// A task of a contestant panicked or was dropped.
pub(crate) const TASK_LOST: &str = "a task of the contestant ended without a result";

/// A thread panicked.
pub(crate) fn panicked(thread: &str) -> Error {
    anyhow!("the thread `{thread}` panicked")
}

/// An error if the counts differ.
pub(crate) fn check_count(what: &str, expected: u64, found: u64) -> Result<()> {
    ensure!(
        expected == found,
        "{expected} {what} were due, but there were {found}"
    );
    Ok(())
}

/// There is no such thing among these.
pub(crate) fn unknown<K: ToString>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = K>,
) -> Error {
    let known = known.into_iter().map(|name| name.to_string());
    let known = known.collect::<Vec<_>>().join("\n  ");
    anyhow!("no {what} contains `{name}`; there are:\n  {known}")
}

/// The process may use fewer CPUs than it takes.
pub(crate) fn too_few_cpus(needed: usize, allowed: &[usize]) -> Error {
    let count = allowed.len();
    anyhow!(
        "this scenario needs {needed} CPUs, but this process may run on {count} only ({allowed:?}). Give it more: \
         `taskset -c 0,1 doorbell ...`, a wider cgroup cpuset, or a machine with more CPUs"
    )
}
