//! Signals of the OS, for tasks.
//!
//! ```no_run
//! # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
//! use doorbell::signal::{SignalKind, ctrl_c, signal};
//!
//! let mut terminate = signal(SignalKind::terminate())?;
//! tokio::select! {
//!     pressed = ctrl_c() => pressed?,
//!     _ = terminate.recv() => {}
//! }
//! println!("the end");
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```
//!
//! All listeners of a signal hear it, those of other runtimes and of other crates too. The first listener for a
//! signal replaces what the OS does by default, for the rest of the process. After that a SIGTERM does not end
//! the process by itself, even when all listeners have been dropped. A process whose end may take long should
//! therefore listen for a second signal too, and exit.
//!
//! A child process that `fork` makes shares the sockets of its parent's listeners. Until it starts another program, the
//! parent's listeners hear the signals that the child gets.

use crate::net::UnixStream;
use signal_hook::SigId;
use signal_hook::consts::signal as number;
use signal_hook::low_level::{pipe, unregister};
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

/// The signal cannot be awaited. SIGKILL and SIGSTOP cannot be caught. A program that caught SIGBUS, SIGFPE,
/// SIGILL or SIGSEGV could not go on. [`signal`] returns this as the inner error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("signal {} cannot be awaited: {}; choose another one, such as SIGTERM or SIGUSR1", .0.as_raw_value(), why(*.0))]
pub struct UncatchableSignal(pub SignalKind);

fn why(kind: SignalKind) -> &'static str {
    match kind.0 {
        number::SIGKILL | number::SIGSTOP => "the OS gives it to no program",
        _ => "a fault raises it, and would raise it again for ever",
    }
}

/// Which signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(i32);

impl SignalKind {
    /// The signal of that number, such as `libc::SIGTERM`.
    pub const fn from_raw(number: i32) -> SignalKind {
        SignalKind(number)
    }

    /// The number of the signal.
    pub const fn as_raw_value(self) -> i32 {
        self.0
    }

    /// SIGALRM: a timer of the OS has fired.
    pub const fn alarm() -> SignalKind {
        SignalKind(number::SIGALRM)
    }

    /// SIGCHLD: a child process has ended, stopped or gone on.
    pub const fn child() -> SignalKind {
        SignalKind(number::SIGCHLD)
    }

    /// SIGHUP: the terminal has gone; many programs then read their settings again.
    pub const fn hangup() -> SignalKind {
        SignalKind(number::SIGHUP)
    }

    /// SIGINT: ctrl-c at the terminal.
    pub const fn interrupt() -> SignalKind {
        SignalKind(number::SIGINT)
    }

    /// SIGIO: a descriptor is ready.
    pub const fn io() -> SignalKind {
        SignalKind(number::SIGIO)
    }

    /// SIGPIPE: a write to a pipe whose other end has gone.
    pub const fn pipe() -> SignalKind {
        SignalKind(number::SIGPIPE)
    }

    /// SIGQUIT: ctrl-\ at the terminal.
    pub const fn quit() -> SignalKind {
        SignalKind(number::SIGQUIT)
    }

    /// SIGTERM: the process is asked to end.
    pub const fn terminate() -> SignalKind {
        SignalKind(number::SIGTERM)
    }

    /// SIGUSR1.
    pub const fn user_defined1() -> SignalKind {
        SignalKind(number::SIGUSR1)
    }

    /// SIGUSR2.
    pub const fn user_defined2() -> SignalKind {
        SignalKind(number::SIGUSR2)
    }

    /// SIGWINCH: the terminal's window has another size.
    pub const fn window_change() -> SignalKind {
        SignalKind(number::SIGWINCH)
    }
}

impl From<i32> for SignalKind {
    fn from(number: i32) -> SignalKind {
        SignalKind(number)
    }
}

impl From<SignalKind> for i32 {
    fn from(kind: SignalKind) -> i32 {
        kind.0
    }
}

/// Listens for a signal of the OS from now on, until it is dropped. It holds two descriptors.
///
/// Signals that come before the listener is awaited count as one. The handler of the OS's signal writes to a
/// socket, which belongs to the runtime that first waits for the listener, as for other sockets.
#[derive(Debug)]
pub struct Signal {
    handler: SigId,
    // Dropped after the handler's end of the pair, so that the handler does not write to a closed socket.
    heard: UnixStream,
}

/// Begins to listen for a signal; for an example see [the module](self).
///
/// # Errors
/// Of kind [`InvalidInput`](io::ErrorKind::InvalidInput), with an [`UncatchableSignal`] inside, if the signal
/// cannot be awaited. The OS's error if there is no signal of that number, or the process has no descriptor left.
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    if signal_hook::consts::FORBIDDEN.contains(&kind.0) || kind.0 == number::SIGBUS {
        let error = UncatchableSignal(kind);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    let (heard, tell) = UnixStream::pair()?;
    let handler = pipe::register(kind.0, OwnedFd::from(tell.into_std()))?;
    Ok(Signal { handler, heard })
}

impl Signal {
    /// Waits for the signal. `None` if it cannot wait: the thread has no runtime, the runtime has ended, or other code
    /// has removed all handlers of the signal (`unregister_signal` of the crate `signal-hook-registry`).
    ///
    /// If the future is dropped before it is ready, no signal is lost.
    pub async fn recv(&mut self) -> Option<()> {
        self.wait().await.ok()
    }

    /// As [`Signal::recv`], for code that polls. Of several tasks that poll this, only the last one is woken.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        self.poll_wait(cx).map(Result::ok)
    }

    async fn wait(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_wait(cx)).await
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // One byte for each signal.
        let mut bytes = [0; 64];
        let mut read = ready!(self.heard.poll_read(cx, &mut bytes))?;
        if read == 0 {
            let error = "other code has removed the handlers of the signal; listen anew";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, error)));
        }
        while read == bytes.len() {
            read = self.heard.try_read(&mut bytes).unwrap_or(0);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        unregister(self.handler);
    }
}

/// Waits for SIGINT, which ctrl-c at the terminal sends. It listens from its first poll on.
///
/// # Errors
/// As for [`signal`]. An error if the thread has no runtime. Of kind
/// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if other code removes all handlers of the signal.
///
/// ```no_run
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// doorbell::signal::ctrl_c().await?;
/// println!("good bye");
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub async fn ctrl_c() -> io::Result<()> {
    signal(SignalKind::interrupt())?.wait().await
}
