//! [`Helper`]: a runtime of tokio with one worker, beside a runtime of doorbell.

use doorbell::{ClassKind, EnterGuard, Handle, WeakHandle};
use std::cell::RefCell;
use std::io;
use tokio::runtime::{Builder, Runtime};

std::thread_local! {
    /// On a thread of a helper: doorbell's runtime, entered.
    static ENTERED: RefCell<Option<EnterGuard>> = const { RefCell::new(None) };
}

/// Dropping it ends the helper without waiting: it may be dropped on any thread, also on one of its own.
#[derive(Debug)]
pub(crate) struct Helper {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Helper {
    pub(crate) fn start(runtime: &Handle, class: ClassKind) -> io::Result<Self> {
        let is_urgent = class == ClassKind::Rt;
        let name = if is_urgent {
            "doorbell-tok-rt"
        } else {
            "doorbell-tokio"
        };
        // Weak: tokio's threads may outlive the runtime, inside closures that block.
        let weak = runtime.downgrade();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .thread_name(name)
            .on_thread_start(move || enter(&weak, class))
            .on_thread_stop(|| drop(ENTERED.take()))
            .build()?;
        Ok(Helper {
            runtime: Some(runtime),
        })
    }

    pub(crate) fn enter(&self) -> Option<tokio::runtime::EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }
}

/// Enters doorbell's runtime on the calling thread of a helper.
fn enter(runtime: &WeakHandle, class: ClassKind) {
    let Some(runtime) = runtime.upgrade() else {
        return;
    };
    runtime.schedule_thread_as(class);
    ENTERED.set(Some(runtime.enter()));
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
