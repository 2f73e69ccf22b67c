//! The registrations of one descriptor, made when an operation on it has to wait for the first time. Nothing here is
//! generic over what has the descriptor or what an operation returns, so it is compiled once.

use crate::ambient::{self, Ambient};
use crate::coop;
use crate::here::refuse_os;
use crate::{ClassKind, error::NoRuntime};
use async_lock::{OnceCell, RwLock};
use doorbell_core::io::{Cleared, Event, Interest, Place, Registration};
use doorbell_core::scheduler::RemoteRef;
use doorbell_machine::{Machine, Poller, Readiness};
use futures_util::FutureExt;
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::task::{Context, Poll, ready};

/// A non-blocking syscall. The closure keeps its result. It is told by which registration it may succeed; `None` if the
/// descriptor is registered nowhere.
pub(super) type Try<'a> = &'a mut dyn FnMut(Option<&dyn Registered>) -> io::Result<()>;

/// Where the waker of the polling task is kept: in a place of its own, or in the one place of its direction,
/// from which only the last waker is woken.
pub(super) type Spot<'p, 'a> = Option<&'p mut Place<'a>>;

/// The runtime already waits for this descriptor, in the same class, for another object: see [`AsyncFd`](super::AsyncFd).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the runtime waits for this descriptor already, for another object; share one AsyncFd or socket, or duplicate the descriptor"
)]
pub struct AlreadyRegistered;

/// A registration without its machine.
pub(crate) trait Registered: Debug + Send + Sync {
    /// The known readiness of the descriptor.
    fn look(&self) -> Event;

    /// Clears the readiness for this: a syscall made after `event` was seen has taken all there was.
    fn clear(&self, event: Event, interest: Interest);

    /// Clears the readiness for this: a syscall made after `event` was seen would have blocked. If the interest is
    /// of one direction, that shows that it is open.
    fn clear_all(&self, event: Event, interest: Interest);

    /// Called when a task waits for the descriptor, maybe by another registration. If no task waits by this
    /// registration, and none has acted on its last event, this mutes it: its class gets no more events
    /// until a task waits by it.
    fn mute_if_in_vain(&self);

    /// Calls `f` each time when it may succeed, until it returns something else than `WouldBlock`.
    fn poll_io<'a>(
        &'a self,
        cx: &Context<'_>,
        interest: Interest,
        spot: Spot<'_, 'a>,
        f: Try<'_>,
    ) -> Poll<io::Result<()>>;

    /// Ready when such an operation may succeed, or after an event that ended this wait.
    fn poll_ready_in<'a>(
        &'a self,
        cx: &Context<'_>,
        interest: Interest,
        place: &mut Place<'a>,
    ) -> Poll<io::Result<Event>>;
}

impl<M: Machine> Registered for Registration<M, RemoteRef<M>> {
    fn look(&self) -> Event {
        (**self).look()
    }

    fn clear(&self, event: Event, interest: Interest) {
        match (**self).clear(event, interest) {
            // Readiness that arrived since `event` stays.
            Cleared::Yes | Cleared::Newer => {}
        }
    }

    fn clear_all(&self, event: Event, interest: Interest) {
        match (**self).clear_all(event, interest) {
            Cleared::Yes | Cleared::Newer => {}
        }
    }

    fn mute_if_in_vain(&self) {
        Registration::mute_if_in_vain(self);
    }

    fn poll_io<'a>(
        &'a self,
        cx: &Context<'_>,
        interest: Interest,
        spot: Spot<'_, 'a>,
        f: Try<'_>,
    ) -> Poll<io::Result<()>> {
        match spot {
            Some(place) => self.poll_io_in(cx, interest, place, || until_done(self, f)),
            None => Registration::poll_io(self, cx, interest, || until_done(self, f)),
        }
    }

    fn poll_ready_in<'a>(
        &'a self,
        cx: &Context<'_>,
        interest: Interest,
        place: &mut Place<'a>,
    ) -> Poll<io::Result<Event>> {
        Registration::poll_ready_in(self, cx, interest, place)
    }
}

/// Registers a descriptor with the scheduler of this worker.
pub(crate) fn register<M: Machine>(
    remote: RemoteRef<M>,
    fd: BorrowedFd<'static>,
) -> io::Result<Box<dyn Registered>> {
    refuse_os()?;
    let Some(fd) = M::Poller::name_of(fd) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    Ok(Box::new(Registration::new(remote, fd)?))
}

/// The events of a descriptor that were known at some time, by each registration.
#[derive(Debug)]
pub(super) struct Seen([Option<Event>; 3]);

impl Seen {
    /// For what the descriptor was known to be ready.
    pub(super) fn readiness(&self) -> Readiness {
        let all = self.0.iter().flatten();
        all.fold(Readiness::EMPTY, |all, event| all.and(event.readiness()))
    }
}

/// The registration for the tasks of one class.
type Slot = OnceCell<Box<dyn Registered>>;

/// All registrations of a descriptor: one for each class whose tasks wait for it. They are dropped before it is closed.
#[derive(Debug)]
pub(super) struct Registrations {
    slots: [Slot; 3],
    /// A thread that registers the descriptor has the read lock until the slot is filled. A thread that has
    /// to rule out that another one is registering takes the write lock. Both only try, so that no thread
    /// waits for one of a lower class.
    registering: RwLock<()>,
}

// By hand: a panic of a user's leaves them whole.
impl std::panic::UnwindSafe for Registrations {}
impl std::panic::RefUnwindSafe for Registrations {}

impl Registrations {
    /// Of a descriptor that is registered nowhere.
    pub(super) fn new() -> Self {
        Registrations {
            slots: [const { OnceCell::new() }; 3],
            registering: RwLock::new(()),
        }
    }

    /// The registration for the class that the caller runs, made if there is none. `None` while another
    /// thread makes it.
    pub(super) fn registered(&self, fd: BorrowedFd<'_>) -> io::Result<Option<&dyn Registered>> {
        ambient::with_current(|frame| {
            let frame = frame.ok_or_else(|| io::Error::other(NoRuntime))?;
            let slot = &self.slots[match frame.kind() {
                ClassKind::Rt => 0,
                ClassKind::Fair => 1,
                ClassKind::Batch => 2,
            }];
            if slot.get().is_none() {
                match self.fill(slot, fd, frame.handle().inner()) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        return self.already_there();
                    }
                    filled => filled?,
                }
            }
            Ok(slot.get().map(|registered| &**registered))
        })
    }

    /// Registers the descriptor. If the slot is empty afterwards, another thread is registering it.
    fn fill(&self, slot: &Slot, fd: BorrowedFd<'_>, runtime: &dyn Ambient) -> io::Result<()> {
        let Some(_registering) = self.registering.try_read() else {
            return Ok(());
        };
        // SAFETY: the registrations are dropped before the descriptor, in the order of the fields of `Io` and in its
        // `into_inner`. The descriptor is not replaced meanwhile, because `Io` never borrows what has it mutably.
        // A forgotten registration does not use the descriptor any more.
        let fd = unsafe { BorrowedFd::borrow_raw(fd.as_raw_fd()) };
        let registered = runtime.register(fd)?;
        // Another half may have filled the slot, or be about to: then this registration is dropped.
        let _ = slot.set(registered).now_or_never();
        Ok(())
    }

    /// The registration of this object that the scheduler already has. Another half made it and may not have
    /// filled its slot yet, or it was made for another class whose tasks the same scheduler runs. `None` while
    /// that is not known.
    ///
    /// # Errors
    /// [`AlreadyRegistered`] if another object made it.
    fn already_there(&self) -> io::Result<Option<&dyn Registered>> {
        let any = || self.all().next().map(|(_, registered)| registered);
        if let Some(registered) = any() {
            return Ok(Some(registered));
        }
        let Some(_nobody_registers) = self.registering.try_write() else {
            return Ok(None);
        };
        let anothers = || io::Error::new(io::ErrorKind::AlreadyExists, AlreadyRegistered);
        any().map(Some).ok_or_else(anothers)
    }

    /// All registrations, with their places.
    fn all(&self) -> impl Iterator<Item = (usize, &dyn Registered)> {
        let all = self.slots.iter().enumerate();
        all.filter_map(|(at, cell)| Some((at, &**cell.get()?)))
    }

    /// What is known of the descriptor now, by each registration.
    pub(super) fn seen(&self) -> Seen {
        let mut seen = [None; 3];
        for (at, registered) in self.all() {
            seen[at] = Some(registered.look());
        }
        Seen(seen)
    }

    /// Notes that a syscall that was made after this was seen has shown that the descriptor is not ready for that;
    /// with `is_closed_too` and an interest of one direction, that this one is open.
    pub(super) fn clear(&self, seen: &Seen, interest: Interest, is_closed_too: bool) {
        for (at, registered) in self.all() {
            match seen.0[at] {
                Some(event) if is_closed_too => registered.clear_all(event, interest),
                Some(event) => registered.clear(event, interest),
                None => {}
            }
        }
    }

    /// Calls `f` at once, and then each time when it may succeed, until it returns something else than `WouldBlock`. Takes
    /// one from the budget of the poll.
    pub(super) fn poll_at<'a>(
        &'a self,
        cx: &mut Context<'_>,
        fd: BorrowedFd<'_>,
        interest: Interest,
        spot: Spot<'_, 'a>,
        f: Try<'_>,
    ) -> Poll<io::Result<()>> {
        if coop::is_spent() {
            // The caller waits as ever, but takes nothing. An error is left to the next poll: the OS cannot wait for every
            // descriptor, and this operation may not have to wait.
            let _ = ready!(self.poll_registered(cx, fd, interest, spot, &mut |_| Ok(())));
            coop::count();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let result = match self.try_first(f) {
            Some(result) => result,
            None => ready!(self.poll_registered(cx, fd, interest, spot, f)),
        };
        coop::count();
        Poll::Ready(result)
    }

    /// Calls `f` once, if the descriptor is registered nowhere. `None` if the caller has to wait.
    fn try_first(&self, f: Try<'_>) -> Option<io::Result<()>> {
        if self.all().next().is_some() {
            return None;
        }
        match f(None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            result if would_wait(&result) => None,
            result => Some(result),
        }
    }

    /// Calls `f` each time when it may succeed, until it returns something else than `WouldBlock`.
    pub(super) fn poll_registered<'a>(
        &'a self,
        cx: &mut Context<'_>,
        fd: BorrowedFd<'_>,
        interest: Interest,
        spot: Spot<'_, 'a>,
        f: Try<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_by(cx, fd, |registered, cx| {
            registered.poll_io(cx, interest, spot, f)
        })
    }

    /// Polls by the registration of the caller's class, which is made if there is none.
    pub(super) fn poll_by<'a, R>(
        &'a self,
        cx: &mut Context<'_>,
        fd: BorrowedFd<'_>,
        poll: impl FnOnce(&'a dyn Registered, &Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let registered = match self.registered(fd) {
            Ok(Some(registered)) => registered,
            Ok(None) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Err(error) => return Poll::Ready(Err(error)),
        };
        let polled = poll(registered, cx);
        if polled.is_pending() {
            // The caller waits by `registered`, so that one is not muted.
            for (_, it) in self.all() {
                it.mute_if_in_vain();
            }
        }
        polled
    }
}

/// Calls `f` until it is not interrupted.
fn until_done(registered: &dyn Registered, f: Try<'_>) -> io::Result<()> {
    loop {
        match f(Some(registered)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

pub(super) fn would_wait<R>(result: &io::Result<R>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
