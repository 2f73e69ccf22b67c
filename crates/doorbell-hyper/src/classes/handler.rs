//! [`Handler`]: the task of a handler that runs in another class than its connection.

use super::handed::HandlerError;
use doorbell::{Class, Handle, JoinHandle, SpawnError};
use futures_channel::oneshot;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The task of a handler. Dropping this aborts it, since its answer is not needed then.
pub(super) struct Handler(State);

enum State {
    /// The workers of its class are being started. Boxed, since this is rare.
    Waits(Box<Waiting>),
    Runs(JoinHandle<()>),
    /// The handler was not started, or has sent its whole answer.
    Over,
}

/// A handler that is not spawned yet.
struct Waiting {
    here: Handle,
    class: Class,
    opened: oneshot::Receiver<Result<(), SpawnError>>,
    handled: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Handler {
    /// Runs `handled` in a task of class `class`. If the workers of the class have not been started, a task
    /// of class Fair starts them first: the OS takes a while for it, and the connections of the caller's
    /// worker should not wait.
    pub(super) fn start(
        class: Class,
        handled: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Handler, HandlerError> {
        let here = Handle::try_current()?;
        if here.class_is_open(class) {
            let task = here.task().class(class).try_spawn(handled);
            let task = task.map_err(HandlerError::NotStarted)?;
            return Ok(Handler(State::Runs(task)));
        }
        let (tell, opened) = oneshot::channel();
        let opener = here.clone();
        let opens = async move {
            // The connection may have dropped its receiver.
            let _ = tell.send(opener.open_class(class));
        };
        let opens = here.task().class(Class::FAIR).try_spawn(opens);
        drop(opens.map_err(HandlerError::NotStarted)?);
        Ok(Handler(State::Waits(Box::new(Waiting {
            here,
            class,
            opened,
            handled: Box::pin(handled),
        }))))
    }

    /// Ready once the handler is a task.
    pub(super) fn poll_started(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HandlerError>> {
        let State::Waits(waiting) = &mut self.0 else {
            return Poll::Ready(Ok(()));
        };
        let opened = ready!(Pin::new(&mut waiting.opened).poll(cx));
        let opened = match opened {
            Ok(opened) => opened.map_err(HandlerError::NotStarted),
            // The runtime has ended before the task that starts the workers.
            Err(oneshot::Canceled) => Err(HandlerError::Gone),
        };
        let waited = std::mem::replace(&mut self.0, State::Over);
        if let (Ok(()), State::Waits(waiting)) = (&opened, waited) {
            let task = waiting.here.task().class(waiting.class);
            let task = task.try_spawn(waiting.handled);
            self.0 = State::Runs(task.map_err(HandlerError::NotStarted)?);
        }
        Poll::Ready(opened)
    }

    /// The handler has sent its whole answer: its task may end by itself.
    pub(super) fn let_go(mut self) {
        self.0 = State::Over;
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if let State::Runs(task) = &self.0 {
            task.abort();
        }
    }
}
