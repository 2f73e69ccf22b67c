//! The errors of the lab, each with what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a measurement could not be made or cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LabError {
    /// A doorbell runtime could not be built.
    #[error(transparent)]
    Build(#[from] doorbell::BuildError),
    /// The process may use fewer CPUs than the scenario needs.
    #[error(
        "this scenario needs {needed} CPUs, but this process may run on {} only ({allowed:?}). \
         Give it more: `taskset -c 0,1 doorbell ...`, a wider cgroup cpuset, or a machine with \
         more CPUs",
        allowed.len()
    )]
    TooFewCpus {
        /// How many CPUs the scenario needs.
        needed: usize,
        /// The CPUs in the affinity mask.
        allowed: Vec<usize>,
    },

    /// A file that the lab reads or writes could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// "read" or "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A call to the operating system failed.
    #[error("{what} failed: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// A contestant dropped a call.
    #[error("a call was never answered: {reason}")]
    CallLost {
        /// Why there is no answer.
        reason: &'static str,
    },

    /// Timers fired a different number of times than they should.
    #[error("{expected} {what} were due, but there were {found}")]
    Miscounted {
        /// What was counted.
        what: &'static str,
        /// The expected number.
        expected: u64,
        /// The number found.
        found: u64,
    },

    /// A task of a contestant panicked or was dropped.
    #[error("a task of the contestant ended without a result")]
    TaskLost,

    /// A thread of a contestant panicked.
    #[error("the thread `{thread}` panicked")]
    ThreadPanicked {
        /// Its name.
        thread: String,
    },

    /// An error, and the contestant in which it happened.
    #[error("{contestant} ({variant}): {source}")]
    InContestant {
        /// Its name.
        contestant: String,
        /// Its variant.
        variant: String,
        /// The error.
        source: Box<LabError>,
    },

    /// There is nothing with a name that was given.
    #[error("no {what} contains `{name}`; there are:\n  {}", known.join("\n  "))]
    Unknown {
        /// A contestant, a scenario, a shape or a mutant.
        what: &'static str,
        /// The name, or a part of it.
        name: String,
        /// All names.
        known: Vec<String>,
    },

    /// A program on a simulated machine has no figures.
    #[error(transparent)]
    Bench(#[from] doorbell_sim::bench::BenchError),

    /// A run on a simulated machine failed.
    #[error("seed {seed}: {what}\nthis repeats it: {replay}")]
    Found {
        /// The seed.
        seed: u64,
        /// The failure.
        what: String,
        /// The command that repeats it.
        replay: String,
    },

    /// A machine could not be simulated.
    #[error(transparent)]
    Simulation(#[from] doorbell_machine::sim::RunError),

    /// Something that cannot be done, or did not end well; the text says what, and what to do about it.
    #[error("{0}")]
    Said(String),

    /// The client `wrk` is not installed.
    #[error("`wrk`, which sends requests to the servers, is not installed: `apt-get install wrk`")]
    NoWrk,

    /// A profile of the simulator could not be loaded.
    #[error(transparent)]
    Profile(#[from] doorbell_sim::profile::ProfileError),

    /// The report could not be turned into JSON.
    #[error("cannot write the report as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl LabError {
    /// The system refused something.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> Self + Copy {
        move |source| Self::System {
            what,
            source: source.into(),
        }
    }

    /// A thread panicked.
    pub(crate) fn panicked(thread: impl Into<String>) -> Self {
        let thread = thread.into();
        Self::ThreadPanicked { thread }
    }

    /// A file or folder could not be read.
    pub(crate) fn reading(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            action: "read",
            path,
            source,
        }
    }

    /// An error if the counts differ.
    pub(crate) fn check_count(what: &'static str, expected: u64, found: u64) -> Result<(), Self> {
        if expected == found {
            return Ok(());
        }
        Err(Self::Miscounted {
            what,
            expected,
            found,
        })
    }

    /// There is no such thing among these.
    pub(crate) fn unknown<K: ToString>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = K>,
    ) -> Self {
        Self::Unknown {
            what,
            name: name.to_owned(),
            known: known.into_iter().map(|name| name.to_string()).collect(),
        }
    }

    /// Names the contestant in which this error happened.
    #[must_use]
    pub(crate) fn in_contestant(self, contestant: &str, variant: &str) -> Self {
        Self::InContestant {
            contestant: contestant.to_owned(),
            variant: variant.to_owned(),
            source: Box::new(self),
        }
    }
}

/// Turns the last error of the C library into a [`LabError::System`].
pub(crate) fn last_system_error(what: &'static str) -> LabError {
    LabError::system(what)(io::Error::last_os_error())
}
