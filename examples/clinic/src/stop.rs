//! SIGTERM and SIGINT.

use futures_channel::oneshot;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::thread::JoinHandle;

/// Waits for signals in a thread of its own until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    signals: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.signals.close();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic.
            let _ = thread.join();
        }
    }
}

/// A watch, and a future that is ready at the first signal. A second signal ends the process as by default.
///
/// # Errors
/// If the OS refuses the signals or the thread.
pub(crate) fn watch() -> io::Result<(Watch, impl Future<Output = ()> + Send + use<>)> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let handle = signals.handle();
    let (stop, stopped) = oneshot::channel();
    let wait = move || {
        let mut stop = Some(stop);
        for signal in signals.forever() {
            match stop.take() {
                // The receiver is gone if the server has ended by itself.
                Some(stop) => drop(stop.send(())),
                None => drop(signal_hook::low_level::emulate_default_handler(signal)),
            }
        }
    };
    let thread = std::thread::Builder::new().name("clinic-signals".to_owned());
    let watch = Watch {
        signals: handle,
        thread: Some(thread.spawn(wait)?),
    };
    Ok((watch, async {
        // Without a sender there is nothing left to wait for, so the app ends.
        let _ = stopped.await;
    }))
}
