//! [`Builder::stack_size`]: how much stack the threads of a runtime have.

use crate::builder::{BuildError, Builder};

/// The smallest stack on which workers run, also in builds without optimization.
const BYTES_MIN: usize = 64 * 1_024;

/// What the standard library can round up to whole pages.
const BYTES_MAX: usize = isize::MAX as usize;

pub(crate) fn check(bytes: Option<usize>) -> Result<(), BuildError> {
    match bytes {
        None | Some(BYTES_MIN..=BYTES_MAX) => Ok(()),
        Some(asked) => Err(BuildError::StackSize { asked }),
    }
}

impl Builder {
    /// How many bytes of stack the threads of the runtime have: the workers, on which tasks and calls run, and
    /// the threads for [closures that block](crate::spawn_blocking()). The OS rounds it up to whole pages.
    /// Unless told, it is that of the standard library's threads: 2 MiB, or what `RUST_MIN_STACK` says.
    ///
    /// Memory is taken only as far as a stack is used. Large futures and closures need no larger stack: they
    /// are boxed when they are spawned, called or posted. What needs one is deep recursion, and large arrays in
    /// the functions that a task calls.
    ///
    /// Outputs are not boxed, and each is moved several times. In a build without optimization an output of
    /// 96 KiB from a closure that blocks overflows a stack of 2 MiB, and so does one of 160 KiB from a task or a
    /// call. An alignment counts as a size: an output that is aligned to 64 KiB overflows it also with optimization.
    /// Return a [`Box`] instead.
    ///
    /// A size below 64 KiB is [`BuildError::StackSize`]; one for which the OS has no room is
    /// [`BuildError::Thread`].
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).stack_size(8 * 1_024 * 1_024).build()?;
    /// assert!(doorbell::Builder::new().stack_size(1_000).build().is_err());
    /// # drop(runtime);
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }
}
