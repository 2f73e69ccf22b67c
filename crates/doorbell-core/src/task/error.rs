//! Why a task has no output.

use std::any::Any;
use std::fmt;

/// A task or call that ended without an output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// It was aborted, or its runtime went away first.
    #[error("the task was cancelled: it was aborted, or its runtime went away before it ended")]
    Cancelled,
    /// It panicked.
    #[error("the task panicked: {0}")]
    Panicked(Payload),
}

impl JoinError {
    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, JoinError::Panicked(_))
    }

    /// Whether the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, JoinError::Cancelled)
    }

    /// The panic's payload, to be passed to [`std::panic::resume_unwind`]; the error itself
    /// where there was no panic.
    ///
    /// # Errors
    /// `self`, if the task did not panic.
    #[doc(alias = "into_panic")]
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self {
            JoinError::Panicked(payload) => Ok(payload.0),
            JoinError::Cancelled => Err(self),
        }
    }
}

impl From<JoinError> for std::io::Error {
    fn from(error: JoinError) -> Self {
        std::io::Error::other(error)
    }
}

/// What a panic carried.
pub struct Payload(Box<dyn Any + Send + 'static>);

// SAFETY: a shared payload gives out nothing but its message, and that only for the two types
// that are Sync: `&'static str` and `String`. The box itself leaves only by value.
unsafe impl Sync for Payload {}

impl Payload {
    /// Wraps what `catch_unwind` returned.
    pub fn new(payload: Box<dyn Any + Send + 'static>) -> Self {
        Payload(payload)
    }

    /// The message, where the panic had one.
    pub fn message(&self) -> Option<&str> {
        let any = &*self.0;
        any.downcast_ref::<&'static str>()
            .copied()
            .or_else(|| any.downcast_ref::<String>().map(String::as_str))
    }

    /// The payload itself.
    pub fn into_inner(self) -> Box<dyn Any + Send + 'static> {
        self.0
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Payload").field(&self.message()).finish()
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().unwrap_or("(a payload that is no text)"))
    }
}
