//! Errors that few programs name. Those that programs match are at the root: [`BuildError`](crate::BuildError),
//! [`CallError`](crate::CallError), [`JoinError`](crate::JoinError), [`SpawnError`](crate::SpawnError).

pub use crate::blocking::SpawnBlockingError;
pub use crate::class::ClassError;
pub use crate::core_state::CoreError;
pub use crate::group::WeightError;
pub use crate::handle::{BlockOnError, NoRuntime};
pub use crate::local_tasks::NotAWorker;
pub use crate::runtime::ShutdownTimeout;
pub use crate::task_local::TaskLocalError;
pub use crate::worker_local::WorkerLocalError;
pub use doorbell_core::task::Payload;
pub use doorbell_machine::ThreadError;
