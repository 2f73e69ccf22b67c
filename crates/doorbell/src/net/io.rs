//! A descriptor and its registrations.

use super::Ready;
use super::registrations::{Registered, Registrations, Seen, Spot, would_wait};
use crate::coop::{self, consume_budget};
use doorbell_core::io::{Interest, Place};
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

/// A descriptor and its registrations.
#[derive(Debug)]
pub struct Io<T: AsFd> {
    /// Before `inner`: registrations are dropped before their descriptor.
    registrations: Registrations,
    inner: T,
}

impl<T: AsFd> Io<T> {
    /// Takes over a non-blocking descriptor.
    pub(super) fn new(inner: T) -> Self {
        Io {
            registrations: Registrations::new(),
            inner,
        }
    }

    pub(super) fn get(&self) -> &T {
        &self.inner
    }

    pub(super) fn into_inner(self) -> T {
        drop(self.registrations);
        self.inner
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
        let ready = ready!(self.registrations.poll_registered(
            cx,
            self.inner.as_fd(),
            interest.into(),
            None,
            &mut |_| Ok(()),
        ));
        coop::allow(cx).map(|()| ready)
    }

    /// As [`Io::poll_ready`], but wakes each task that waits. An event that comes while this waits ends it, also
    /// if another task has taken what the event has brought; then the set may be empty.
    pub(super) async fn ready(&self, interest: impl Into<Interest>) -> io::Result<Ready> {
        let interest = interest.into();
        let mut place = Place::default();
        let ready = poll_fn(|cx| {
            self.registrations
                .poll_by(cx, self.inner.as_fd(), |registered, cx| {
                    registered.poll_ready_in(cx, interest, &mut place)
                })
        });
        let ready = ready.await;
        consume_budget().await;
        Ok(Ready::of(ready?.readiness(), interest))
    }

    /// Registers the descriptor at once, with the caller's class.
    pub(super) fn register(&self) -> io::Result<()> {
        self.registrations.registered(self.inner.as_fd()).map(drop)
    }

    /// What is known of the descriptor now, by each registration.
    pub(super) fn seen(&self) -> Seen {
        self.registrations.seen()
    }

    /// As [`Registrations::clear`].
    pub(super) fn clear(&self, seen: &Seen, interest: Interest, is_closed_too: bool) {
        self.registrations.clear(seen, interest, is_closed_too);
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

    /// As [`Io::poll_io`], with the place of the waker; `f` is told by which registration it may succeed.
    pub(super) fn poll_at<'a, R>(
        &'a self,
        cx: &mut Context<'_>,
        interest: Interest,
        spot: Spot<'_, 'a>,
        mut f: impl FnMut(&T, Option<&dyn Registered>) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let mut done = None;
        let mut keep = |registered: Option<&dyn Registered>| {
            done = Some(f(&self.inner, registered)?);
            Ok(())
        };
        let fd = self.inner.as_fd();
        let polled = self
            .registrations
            .poll_at(cx, fd, interest, spot, &mut keep);
        polled.map(|polled| polled.map(|()| done.expect("set where it succeeded")))
    }
}
