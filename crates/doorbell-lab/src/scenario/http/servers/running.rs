//! A running server, and how it ends.

use std::fmt;
use std::time::Duration;

use futures::channel::oneshot::{Receiver, Sender, channel};

/// How long requests in flight may take to end. A process of this program may take little more.
pub(super) const DRAIN: Duration = Duration::from_secs(4);

/// Ready when the server must end: its sender is dropped then.
pub(super) type Stopped = Receiver<()>;

/// A server that runs while this lives. Its drop tells the server to end and waits until it has: requests
/// in flight are answered, idle connections are closed.
#[derive(Default)]
pub(in super::super) struct Running {
    stops: Vec<Sender<()>>,
    end: Option<Box<dyn FnOnce()>>,
}

impl Running {
    /// The signal for one more listener of this server.
    pub(super) fn stopped(&mut self) -> Stopped {
        let (stop, stopped) = channel();
        self.stops.push(stop);
        stopped
    }

    /// Sets `end`, which waits until the server has ended.
    pub(super) fn ends_by(mut self, end: impl FnOnce() + 'static) -> Self {
        self.end = Some(Box::new(end));
        self
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stops.clear();
        if let Some(end) = self.end.take() {
            end();
        }
    }
}
