//! A descriptor that is registered when it would have to wait for the first time.

use crate::ambient;
use crate::coop;
use crate::{ClassKind, NoRuntime};
use async_lock::OnceCell;
use doorbell_core::crew::FrontRef;
use doorbell_core::io::{Cleared, Direction, Event, RegisterError, Registration};
use doorbell_machine::{Machine, Poller, Readiness};
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

/// A syscall that does not wait; what it returns is the caller's to keep.
type Try<'a> = &'a mut dyn FnMut(&dyn Registered) -> io::Result<()>;

/// A registration without its machine.
pub(crate) trait Registered: Debug + Send + Sync {
    /// What is known of the descriptor now.
    fn look(&self) -> Event;

    /// A syscall that was made after `event` was seen has taken all there was.
    fn clear(&self, event: Event, direction: Direction);

    /// Calls `f` when it may succeed, until it does not say that it would have to wait.
    fn poll_io(&self, cx: &Context<'_>, direction: Direction, f: Try<'_>) -> Poll<io::Result<()>>;
}

impl<M: Machine> Registered for Registration<M, FrontRef<M>> {
    fn look(&self) -> Event {
        (**self).look()
    }

    fn clear(&self, event: Event, direction: Direction) {
        match (**self).clear(event, direction) {
            // What came since stays.
            Cleared::Yes | Cleared::Newer => {}
        }
    }

    fn poll_io(&self, cx: &Context<'_>, direction: Direction, f: Try<'_>) -> Poll<io::Result<()>> {
        (**self).poll_io(cx, direction, || f(self))
    }
}

/// Registers a descriptor with the lane that has that front.
pub(crate) fn register<M: Machine>(
    front: FrontRef<M>,
    fd: BorrowedFd<'static>,
) -> io::Result<Box<dyn Registered>> {
    let Some(fd) = M::Poller::name_of(fd) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let said = |error: RegisterError| io::Error::new(error.kind(), error);
    Ok(Box::new(Registration::new(front, fd).map_err(said)?))
}

/// A descriptor and its registrations: one for each class whose tasks wait for it.
#[derive(Debug)]
pub(super) struct Io<T: AsFd> {
    /// Before the descriptor: they go first.
    registered: [OnceCell<Box<dyn Registered>>; 3],
    inner: T,
}

impl<T: AsFd> Io<T> {
    /// Of a descriptor that does not block.
    pub(super) fn new(inner: T) -> Self {
        Io {
            registered: [const { OnceCell::new() }; 3],
            inner,
        }
    }

    pub(super) fn get(&self) -> &T {
        &self.inner
    }

    pub(super) fn into_inner(self) -> T {
        drop(self.registered);
        self.inner
    }

    /// The registration for the class that the caller runs; none where another thread is about to make
    /// it.
    fn registered(&self) -> io::Result<Option<&dyn Registered>> {
        ambient::with_current(|frame| {
            let frame = frame.ok_or_else(|| io::Error::other(NoRuntime))?;
            let cell = &self.registered[match frame.kind() {
                ClassKind::Rt => 0,
                ClassKind::Fair => 1,
                ClassKind::Batch => 2,
            }];
            if let Some(registered) = cell.get() {
                return Ok(Some(&**registered));
            }
            // SAFETY: the registrations are dropped before the descriptor, here and in
            // `into_inner`, and it is not replaced meanwhile.
            let fd = unsafe {
                BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&self.inner.as_fd()))
            };
            match frame.handle().inner().register(fd) {
                Ok(registered) => {
                    // Another half may have been faster.
                    let _ = cell.set_blocking(registered);
                }
                // That lane has it already: by the other half, which may not have said so yet, or for
                // a task that has entered another class's frame.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            let any = || self.registered.iter().find_map(OnceCell::get);
            Ok(cell.get().or_else(any).map(|registered| &**registered))
        })
    }

    /// Tries at once, and then whenever it may succeed, until `f` does not say that it would wait. Takes
    /// one from the budget of the poll.
    pub(super) fn poll_io<R>(
        &self,
        cx: &Context<'_>,
        direction: Direction,
        f: impl FnMut(&T, Option<&dyn Registered>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        if !coop::has_budget() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.try_io(cx, direction, f);
        if polled.is_ready() {
            coop::spend_budget();
        }
        polled
    }

    fn try_io<R>(
        &self,
        cx: &Context<'_>,
        direction: Direction,
        mut f: impl FnMut(&T, Option<&dyn Registered>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        if self.registered.iter().all(|cell| cell.get().is_none()) {
            match f(&self.inner, None) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
        let registered = match self.registered() {
            Ok(Some(registered)) => registered,
            Ok(None) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Err(error) => return Poll::Ready(Err(error)),
        };
        let mut result = None;
        let polled = registered.poll_io(cx, direction, &mut |registered| {
            loop {
                match f(&self.inner, Some(registered)) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                    Ok(it) => {
                        result = Some(it);
                        return Ok(());
                    }
                }
            }
        });
        polled.map(|polled| polled.map(|()| result.expect("set where it succeeded")))
    }

    /// As [`Io::poll_io`], of a stream: fewer bytes than were asked for are all there were, but where
    /// something urgent came, at which a read stops short.
    pub(super) fn poll_bytes(
        &self,
        cx: &Context<'_>,
        direction: Direction,
        asked: usize,
        mut f: impl FnMut(&T) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, direction, |inner, registered| {
            let event = registered.map(Registered::look);
            let done = f(inner)?;
            if let (Some(registered), Some(event)) = (registered, event)
                && done > 0
                && done < asked
                && !event.readiness().has(Readiness::PRIORITY)
            {
                registered.clear(event, direction);
            }
            Ok(done)
        })
    }
}
