//! The poller: epoll, and in it an eventfd by which other threads ring the owner.
//!
//! A descriptor is added once, edge-triggered, for all events. The eventfd is level-triggered: a ring stays
//! visible until the owner reads it, even if other threads poll in between.
//!
//! The owner closes both when it ends, although other threads keep the poller, because a waker may be kept
//! for ever. Each call keeps them open while it runs, so that no call writes to a descriptor number that the
//! OS has reused.

use super::{Host, clock, os, thread};
use crate::{PollEvents, Poller, PollerError, Readiness, WaitEnd};
use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How many events a poll asks the kernel for: no more than the buffer holds, because an edge that is dropped
/// never comes again. An eventfd for which there is no room stays rung.
const ASKED: usize = PollEvents::CAPACITY;
const ASKED_I32: i32 = 256;
const _: () = assert!(ASKED == ASKED_I32 as usize);

/// The events for which a descriptor is added.
const EDGES: c_int =
    libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLPRI | libc::EPOLLET;

/// The token of the eventfd.
const BELL: u64 = <HostPoller as Poller<Host>>::TOKEN_RESERVED;

/// An epoll instance and its eventfd.
#[derive(Debug)]
struct Fds {
    set: OwnedFd,
    bell: OwnedFd,
}

/// A poller: an epoll instance and its eventfd, until it is closed.
#[derive(Debug)]
pub struct HostPoller {
    fds: Weak<Fds>,
    /// Keeps them open. Only `close` locks it, so no other call waits for a thread that has the lock.
    keeps_open: Mutex<Option<Arc<Fds>>>,
    /// Whether the kernel refuses waits in nanoseconds: it is older than Linux 5.11, or a filter forbids
    /// them.
    is_coarse: AtomicU32,
    /// The process that opened them. A child shares them, and must not take a descriptor of the parent out.
    process: u32,
}

/// The syscalls of [`HostPoller::open`], so that tests can make each fail.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    pub(super) set: fn() -> io::Result<OwnedFd>,
    pub(super) bell: fn() -> io::Result<OwnedFd>,
    pub(super) join: fn(BorrowedFd<'_>, BorrowedFd<'_>) -> io::Result<()>,
}

/// The syscalls of the OS.
pub(super) const STEPS: Steps = Steps {
    // SAFETY: the descriptor is new.
    set: || unsafe { os::opened(libc::epoll_create1(libc::EPOLL_CLOEXEC)) },
    // SAFETY: the descriptor is new.
    bell: || unsafe { os::opened(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) },
    join: |set, bell| control(set, libc::EPOLL_CTL_ADD, bell, BELL, libc::EPOLLIN),
};

/// Changes what an epoll set does about a descriptor.
fn control(
    set: BorrowedFd<'_>,
    change: c_int,
    fd: BorrowedFd<'_>,
    token: u64,
    events: c_int,
) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: events.cast_unsigned(),
        u64: token,
    };
    // SAFETY: the kernel reads one event, which outlives the call.
    os::done(unsafe { libc::epoll_ctl(set.as_raw_fd(), change, fd.as_raw_fd(), &raw mut event) })
}

/// How long a poll waits.
#[derive(Clone, Copy)]
enum For {
    Nothing,
    Ns(u64),
    Ever,
}

impl HostPoller {
    pub(super) fn open_by(steps: &Steps) -> Result<Self, PollerError> {
        let set = (steps.set)().map_err(|source| PollerError::Set { source })?;
        let bell = (steps.bell)().map_err(|source| PollerError::Bell { source })?;
        let joined = (steps.join)(set.as_fd(), bell.as_fd());
        joined.map_err(|source| PollerError::Join { source })?;
        let fds = Arc::new(Fds { set, bell });
        Ok(HostPoller {
            fds: Arc::downgrade(&fds),
            keeps_open: Mutex::new(Some(fds)),
            is_coarse: AtomicU32::new(0),
            process: thread::process(),
        })
    }

    /// Both descriptors, which stay open as long as the result lives; `None` once they are closed, and in a child
    /// of the process that opened them.
    fn fds(&self) -> Option<Arc<Fds>> {
        if self.process != thread::process() {
            return None;
        }
        self.fds.upgrade()
    }

    /// Adds a descriptor, until it is closed or removed.
    ///
    /// # Errors
    /// As for [`Poller::add`].
    pub fn add_fd(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        if token == BELL {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let fds = self.fds().ok_or(io::ErrorKind::BrokenPipe)?;
        control(fds.set.as_fd(), libc::EPOLL_CTL_ADD, fd, token, EDGES)
    }

    /// Takes a descriptor out.
    ///
    /// # Errors
    /// As for [`Poller::remove`].
    pub fn remove_fd(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        match self.fds() {
            Some(fds) => control(fds.set.as_fd(), libc::EPOLL_CTL_DEL, fd, 0, 0),
            // It was removed when the set was closed.
            None => Ok(()),
        }
    }

    /// Mutes a descriptor, so that it makes no edges, or unmutes it.
    ///
    /// # Errors
    /// As for [`Poller::set_muted`].
    pub fn set_fd_muted(&self, fd: BorrowedFd<'_>, token: u64, is_muted: bool) -> io::Result<()> {
        let events = if is_muted { libc::EPOLLET } else { EDGES };
        // A descriptor that is ready for the new events makes an edge at once.
        match self.fds() {
            Some(fds) => control(fds.set.as_fd(), libc::EPOLL_CTL_MOD, fd, token, events),
            // It was removed when the set was closed.
            None => Ok(()),
        }
    }

    /// Makes this poller behave as on a kernel without waits in nanoseconds.
    #[cfg(test)]
    pub(super) fn make_coarse(&self) {
        self.is_coarse.store(1, Ordering::Relaxed);
    }

    /// How many users keep the descriptors open: the calls that run now, and the poller unless it is closed.
    #[cfg(test)]
    pub(super) fn users(&self) -> usize {
        self.fds.strong_count()
    }

    /// Polls once. Returns whether the eventfd was ready; `None` if a signal came.
    fn poll_for(&self, fds: &Fds, time: For, events: &mut PollEvents) -> Option<bool> {
        events.clear();
        let mut found = [const { MaybeUninit::<libc::epoll_event>::uninit() }; ASKED];
        let count = usize::try_from(self.ask(&fds.set, time, &mut found)).ok()?;
        let mut is_rung = false;
        for event in &found[..count] {
            // SAFETY: the kernel has filled the first `count` events.
            let event = unsafe { event.assume_init() };
            if event.u64 == BELL {
                is_rung = true;
            } else {
                events.push(event.u64, readiness(event.events));
            }
        }
        Some(is_rung)
    }

    /// Makes the syscall and returns its result.
    fn ask(
        &self,
        set: &OwnedFd,
        time: For,
        found: &mut [MaybeUninit<libc::epoll_event>; ASKED],
    ) -> i64 {
        // ORDER: Relaxed; a hint that each call can find out for itself.
        let is_coarse = self.is_coarse.load(Ordering::Relaxed) != 0;
        let set = set.as_raw_fd();
        if let For::Ns(ns) = time
            && !is_coarse
        {
            let timeout = timespec(ns);
            // SAFETY: the kernel fills at most `ASKED` events, reads one timespec, and gets no signal mask.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    set,
                    found.as_mut_ptr(),
                    ASKED,
                    &raw const timeout,
                    std::ptr::null::<libc::sigset_t>(),
                    0,
                )
            };
            let lacks = || {
                let error = io::Error::last_os_error().raw_os_error();
                // A filter of syscalls that is older than this call returns EPERM.
                matches!(error, Some(libc::ENOSYS | libc::EPERM))
            };
            if count >= 0 || !lacks() {
                return count;
            }
            // ORDER: Relaxed; as above.
            self.is_coarse.store(1, Ordering::Relaxed);
        }
        // SAFETY: as above.
        let count =
            unsafe { libc::epoll_wait(set, found.as_mut_ptr().cast(), ASKED_I32, time.ms()) };
        i64::from(count)
    }
}

impl Fds {
    /// Empties the eventfd.
    fn read_bell(&self) {
        let mut count = 0_u64;
        let bell = self.bell.as_raw_fd();
        // An error means that the eventfd is empty already.
        // SAFETY: the kernel writes eight bytes there.
        let _ = unsafe { libc::read(bell, (&raw mut count).cast(), size_of::<u64>()) };
    }
}

impl For {
    fn until(until_ns: Option<u64>) -> Self {
        let Some(until_ns) = until_ns else {
            return For::Ever;
        };
        // By the kernel's clock, because ours may lag behind it, and the wait would be too long.
        match until_ns.saturating_sub(clock::kernel_now_ns()) {
            0 => For::Nothing,
            ns => For::Ns(ns),
        }
    }

    /// In milliseconds, rounded up so that a deadline is not early.
    fn ms(self) -> i32 {
        match self {
            For::Nothing => 0,
            For::Ns(ns) => i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX),
            For::Ever => -1,
        }
    }
}

fn timespec(ns: u64) -> libc::timespec {
    let ns = ns.min(i64::MAX as u64);
    libc::timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}

fn readiness(events: u32) -> Readiness {
    let closed = Readiness::READ_CLOSED.and(Readiness::WRITE_CLOSED);
    let table = [
        (libc::EPOLLIN, Readiness::READABLE),
        (libc::EPOLLOUT, Readiness::WRITABLE),
        (libc::EPOLLRDHUP, Readiness::READ_CLOSED),
        (libc::EPOLLHUP, closed),
        (libc::EPOLLERR, Readiness::ERROR),
        (libc::EPOLLPRI, Readiness::PRIORITY),
    ];
    let said = table
        .iter()
        .filter(|(bit, _)| events & bit.cast_unsigned() != 0);
    said.fold(Readiness::EMPTY, |all, (_, it)| all.and(*it))
}

impl Poller<Host> for HostPoller {
    /// A descriptor whose caller guarantees that it stays open.
    type Fd = BorrowedFd<'static>;

    fn name_of(fd: BorrowedFd<'static>) -> Option<Self::Fd> {
        Some(fd)
    }

    fn open() -> Result<Self, PollerError> {
        HostPoller::open_by(&STEPS)
    }

    fn add(&self, fd: BorrowedFd<'static>, token: u64) -> io::Result<()> {
        self.add_fd(fd, token)
    }

    fn remove(&self, fd: BorrowedFd<'static>) -> io::Result<()> {
        self.remove_fd(fd)
    }

    fn set_muted(&self, fd: BorrowedFd<'static>, token: u64, is_muted: bool) -> io::Result<()> {
        self.set_fd_muted(fd, token, is_muted)
    }

    fn poll(&self, events: &mut PollEvents) {
        events.clear();
        if let Some(fds) = self.fds() {
            let _ = self.poll_for(&fds, For::Nothing, events);
        }
    }

    fn wait(
        &self,
        word: &AtomicU32,
        seen: u32,
        until_ns: Option<u64>,
        events: &mut PollEvents,
    ) -> WaitEnd {
        events.clear();
        // ORDER: Relaxed; a change that this load misses is followed by a ring, which the eventfd keeps.
        if word.load(Ordering::Relaxed) != seen {
            return WaitEnd::Changed;
        }
        let Some(fds) = self.fds() else {
            return WaitEnd::Spurious;
        };
        let time = For::until(until_ns);
        match self.poll_for(&fds, time, events) {
            Some(true) => {
                fds.read_bell();
                WaitEnd::Rung
            }
            Some(false) if !events.is_empty() => WaitEnd::Ready,
            Some(false) if until_ns.is_some() => WaitEnd::Deadline,
            Some(false) | None => WaitEnd::Spurious,
        }
    }

    fn ring(&self) {
        // Once the descriptors are closed, no thread waits.
        if let Some(fds) = self.fds() {
            // It fails only if the eventfd's counter is full; then the owner is rung anyway.
            let one = 1_u64;
            // SAFETY: the kernel reads eight bytes there.
            let _ = unsafe {
                libc::write(
                    fds.bell.as_raw_fd(),
                    (&raw const one).cast(),
                    size_of::<u64>(),
                )
            };
        }
    }

    fn close(&self) {
        let mut keeps_open = self
            .keeps_open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let fds = keeps_open.take();
        drop(keeps_open);
        drop(fds);
    }
}
