//! Connections that tasks borrow.

use doorbell::time::{Duration, sleep};
use std::collections::VecDeque;
use std::sync::Mutex as StdMutex;
use std::task::Poll;
use tokio::sync::Mutex;
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// A number of connections, and the tasks that wait for one.
#[derive(Debug)]
pub(crate) struct Pool {
    free: StdMutex<usize>,
    waiting: StdMutex<VecDeque<Sender<()>>>,
    /// Guards the list where the fault is planted: the task waits for it between its look and its entry.
    gate: Mutex<()>,
    enters_late: bool,
}

impl Pool {
    pub(crate) fn new(connections: usize, enters_late: bool) -> Self {
        Pool {
            free: StdMutex::new(connections),
            waiting: StdMutex::default(),
            gate: Mutex::default(),
            enters_late,
        }
    }

    /// Runs `work` with a connection.
    pub(crate) async fn with_connection<R, F: Future<Output = R>>(
        &self,
        work: impl FnOnce() -> F,
    ) -> R {
        while let Some(came) = self.take_or_wait().await {
            let _ = came.await;
        }
        let result = work().await;
        self.give_back();
        result
    }

    /// Takes a connection, or enters the list of those that wait for one.
    async fn take_or_wait(&self) -> Option<Receiver<()>> {
        if self.enters_late {
            if self.take() {
                return None;
            }
            let _gate = self.gate.lock().await;
            sleep(Duration::from_micros(30)).await;
            // A connection may have come back since the look.
            return Some(self.enter());
        }
        std::future::poll_fn(|_| Poll::Ready((!self.take()).then(|| self.enter()))).await
    }

    fn take(&self) -> bool {
        let mut free = self.free.lock().expect("no panic");
        let is_free = *free > 0;
        *free -= usize::from(is_free);
        is_free
    }

    fn enter(&self) -> Receiver<()> {
        let (told, came) = channel();
        self.waiting.lock().expect("no panic").push_back(told);
        came
    }

    fn give_back(&self) {
        *self.free.lock().expect("no panic") += 1;
        let first = self.waiting.lock().expect("no panic").pop_front();
        if let Some(told) = first {
            let _ = told.send(());
        }
    }
}
