//! The thread that starts threads for Batch workers.
//!
//! A thread begins under the policy of its starter, and a thread that begins under `SCHED_IDLE` cannot leave
//! it without a privilege. Blocking closures must not run under that policy: any thread may wait for a lock
//! that one of them holds, or for a file that it writes. So a thread that was started before any Batch worker
//! starts the pool's threads for Batch workers.

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use doorbell_machine::{Machine, ThreadError, ThreadSpec};
use std::convert::Infallible;

type Body = Box<dyn FnOnce() + Send + 'static>;

/// A thread to be started, and a channel for the result.
struct StartOrder<M: Machine> {
    spec: ThreadSpec,
    body: Body,
    done: Sender<Result<M::Thread, ThreadError>>,
}

/// Sends orders to the starter thread.
pub(super) struct Starter<M: Machine>(Sender<StartOrder<M>>);

impl<M: Machine> Starter<M> {
    /// Starts the starter thread. It ends when `stop` is disconnected.
    pub(super) fn start(
        name: String,
        stop: Receiver<Infallible>,
    ) -> Result<(Self, M::Thread), ThreadError> {
        let (orders, inject) = unbounded::<StartOrder<M>>();
        let spec = ThreadSpec {
            name,
            cpu: None,
            stack_size: None,
        };
        let thread = M::spawn(spec, Box::new(move || follow::<M>(&inject, &stop)))?;
        Ok((Starter(orders), thread))
    }

    /// Has the starter thread start a thread, and waits for the result. That wait is short: the starter does
    /// nothing else, and its policy is not below that of any caller.
    ///
    /// # Errors
    /// As [`Machine::spawn`]. Also if the starter has ended, because the runtime ends.
    pub(super) fn spawn(&self, spec: ThreadSpec, body: Body) -> Result<M::Thread, ThreadError> {
        let (done, came) = bounded(1);
        let gone = ThreadError::Spawn {
            name: spec.name.clone(),
            source: std::io::ErrorKind::Interrupted.into(),
        };
        // If the starter has ended or ends now, the order is dropped, and with it `done`.
        let _ = self.0.send(StartOrder { spec, body, done });
        came.recv().unwrap_or(Err(gone))
    }
}

fn follow<M: Machine>(inject: &Receiver<StartOrder<M>>, stop: &Receiver<Infallible>) {
    loop {
        let order = select! {
            recv(inject) -> order => order.ok(),
            recv(stop) -> _ => None,
        };
        let Some(StartOrder { spec, body, done }) = order else {
            return;
        };
        // `spawn` waits for this.
        let _ = done.send(M::spawn(spec, body));
    }
}

#[cfg(test)]
mod tests {
    use super::Starter;
    use crossbeam_channel::bounded;
    use doorbell_machine::{Host, Machine, ThreadHandle, ThreadSpec};

    fn spec(name: &str) -> ThreadSpec {
        ThreadSpec {
            name: name.to_owned(),
            cpu: None,
            stack_size: None,
        }
    }

    #[test]
    fn it_starts_threads_under_its_own_policy() {
        let (open, stop) = bounded(0);
        let (starter, thread) = Starter::<Host>::start("starter".to_owned(), stop).unwrap();
        let asks = move || {
            Host::set_policy(doorbell_machine::Policy::Idle).unwrap();
            let (tell, told) = bounded(1);
            let body = Box::new(move || tell.send(Host::policy().unwrap()).unwrap());
            let child = starter.spawn(spec("child"), body).unwrap();
            assert_ne!(told.recv().unwrap(), Host::policy().unwrap());
            child.join().unwrap();
        };
        let asks = Host::spawn(spec("asks"), Box::new(asks)).unwrap();
        asks.join().unwrap();
        drop(open);
        thread.join().unwrap();
    }

    #[test]
    fn after_its_end_there_is_an_error_and_the_body_is_dropped() {
        let (open, stop) = bounded(0);
        let (starter, thread) = Starter::<Host>::start("starter".to_owned(), stop).unwrap();
        drop(open);
        thread.join().unwrap();
        let (held, dropped) = bounded::<()>(0);
        let body = Box::new(move || drop(held));
        assert!(starter.spawn(spec("late"), body).is_err());
        assert!(dropped.recv().is_err(), "nobody holds it");
    }
}
