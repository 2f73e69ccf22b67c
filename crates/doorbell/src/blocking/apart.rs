//! Blocking closures on a machine whose threads must not wait in the OS, as those of the pool do for the next closure:
//! each closure has a thread of its own.

use super::pool::Pool;
use crate::ambient;
use crate::handle::Handle;
use async_lock::Mutex;
use async_task::Runnable;
use doorbell_machine::{Counter, Machine, ThreadError, ThreadHandle, ThreadSpec};

/// The threads that were started and have not been joined.
pub(super) struct Apart<M: Machine>(Mutex<Vec<M::Thread>>);

impl<M: Machine> Default for Apart<M> {
    fn default() -> Self {
        Apart(Mutex::default())
    }
}

impl<M: Machine> Apart<M> {
    /// Waits until all of them have ended, and those that they have started.
    pub(super) fn join(&self) {
        loop {
            let threads = std::mem::take(&mut *self.0.lock_blocking());
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                let _ = thread.join();
            }
        }
    }
}

impl<M: Machine> Pool<M> {
    /// Starts a thread for this closure. If the pool is closed, the closure is dropped.
    pub(super) fn run_apart(&self, handle: &Handle, job: Runnable) -> Result<(), ThreadError> {
        if self.is_closed() {
            return Ok(());
        }
        let spec = ThreadSpec {
            name: self.next_name(),
            cpu: None,
            stack_size: None,
        };
        let (handle, hold) = (handle.clone(), self.hold());
        let body = move || {
            let entered = ambient::enter_blocking(handle.clone());
            let mut job = Some(job);
            handle.inner().around_blocking(&mut || {
                if let Some(job) = job.take() {
                    // The job catches the closure's panic.
                    M::user(|| job.run());
                }
            });
            drop((entered, handle, hold));
        };
        let thread = M::spawn(spec, Box::new(body))?;
        self.started.add_shared(1);
        self.apart.0.lock_blocking().push(thread);
        Ok(())
    }
}
