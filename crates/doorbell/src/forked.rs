//! A runtime in a child process that fork(2) has made. Its threads are not there, and its descriptors are those of
//! the parent. So it shows as a runtime that has ended.

use crate::blocking::{BlockingPlan, Pool};
use crate::rt::Rt;
use async_lock::OnceCell;
use doorbell_core::scheduler::Scheduler;
use doorbell_core::worker::{IdlePolicy, WorkerConfig, WorkerShared};
use doorbell_machine::Machine;
use std::sync::Arc;

/// Whether the process is another one than that which made the runtime.
#[derive(Debug)]
pub(crate) struct Forked<M: Machine> {
    /// The process that made the runtime.
    process: u32,
    ended: OnceCell<Ended<M>>,
}

/// What takes the place of workers and threads for blocking closures. All of them have ended.
#[derive(Debug)]
pub(crate) struct Ended<M: Machine> {
    pub(crate) workers: Box<[Arc<WorkerShared<M>>]>,
    pub(crate) blocking: Arc<Pool<M>>,
}

impl<M: Machine> Forked<M> {
    /// For a runtime that this process makes.
    pub(crate) fn here() -> Self {
        Forked {
            process: M::process(),
            ended: OnceCell::new(),
        }
    }

    /// Whether another process made the runtime.
    #[inline]
    pub(crate) fn is_child(&self) -> bool {
        self.process != M::process()
    }
}

impl<M: Machine> Rt<M> {
    /// What the runtime has in a child process; `None` in the process that made it.
    #[inline]
    pub(crate) fn in_child(&self) -> Option<&Ended<M>> {
        if self.forked.is_child() {
            return Some(self.end_in_child());
        }
        None
    }

    #[cold]
    fn end_in_child(&self) -> &Ended<M> {
        self.forked.ended.get_or_init_blocking(|| {
            let config = WorkerConfig {
                idle: IdlePolicy::Park,
            };
            let remotes = Scheduler::new(self.workers.len(), &self.switches, |_, _| 0);
            let worker =
                |remote| Arc::new(WorkerShared::with(config, remote, Arc::clone(&self.clock)));
            let workers: Box<[_]> = remotes.into_iter().map(worker).collect();
            for worker in &workers {
                worker.close_unbegun();
            }
            let (blocking, open) = Pool::new(BlockingPlan::default(), &self.name, &self.clock);
            blocking.close(open);
            Ended { workers, blocking }
        })
    }
}
