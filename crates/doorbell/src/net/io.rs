//! A descriptor that is registered with a worker when an operation on it has to wait for the first time.

use super::Ready;
use crate::ambient::{self, Ambient};
use crate::coop::{self, consume_budget};
use crate::here::refuse_os;
use crate::{ClassKind, NoRuntime};
use async_lock::{OnceCell, RwLock};
use doorbell_core::io::{Cleared, Event, Interest, Place, Registration};
use doorbell_core::scheduler::RemoteRef;
use doorbell_machine::{Machine, Poller, Readiness};
use futures_util::FutureExt;
use std::fmt::Debug;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};

/// A non-blocking syscall. The closure keeps its result.
type Try<'a> = &'a mut dyn FnMut(&dyn Registered) -> io::Result<()>;

/// Where the waker of the polling task is kept: in a place of its own, or in the one place of its direction,
/// from which only the last waker is woken.
pub(super) type Spot<'p, 'a> = Option<&'p mut Place<'a>>;

/// The worker already waits for this descriptor, for another object: see [`AsyncFd`](super::AsyncFd).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the worker waits for this descriptor already, for another object; share one AsyncFd or socket, or duplicate the descriptor"
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
    /// registration, and none has acted on its last event, this mutes it: its worker gets no more events
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
            Some(place) => self.poll_io_in(cx, interest, place, || f(self)),
            None => Registration::poll_io(self, cx, interest, || f(self)),
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

/// Registers a descriptor with the worker of this remote half.
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

/// A descriptor and its registrations: one for each class whose tasks wait for it.
#[derive(Debug)]
pub struct Io<T: AsFd> {
    /// Before `inner`: registrations are dropped before their descriptor.
    registered: [Slot; 3],
    /// A thread that registers the descriptor has the read lock until the slot is filled. A thread that has
    /// to rule out that another one is registering takes the write lock. Both only try, so that no thread
    /// waits for one of a lower class.
    registering: RwLock<()>,
    inner: T,
}

// By hand: a panic of a user's leaves the registrations whole.
impl<T: AsFd + std::panic::UnwindSafe> std::panic::UnwindSafe for Io<T> {}
impl<T: AsFd + std::panic::RefUnwindSafe> std::panic::RefUnwindSafe for Io<T> {}

impl<T: AsFd> Io<T> {
    /// Takes over a non-blocking descriptor.
    pub(super) fn new(inner: T) -> Self {
        Io {
            registered: [const { OnceCell::new() }; 3],
            registering: RwLock::new(()),
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

    /// The registration for the class that the caller runs, made if there is none. `None` while another
    /// thread makes it.
    fn registered(&self) -> io::Result<Option<&dyn Registered>> {
        ambient::with_current(|frame| {
            let frame = frame.ok_or_else(|| io::Error::other(NoRuntime))?;
            let slot = &self.registered[match frame.kind() {
                ClassKind::Rt => 0,
                ClassKind::Fair => 1,
                ClassKind::Batch => 2,
            }];
            if slot.get().is_none() {
                match self.fill(slot, frame.handle().inner()) {
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
    fn fill(&self, slot: &Slot, runtime: &dyn Ambient) -> io::Result<()> {
        let Some(_registering) = self.registering.try_read() else {
            return Ok(());
        };
        // SAFETY: the registrations are dropped before the descriptor, in the order of the fields and in
        // `into_inner`. The descriptor is not replaced meanwhile, because `inner` is never borrowed mutably.
        // A forgotten registration does not use the descriptor any more.
        let fd =
            unsafe { BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&self.inner.as_fd())) };
        let registered = runtime.register(fd)?;
        // Another half may have filled the slot, or be about to: then this registration is dropped.
        let _ = slot.set(registered).now_or_never();
        Ok(())
    }

    /// The registration of this object that the worker already has. Another half made it and may not have
    /// filled its slot yet, or it was made for another class whose tasks the same worker runs. `None` while
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
        let all = self.registered.iter().enumerate();
        all.filter_map(|(at, cell)| Some((at, &**cell.get()?)))
    }

    /// Calls `f` at once, and then each time when it may succeed, until it returns something else than
    /// `WouldBlock`. Takes one from the budget of the poll. Of several tasks that poll in one direction, only
    /// the last one is woken.
    pub(super) fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        interest: impl Into<Interest>,
        mut f: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_at(cx, interest.into(), None, |inner, _| f(inner))
    }

    /// As [`Io::poll_io`], but wakes each task that waits.
    pub(super) async fn io<R>(
        &self,
        interest: impl Into<Interest>,
        mut f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let interest = interest.into();
        let mut place = Place::default();
        poll_fn(|cx| self.poll_at(cx, interest, Some(&mut place), |inner, _| f(inner))).await
    }

    /// Ready when the OS reports that such an operation may succeed.
    pub(super) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        interest: impl Into<Interest>,
    ) -> Poll<io::Result<()>> {
        let ready = ready!(self.poll_registered(cx, interest.into(), None, |_, _| Ok(())));
        coop::allow(cx).map(|()| ready)
    }

    /// As [`Io::poll_ready`], but wakes each task that waits. An event that comes while this waits ends it, also
    /// if another task has taken what the event has brought; then the set may be empty.
    pub(super) async fn ready(&self, interest: impl Into<Interest>) -> io::Result<Ready> {
        let interest = interest.into();
        let mut place = Place::default();
        let ready = poll_fn(|cx| {
            self.poll_by(cx, |registered, cx| {
                registered.poll_ready_in(cx, interest, &mut place)
            })
        });
        let ready = ready.await;
        consume_budget().await;
        Ok(Ready::of(ready?.readiness(), interest))
    }

    /// Registers the descriptor at once, with the worker of the caller's class.
    pub(super) fn register(&self) -> io::Result<()> {
        self.registered().map(drop)
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

    /// Calls `f` once, and clears the known readiness if it returns `WouldBlock`.
    pub(super) fn try_io<R>(
        &self,
        interest: impl Into<Interest>,
        f: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let seen = self.seen();
        let result = f(&self.inner);
        if would_wait(&result) {
            self.clear(&seen, interest.into(), true);
        }
        result
    }

    pub(super) fn poll_at<'a, R>(
        &'a self,
        cx: &mut Context<'_>,
        interest: Interest,
        spot: Spot<'_, 'a>,
        mut f: impl FnMut(&T, Option<&dyn Registered>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        if coop::is_spent() {
            // The caller waits as ever, but takes nothing. An error is left to the next poll: the OS cannot wait for every
            // descriptor, and this operation may not have to wait.
            let _: io::Result<()> = ready!(self.poll_registered(cx, interest, spot, |_, _| Ok(())));
            coop::count();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let result = match self.try_first(&mut f) {
            Some(result) => result,
            None => ready!(self.poll_registered(cx, interest, spot, f)),
        };
        coop::count();
        Poll::Ready(result)
    }

    /// Calls `f` once, if the descriptor is registered nowhere. `None` if the caller has to wait.
    fn try_first<R>(
        &self,
        f: &mut impl FnMut(&T, Option<&dyn Registered>) -> io::Result<R>,
    ) -> Option<io::Result<R>> {
        if self.all().next().is_some() {
            return None;
        }
        match f(&self.inner, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            result if would_wait(&result) => None,
            result => Some(result),
        }
    }

    fn poll_registered<'a, R>(
        &'a self,
        cx: &mut Context<'_>,
        interest: Interest,
        spot: Spot<'_, 'a>,
        mut f: impl FnMut(&T, Option<&dyn Registered>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let mut result = None;
        let polled = self.poll_by(cx, |registered, cx| {
            registered.poll_io(cx, interest, spot, &mut |registered| {
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
            })
        });
        polled.map(|polled| polled.map(|()| result.expect("set where it succeeded")))
    }

    /// Polls by the registration of the caller's class, which is made if there is none.
    fn poll_by<'a, R>(
        &'a self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&'a dyn Registered, &Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let registered = match self.registered() {
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

pub(super) fn would_wait<R>(result: &io::Result<R>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
