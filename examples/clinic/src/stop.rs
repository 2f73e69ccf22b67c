//! SIGTERM and SIGINT.

use doorbell::signal::{Signal, SignalKind, signal};
use doorbell::sync::CancellationToken;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

/// Hears both signals from when it is made.
#[derive(Debug)]
pub(crate) struct Signals([Signal; 2]);

impl Signals {
    /// # Errors
    /// If the OS refuses descriptors.
    pub(crate) fn listen() -> io::Result<Signals> {
        let [terminate, interrupt] = [SignalKind::terminate(), SignalKind::interrupt()];
        Ok(Signals([signal(terminate)?, signal(interrupt)?]))
    }

    /// Cancels the token at the first signal. A second one ends the process at once.
    pub(crate) async fn watch(mut self, end: CancellationToken) {
        self.next().await;
        end.cancel();
        self.next().await;
        eprintln!("clinic: ended by a second signal, with requests in flight");
        std::process::exit(1);
    }

    async fn next(&mut self) {
        poll_fn(|cx| {
            let heard = |signal: &mut Signal| matches!(signal.poll_recv(cx), Poll::Ready(Some(())));
            // The first one is polled, and so waits, also if the second one was heard.
            if self.0.iter_mut().map(heard).fold(false, |a, b| a | b) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
