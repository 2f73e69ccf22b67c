//! The poller of a model. One lock stands for the kernel's locks.
//!
//! A descriptor is an index. Each call of [`LoomPoller::set_ready`] is an edge.

use super::{Loom, LoomU32};
use crate::{Ordering, PollEvents, Poller, PollerError, Readiness, WaitEnd, Word};
use ::loom::sync::{Condvar, Mutex, MutexGuard};
use std::io;

/// How many descriptors a model has.
const FDS: usize = 2;

/// A descriptor: 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoomFd(pub usize);

/// One descriptor in the set.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    token: Option<u64>,
    ready: Readiness,
    is_new: bool,
    is_muted: bool,
}

#[derive(Debug, Default)]
struct Set {
    members: [Member; FDS],
    is_rung: bool,
}

impl Set {
    /// Moves the new edges into the buffer. Returns whether there was one.
    fn harvest(&mut self, events: &mut PollEvents) -> bool {
        events.clear();
        for member in &mut self.members {
            if let Some(token) = member.token.filter(|_| member.is_new) {
                member.is_new = false;
                events.push(token, member.ready);
            }
        }
        !events.is_empty()
    }
}

/// A set of descriptors of a model.
#[derive(Debug)]
pub struct LoomPoller {
    set: Mutex<Set>,
    woken: Condvar,
}

impl Default for LoomPoller {
    fn default() -> Self {
        LoomPoller {
            set: Mutex::new(Set::default()),
            woken: Condvar::new(),
        }
    }
}

impl LoomPoller {
    fn open_set(&self) -> MutexGuard<'_, Set> {
        self.set
            .lock()
            .expect("the lock is only held inside this file")
    }

    /// Makes a descriptor ready, as the outside world does.
    pub fn set_ready(&self, fd: LoomFd, readiness: Readiness) {
        let mut set = self.open_set();
        let member = &mut set.members[fd.0];
        member.ready = member.ready.and(readiness);
        member.is_new = !member.is_muted;
        drop(set);
        self.woken.notify_one();
    }
}

impl<const RING: usize> Poller<Loom<RING>> for LoomPoller {
    type Fd = LoomFd;

    fn open() -> Result<Self, PollerError> {
        Ok(LoomPoller::default())
    }

    fn add(&self, fd: LoomFd, token: u64) -> io::Result<()> {
        let mut set = self.open_set();
        let member = &mut set.members[fd.0];
        if member.token.replace(token).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        member.is_new = !member.ready.is_empty();
        let is_new = member.is_new;
        drop(set);
        if is_new {
            self.woken.notify_one();
        }
        Ok(())
    }

    fn remove(&self, fd: LoomFd) -> io::Result<()> {
        let taken = self.open_set().members[fd.0].token.take();
        taken
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn set_muted(&self, fd: LoomFd, token: u64, is_muted: bool) -> io::Result<()> {
        let mut set = self.open_set();
        let member = &mut set.members[fd.0];
        if member.token.replace(token).is_none() {
            member.token = None;
            return Err(io::ErrorKind::NotFound.into());
        }
        member.is_muted = is_muted;
        member.is_new = !is_muted && !member.ready.is_empty();
        let is_new = member.is_new;
        drop(set);
        if is_new {
            self.woken.notify_one();
        }
        Ok(())
    }

    fn poll(&self, events: &mut PollEvents) {
        let _ = self.open_set().harvest(events);
    }

    fn wait(
        &self,
        word: &LoomU32,
        seen: u32,
        until_ns: Option<u64>,
        events: &mut PollEvents,
    ) -> WaitEnd {
        events.clear();
        if word.load(Ordering::Relaxed) != seen {
            return WaitEnd::Changed;
        }
        let mut set = self.open_set();
        loop {
            let is_ready = set.harvest(events);
            if std::mem::take(&mut set.is_rung) {
                return WaitEnd::Rung;
            }
            if is_ready {
                return WaitEnd::Ready;
            }
            if super::leap_to(until_ns) {
                return WaitEnd::Deadline;
            }
            set = self
                .woken
                .wait(set)
                .expect("the lock is only held inside this file");
        }
    }

    fn ring(&self) {
        self.open_set().is_rung = true;
        self.woken.notify_one();
    }
}
