//! Types of what belongs to one task or one worker: see [`task_local!`](crate::task_local),
//! [`worker_local!`](crate::worker_local) and [`spawn_local`](crate::spawn_local()).

pub use crate::local_tasks::LocalJoinHandle;
pub use crate::task_local::{TaskLocal, TaskLocalFuture};
pub use crate::worker_local::WorkerLocal;
