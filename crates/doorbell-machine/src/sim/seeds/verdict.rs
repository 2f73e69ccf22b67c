//! [`Verdict`]: what a program may return.

use std::fmt::Debug;

/// What the program of a simulation may return: nothing, or a `Result`, whose error fails the run.
pub trait Verdict {
    /// Why the program has failed; `None` if it has not.
    fn failure(self) -> Option<String>;
}

impl Verdict for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<T, E: Debug> Verdict for Result<T, E> {
    fn failure(self) -> Option<String> {
        let error = self.err()?;
        Some(format!("it returned an error: {error:?}"))
    }
}
