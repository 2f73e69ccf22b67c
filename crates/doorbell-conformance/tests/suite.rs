//! The suite on doorbell, tokio and smol's executor.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell_conformance::{DroppedHandle, Ended, Runtime, Spawner, Task};
use std::time::Duration;

mod on_doorbell {
    use super::{DroppedHandle, Duration, Ended, Runtime, Spawner, Task};

    struct Doorbell(doorbell::Runtime);

    #[derive(Clone)]
    struct Handle(doorbell::Handle);

    struct Join<T>(doorbell::JoinHandle<T>);

    impl Runtime for Doorbell {
        type Spawner = Handle;
        const DROPPED_HANDLE: DroppedHandle = DroppedHandle::Detaches;

        fn start() -> Self {
            Doorbell(doorbell::Builder::new().cores(2).build().unwrap())
        }

        fn spawner(&self) -> Self::Spawner {
            Handle(self.0.handle().clone())
        }

        fn block_on<F: Future>(&self, future: F) -> F::Output {
            self.0.block_on(future)
        }

        fn sleep(time: Duration) -> impl Future<Output = ()> + Send {
            doorbell::time::sleep(time)
        }
    }

    impl Spawner for Handle {
        type Task<T: Send + 'static> = Join<T>;

        fn spawn<F>(&self, future: F) -> Self::Task<F::Output>
        where
            F: Future + Send + 'static,
            F::Output: Send + 'static,
        {
            Join(self.0.spawn(future))
        }
    }

    impl<T: Send + 'static> Task<T> for Join<T> {
        fn abort(&mut self) {
            self.0.abort();
        }

        async fn join(self) -> Ended<T> {
            match self.0.await {
                Ok(output) => Ended::Done(output),
                Err(doorbell::JoinError::Panicked(_)) => Ended::Panicked,
                Err(_) => Ended::Cancelled,
            }
        }
    }

    doorbell_conformance::suite!(Doorbell);
}

mod on_tokio {
    use super::{DroppedHandle, Duration, Ended, Runtime, Spawner, Task};

    struct Tokio(tokio::runtime::Runtime);

    #[derive(Clone)]
    struct Handle(tokio::runtime::Handle);

    struct Join<T>(tokio::task::JoinHandle<T>);

    impl Runtime for Tokio {
        type Spawner = Handle;
        const DROPPED_HANDLE: DroppedHandle = DroppedHandle::Detaches;

        fn start() -> Self {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            Tokio(builder.worker_threads(2).enable_all().build().unwrap())
        }

        fn spawner(&self) -> Self::Spawner {
            Handle(self.0.handle().clone())
        }

        fn block_on<F: Future>(&self, future: F) -> F::Output {
            self.0.block_on(future)
        }

        fn sleep(time: Duration) -> impl Future<Output = ()> + Send {
            tokio::time::sleep(time)
        }
    }

    impl Spawner for Handle {
        type Task<T: Send + 'static> = Join<T>;

        fn spawn<F>(&self, future: F) -> Self::Task<F::Output>
        where
            F: Future + Send + 'static,
            F::Output: Send + 'static,
        {
            Join(self.0.spawn(future))
        }
    }

    impl<T: Send + 'static> Task<T> for Join<T> {
        fn abort(&mut self) {
            self.0.abort();
        }

        async fn join(self) -> Ended<T> {
            match self.0.await {
                Ok(output) => Ended::Done(output),
                Err(error) if error.is_panic() => Ended::Panicked,
                Err(_) => Ended::Cancelled,
            }
        }
    }

    doorbell_conformance::suite!(Tokio);
}

/// As the crate smol has it: threads that run one executor, and timers of async-io.
mod on_smol {
    use super::{DroppedHandle, Duration, Ended, Runtime, Spawner, Task};
    use async_executor::Executor;
    use futures_util::FutureExt;
    use std::panic::AssertUnwindSafe;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread::JoinHandle;

    struct Smol {
        executor: Arc<Executor<'static>>,
        stop: Arc<AtomicBool>,
        threads: Vec<JoinHandle<()>>,
    }

    fn run(executor: &Executor<'static>, stop: &AtomicBool) {
        async_io::block_on(async {
            while !stop.load(SeqCst) {
                executor.tick().await;
            }
        });
    }

    impl Runtime for Smol {
        type Spawner = SmolSpawner;
        const DROPPED_HANDLE: DroppedHandle = DroppedHandle::Cancels;

        fn start() -> Self {
            let (executor, stop) = (Arc::new(Executor::new()), Arc::new(AtomicBool::new(false)));
            let threads = (0..2).map(|_| {
                let (executor, stop) = (Arc::clone(&executor), Arc::clone(&stop));
                std::thread::spawn(move || run(&executor, &stop))
            });
            Smol {
                threads: threads.collect(),
                executor,
                stop,
            }
        }

        fn spawner(&self) -> Self::Spawner {
            SmolSpawner(Arc::clone(&self.executor))
        }

        fn block_on<F: Future>(&self, future: F) -> F::Output {
            async_io::block_on(future)
        }

        fn sleep(time: Duration) -> impl Future<Output = ()> + Send {
            async_io::Timer::after(time).map(drop)
        }
    }

    impl Drop for Smol {
        fn drop(&mut self) {
            self.stop.store(true, SeqCst);
            while self.threads.iter().any(|thread| !thread.is_finished()) {
                // Each thread looks at the flag behind a task.
                Executor::spawn(&self.executor, async {}).detach();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[derive(Clone)]
    struct SmolSpawner(Arc<Executor<'static>>);

    enum SmolTask<T> {
        Running(async_executor::Task<T>),
        Cancelling(std::pin::Pin<Box<dyn Future<Output = Option<T>> + Send>>),
        Moving,
    }

    impl Spawner for SmolSpawner {
        type Task<T: Send + 'static> = SmolTask<T>;

        fn spawn<F>(&self, future: F) -> Self::Task<F::Output>
        where
            F: Future + Send + 'static,
            F::Output: Send + 'static,
        {
            SmolTask::Running(self.0.spawn(future))
        }
    }

    impl<T: Send + 'static> Task<T> for SmolTask<T> {
        fn abort(&mut self) {
            if let SmolTask::Running(task) = std::mem::replace(self, SmolTask::Moving) {
                *self = SmolTask::Cancelling(Box::pin(task.cancel()));
            }
        }

        async fn join(self) -> Ended<T> {
            match self {
                SmolTask::Running(task) => match AssertUnwindSafe(task).catch_unwind().await {
                    Ok(output) => Ended::Done(output),
                    Err(_) => Ended::Panicked,
                },
                SmolTask::Cancelling(cancelled) => {
                    cancelled.await.map_or(Ended::Cancelled, Ended::Done)
                }
                SmolTask::Moving => unreachable!("it is aborted once"),
            }
        }
    }

    doorbell_conformance::suite!(Smol);
}
