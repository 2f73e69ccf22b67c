//! A server that runs, and how it ends.

use std::fmt;
use std::time::Duration;

use futures::channel::oneshot::{Receiver, Sender, channel};

/// Requests in flight have so long to end; a process of this program may take little more.
pub(super) const DRAIN: Duration = Duration::from_secs(4);

/// Ready when the server is to end: its sender is dropped then.
pub(super) type Stopped = Receiver<()>;

/// A server that runs as long as this lives. Dropped, this tells the server to end and waits until
/// it has: requests in flight are answered, idle connections are closed.
#[derive(Default)]
pub(in super::super) struct Running {
    stops: Vec<Sender<()>>,
    end: Option<Box<dyn FnOnce()>>,
}

impl Running {
    /// What another listener of this server waits for.
    pub(super) fn stopped(&mut self) -> Stopped {
        let (stop, stopped) = channel();
        self.stops.push(stop);
        stopped
    }

    /// `end` waits until the server has ended.
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
