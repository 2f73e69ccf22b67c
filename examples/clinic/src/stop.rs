//! SIGTERM and SIGINT.

use futures_channel::oneshot;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::thread::JoinHandle;

/// Waits for signals until it is dropped, in a thread of its own.
#[derive(Debug)]
pub(crate) struct Watch {
    signals: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.signals.close();
        if let Some(thread) = self.thread.take() {
            // It panics nowhere, and there is nothing else to be done about it.
            let _ = thread.join();
        }
    }
}

/// A watch, and what is ready at the first signal. The second one ends the process as if nobody watched.
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
                // Nobody hears it where the server has ended by itself.
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
        // Without a sender nobody asks any more, and all that is left is to end.
        let _ = stopped.await;
    }))
}
