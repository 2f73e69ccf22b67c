//! [`Builder::stack_size`]: the stack size of the runtime's threads.

use crate::builder::{BuildError, Builder};

/// The smallest stack that is enough for a worker, also in builds without optimization.
const BYTES_MIN: usize = 64 * 1_024;

/// The largest size that the standard library can round up to whole pages.
const BYTES_MAX: usize = isize::MAX as usize;

pub(crate) fn check(bytes: Option<usize>) -> Result<(), BuildError> {
    match bytes {
        None | Some(BYTES_MIN..=BYTES_MAX) => Ok(()),
        Some(asked) => Err(BuildError::StackSize { asked }),
    }
}

impl Builder {
    /// Sets the stack size of the runtime's threads, in bytes: of the workers, which run tasks and calls, and
    /// of the threads for [blocking closures](crate::spawn_blocking()). The OS rounds it up to whole pages.
    /// The default is that of the standard library: 2 MiB, or the value of `RUST_MIN_STACK`.
    ///
    /// A stack takes memory only as far as it is used. Large futures and closures need no larger stack,
    /// because they are boxed when they are spawned, called or posted. Deep recursion needs one, and so do
    /// large arrays in the functions that a task calls.
    ///
    /// Outputs are not boxed, and are moved several times. In a build without optimization, an output of 96
    /// KiB from a blocking closure overflows a stack of 2 MiB, and so does one of 160 KiB from a task or a
    /// call. An alignment counts as a size: an output aligned to 64 KiB overflows that stack also with
    /// optimization. Return a [`Box`] instead.
    ///
    /// [`Builder::build`] returns [`BuildError::StackSize`] for a size below 64 KiB, and
    /// [`BuildError::Thread`] if the OS has no room for the stack.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).stack_size(8 * 1_024 * 1_024).build()?;
    /// assert!(doorbell::Builder::new().stack_size(1_000).build().is_err());
    /// # drop(runtime);
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    #[doc(alias = "thread_stack_size")]
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }
}
