//! Tasks that keep the workers busy while others are spawned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::oneshot;

use super::countdown::Countdown;
use super::peers::{Peer, WORKERS};
use crate::error::LabError;

/// How long each of their polls takes.
const STALL: Duration = Duration::from_micros(10);
/// Two for each worker, so that each worker always has another one to run.
const TASKS: u32 = 2 * WORKERS as u32;

/// What a busy task does after its stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Yields and stalls again.
    Yields,
    /// Spawns a task like itself and ends.
    Respawns,
}

/// The busy tasks.
#[derive(Debug)]
pub(super) struct Busy {
    stop: Arc<AtomicBool>,
    ended: oneshot::Receiver<()>,
}

impl Busy {
    /// Spawns them.
    pub(super) fn begin<P: Peer>(peer: &P, work: Work) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (countdown, ended) = Countdown::of(TASKS);
        for _ in 0..TASKS {
            let (stop, countdown) = (Arc::clone(&stop), Arc::clone(&countdown));
            drop(match work {
                Work::Yields => peer.spawn_remote(yielding::<P>(stop, countdown)),
                Work::Respawns => peer.spawn_remote(respawning::<P>(stop, countdown)),
            });
        }
        Self { stop, ended }
    }

    /// Ends all of them.
    ///
    /// # Errors
    /// [`LabError::TaskLost`] if one of them is gone.
    pub(super) fn end<P: Peer>(self, peer: &P) -> Result<(), LabError> {
        // ORDER: Relaxed; a flag that publishes nothing.
        self.stop.store(true, Ordering::Relaxed);
        peer.block_on(self.ended).map_err(|_| LabError::TaskLost)
    }
}

/// Runs for a while, and keeps yielding the CPU: on a small machine with no more CPUs than workers, the
/// spawning thread may need it.
fn stall() {
    let begin = Instant::now();
    while begin.elapsed() < STALL {
        thread::yield_now();
    }
}

fn stopped(stop: &AtomicBool) -> bool {
    // ORDER: Relaxed; a flag that publishes nothing.
    stop.load(Ordering::Relaxed)
}

async fn yielding<P: Peer>(stop: Arc<AtomicBool>, countdown: Arc<Countdown>) {
    while !stopped(&stop) {
        stall();
        P::yield_now().await;
    }
    countdown.one_ended();
}

#[expect(
    clippy::manual_async_fn,
    reason = "an async fn cannot say that it is Send"
)]
fn respawning<P: Peer>(
    stop: Arc<AtomicBool>,
    countdown: Arc<Countdown>,
) -> impl Future<Output = ()> + Send {
    async move {
        if stopped(&stop) {
            countdown.one_ended();
        } else {
            stall();
            P::spawn(respawning::<P>(stop, countdown));
        }
    }
}
