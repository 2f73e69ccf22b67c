#![doc = include_str!("../README.md")]
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it bridges to threads of another runtime"
)]

mod helper;
mod run;

pub use run::run;

use doorbell::{Builder, ClassKind, Handle, ThreadRole};
use helper::Helper;
use std::error::Error;

/// Why a runtime with a bridge was not built: the source of [`doorbell::BuildError::Around`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The runtime has a paused clock.
    #[error(
        "tokio's timers and sockets do not follow a paused clock; build without start_paused, or without doorbell-tokio"
    )]
    PausedClock,
    /// The OS refused a thread or a descriptor of the helper.
    #[error("the helper of doorbell-tokio did not start: {0}")]
    Helper(#[from] std::io::Error),
}

/// Describes a bridge; [`Bridge::install`] adds it to a builder.
///
/// ```
/// let builder = doorbell::Builder::new().cores(1);
/// let runtime = doorbell_tokio::Bridge::new().urgent_helper(true).install(builder).build()?;
/// let task = runtime.task().class(doorbell::Class::rt(1));
/// let slept = task.spawn(async { tokio::time::sleep(std::time::Duration::from_millis(1)).await });
/// runtime.block_on(slept)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Bridge {
    urgent: bool,
}

impl Bridge {
    /// A bridge with one helper.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is a second helper, for tasks of class Rt. Its thread asks the OS for the policy that Rt workers
    /// have. What an Rt task gives to tokio, as a connection that reqwest opens for it, then waits for no work of the
    /// other helper. The helper's threads for closures that block ask for no policy; after `block_in_place` in one of its
    /// tasks, its tasks may go on on such a thread. A connection pool that tasks of several classes share has its connections where they were opened:
    /// give Rt tasks a client of their own.
    #[must_use]
    pub fn urgent_helper(mut self, is_wanted: bool) -> Self {
        self.urgent = is_wanted;
        self
    }

    /// Has each runtime that the builder builds start the helper, and enter it on its threads.
    ///
    /// A runtime with a paused clock is not built: [`InstallError::PausedClock`].
    pub fn install(self, builder: Builder) -> Builder {
        builder.around_threads(move |runtime| Ok(self.start(runtime)?))
    }

    fn start(
        self,
        runtime: &Handle,
    ) -> Result<impl Fn(&ThreadRole, &mut dyn FnMut()) + use<>, InstallError> {
        if runtime.has_paused_clock() {
            return Err(InstallError::PausedClock);
        }
        let start = |class| Helper::start(runtime, class);
        let fair = start(ClassKind::Fair)?;
        let urgent = self.urgent.then(|| start(ClassKind::Rt)).transpose()?;
        Ok(move |thread: &ThreadRole, work: &mut dyn FnMut()| {
            let is_urgent =
                matches!(thread, ThreadRole::Worker(worker) if worker.class() == ClassKind::Rt);
            let helper = urgent.as_ref().filter(|_| is_urgent).unwrap_or(&fair);
            // Left in the reverse order, as tokio wants: this stands around all that the thread does.
            let _entered = helper.enter();
            work();
        })
    }
}

/// Adds a bridge with one helper to a builder: see [`Bridge::install`].
///
/// ```
/// let runtime = doorbell_tokio::install(doorbell::Builder::new().cores(1)).build()?;
/// runtime.block_on(async { tokio::spawn(async {}).await })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn install(builder: Builder) -> Builder {
    Bridge::new().install(builder)
}

/// A builder with the defaults and a bridge, for the attributes.
///
/// ```
/// #[doorbell::main(builder = doorbell_tokio::builder, cores = 2)]
/// async fn main() {
///     tokio::time::sleep(std::time::Duration::from_millis(1)).await;
/// }
/// ```
pub fn builder() -> Builder {
    install(Builder::new())
}

/// The bridge's error, if that is why a runtime was not built.
///
/// ```
/// use doorbell_tokio::InstallError;
///
/// let error = doorbell_tokio::builder().start_paused(true).build().unwrap_err();
/// assert!(matches!(doorbell_tokio::install_error(&error), Some(InstallError::PausedClock)));
/// ```
pub fn install_error(error: &doorbell::BuildError) -> Option<&InstallError> {
    error.source()?.downcast_ref()
}
