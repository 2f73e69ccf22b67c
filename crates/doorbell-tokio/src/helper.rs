//! [`Helper`]: a runtime of tokio with one worker, beside a runtime of doorbell.

use doorbell::{ClassKind, EnterGuard, Handle, WeakHandle};
use std::cell::RefCell;
use std::io;
use std::sync::{Once, mpsc};
use tokio::runtime::{Builder, Runtime};

std::thread_local! {
    /// On a thread of a helper: doorbell's runtime, entered.
    static ENTERED: RefCell<Option<EnterGuard>> = const { RefCell::new(None) };
}

/// The name of a helper's threads for closures that block.
const BLOCKING: &str = "doorbell-tok-b";

/// Dropping it ends the helper without waiting: it may be dropped on any thread, also on one of its own.
#[derive(Debug)]
pub(crate) struct Helper {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Helper {
    pub(crate) fn start(runtime: &Handle, class: ClassKind) -> io::Result<Self> {
        let worker = if class == ClassKind::Rt {
            "doorbell-tok-rt"
        } else {
            "doorbell-tokio"
        };
        // Tokio asks for a name for each of its threads: for that of the worker first, as it builds.
        let first = Once::new();
        let name = move || {
            let mut name = BLOCKING;
            first.call_once(|| name = worker);
            name.to_owned()
        };
        // Weak: tokio's threads may outlive the runtime, inside closures that block.
        let weak = runtime.downgrade();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .thread_name_fn(name)
            .on_thread_start(move || enter(&weak, class))
            .on_thread_stop(|| drop(ENTERED.take()))
            .build()?;
        // The worker runs on the first thread that takes work. So no thread for closures is started before it has begun.
        let (begins, has_begun) = mpsc::channel();
        drop(runtime.spawn(async move { begins.send(()) }));
        let _ = has_begun.recv();
        Ok(Helper {
            runtime: Some(runtime),
        })
    }

    pub(crate) fn enter(&self) -> Option<tokio::runtime::EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }
}

/// Enters doorbell's runtime on the calling thread of a helper. Of its threads only the worker is as those of the
/// class: it is one, while there may be hundreds for closures that block.
fn enter(runtime: &WeakHandle, class: ClassKind) {
    let Some(runtime) = runtime.upgrade() else {
        return;
    };
    let is_blocking = std::thread::current().name() == Some(BLOCKING);
    runtime.schedule_thread_as(if is_blocking { ClassKind::Fair } else { class });
    ENTERED.set(Some(runtime.enter()));
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
