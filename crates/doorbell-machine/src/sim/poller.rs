//! Descriptors of the simulated machine, and pollers that wait for them.
//!
//! A descriptor is the set of what it is ready for. The program changes that set: the part that plays the
//! outside world makes the descriptor ready, and the part that reads takes readiness away. Each time it is
//! made ready is one edge. As on Linux, a poll reports what a descriptor is ready for at the time of the
//! poll, and nothing if that was taken away before.

use super::Sim;
use super::config::{Edges, EventKind};
use super::thread::{Doing, Wait, Why};
use super::words::SimU32;
use super::world::{Waits, World, look, step, wait as give_up_cpu};
use crate::{Ordering, PollEvents, Poller, PollerError, Readiness, WaitEnd, Word};
use std::io;

/// A generous poll repeats an edge with a chance of one in this number.
const REPEATS: u64 = 4;

/// A descriptor of the world that the caller runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimFd {
    world: u32,
    fd: u32,
}

/// All descriptors and pollers of a world.
#[derive(Debug, Default)]
pub(super) struct Io {
    /// What each descriptor is ready for.
    fds: Vec<Readiness>,
    pollers: Vec<Set>,
}

/// One poller.
#[derive(Debug, Default)]
struct Set {
    members: Vec<Member>,
    /// The thread that waits in it.
    sleeper: Option<u32>,
    is_rung: bool,
}

#[derive(Debug)]
struct Member {
    fd: u32,
    token: u64,
    /// There was an edge since the last poll.
    is_new: bool,
    /// It makes no edges.
    is_muted: bool,
}

impl SimFd {
    /// A descriptor that is ready for nothing.
    ///
    /// # Panics
    /// Outside of any run.
    #[must_use]
    pub fn open() -> Self {
        let opened = look(|world| {
            world.io.fds.push(Readiness::EMPTY);
            SimFd {
                world: world.number,
                fd: world.io.fds.len() as u32 - 1,
            }
        });
        opened.expect("descriptors are those of a run")
    }

    /// Makes the descriptor ready for this too. That is an edge, even if it was ready before. It costs the
    /// caller no time, because it plays the outside world.
    pub fn set_ready(self, readiness: Readiness) {
        let _ = step(|world| {
            if self.world != world.number {
                return;
            }
            world.event(EventKind::Ready, self.fd, 0);
            let fd = &mut world.io.fds[self.fd as usize];
            *fd = fd.and(readiness);
            for poller in 0..world.io.pollers.len() {
                let members = &mut world.io.pollers[poller].members;
                let hears = |it: &&mut Member| it.fd == self.fd && !it.is_muted;
                let Some(member) = members.iter_mut().find(hears) else {
                    continue;
                };
                member.is_new = true;
                world.wake_sleeper(poller);
            }
        });
    }

    /// What the descriptor is ready for. Reading this is no event.
    #[must_use]
    pub fn readiness(self) -> Readiness {
        look(|world| (self.world == world.number).then(|| world.io.fds[self.fd as usize]))
            .flatten()
            .unwrap_or_default()
    }

    /// A non-blocking syscall: takes away the readiness that is in `wanted`, and returns it.
    #[must_use]
    pub fn take(self, wanted: Readiness) -> Readiness {
        let taken = step(|world| {
            world.flush();
            let cost = world.config.machine.costs.syscall_ns;
            world.event(EventKind::Syscall, self.fd, cost);
            if self.world != world.number {
                return Readiness::EMPTY;
            }
            let ready = &mut world.io.fds[self.fd as usize];
            let taken = ready.within(wanted);
            *ready = ready.without(wanted);
            taken
        });
        taken.unwrap_or_default()
    }
}

/// A poller of the world in which it was opened.
#[derive(Debug)]
pub struct SimPoller {
    world: u32,
    poller: u32,
}

impl SimPoller {
    /// Makes a syscall on this poller, which costs `extra_ns` beside the syscall itself.
    fn call<R>(
        &self,
        extra_ns: u64,
        f: impl FnOnce(&mut World, usize) -> io::Result<R>,
    ) -> io::Result<R> {
        let outside = || io::Error::other("the caller is no thread of the poller's world");
        step(|world| {
            world.flush();
            let cost = world.config.machine.costs.syscall_ns + extra_ns;
            world.event(EventKind::Syscall, self.poller, cost);
            if self.world != world.number {
                return Err(outside());
            }
            f(world, self.poller as usize)
        })
        .unwrap_or_else(|| Err(outside()))
    }

    /// Takes what there is for the owner: the events, and the ring. Returns whether it was rung.
    fn take_all(&self, events: &mut PollEvents) -> bool {
        let harvested = step(|world| {
            world.harvest(self.poller as usize, events);
            let costs = world.config.machine.costs;
            let set = &mut world.io.pollers[self.poller as usize];
            let is_rung = std::mem::take(&mut set.is_rung);
            if is_rung {
                world.charge(costs.syscall_ns + costs.eventfd_wait_ns);
            }
            is_rung
        });
        harvested == Some(true)
    }
}

impl World {
    /// Takes out the thread that waits in a poller, if one does. The caller must tell it.
    fn take_sleeper(&mut self, poller: usize) -> Option<u32> {
        let sleeper = self.io.pollers[poller].sleeper.take()?;
        let doing = self.threads[sleeper as usize].doing;
        (doing == Doing::Waits(Wait::Parker)).then_some(sleeper)
    }

    /// Wakes the thread that waits in a poller, because of an edge.
    fn wake_sleeper(&mut self, poller: usize) {
        if let Some(sleeper) = self.take_sleeper(poller) {
            self.tell(sleeper);
        }
    }

    /// Moves the edges of a poller into the buffer, in the order in which the descriptors were added.
    fn harvest(&mut self, poller: usize, events: &mut PollEvents) {
        let is_generous = self.config.edges == Edges::Generous;
        events.clear();
        for at in 0..self.io.pollers[poller].members.len() {
            let member = &self.io.pollers[poller].members[at];
            let (fd, token, is_new) = (member.fd, member.token, member.is_new);
            let ready = self.io.fds[fd as usize];
            let repeats =
                is_generous && !is_new && !member.is_muted && self.rng.below(REPEATS) == 0;
            if events.is_full() || !(is_new || repeats) {
                continue;
            }
            self.io.pollers[poller].members[at].is_new = false;
            if !ready.is_empty() {
                events.push(token, ready);
            }
        }
    }

    fn has_edges(&self, poller: usize) -> bool {
        let set = &self.io.pollers[poller];
        let is_ready = |it: &Member| it.is_new && !self.io.fds[it.fd as usize].is_empty();
        set.is_rung || set.members.iter().any(is_ready)
    }

    /// Makes the last test before the wait and arms what ends the wait. `Err` says why there is no wait.
    fn fall_asleep_in(&mut self, poller: usize, until_ns: Option<u64>) -> Result<(), WaitEnd> {
        if self.has_edges(poller) {
            return Err(WaitEnd::Ready);
        }
        if self.fall_asleep(until_ns).is_err() {
            return Err(WaitEnd::Deadline);
        }
        self.io.pollers[poller].sleeper = Some(self.current);
        self.tally.parks += 1;
        self.block(Wait::Parker);
        Ok(())
    }

    /// The thread that waited goes on. Returns why its wait ended.
    fn wake_up_in(&mut self, poller: usize) -> WaitEnd {
        let (current, set) = (self.current, &mut self.io.pollers[poller]);
        set.sleeper.take_if(|sleeper| *sleeper == current);
        let is_rung = set.is_rung;
        let (end, what) = match self.threads[current as usize].why {
            Why::Told if is_rung => (WaitEnd::Rung, 0),
            Why::Told => (WaitEnd::Ready, 3),
            Why::Deadline => (WaitEnd::Deadline, 1),
            Why::Nothing => (WaitEnd::Spurious, 2),
        };
        if end == WaitEnd::Spurious {
            self.fault(3);
        }
        self.tally.parks_rung += u64::from(end == WaitEnd::Rung);
        self.event(EventKind::Unpark, what, 0);
        end
    }
}

impl<const BUG: u8> Poller<Sim<BUG>> for SimPoller {
    type Fd = SimFd;

    /// A poller that is opened outside of any run takes no descriptors.
    fn open() -> Result<Self, PollerError> {
        let opened = step(|world| {
            // Three syscalls: the set, its eventfd, and adding the eventfd to the set.
            let cost = 3 * world.config.machine.costs.syscall_ns;
            world.flush();
            world.event(EventKind::Syscall, 0, cost);
            world.io.pollers.push(Set::default());
            SimPoller {
                world: world.number,
                poller: world.io.pollers.len() as u32 - 1,
            }
        });
        Ok(opened.unwrap_or(SimPoller {
            world: 0,
            poller: 0,
        }))
    }

    fn add(&self, fd: SimFd, token: u64) -> io::Result<()> {
        self.call(0, |world, poller| {
            if fd.world != world.number {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let is_new = !world.io.fds[fd.fd as usize].is_empty();
            let members = &mut world.io.pollers[poller].members;
            if members.iter().any(|member| member.fd == fd.fd) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            members.push(Member {
                fd: fd.fd,
                token,
                is_new,
                is_muted: false,
            });
            if is_new {
                world.wake_sleeper(poller);
            }
            Ok(())
        })
    }

    fn remove(&self, fd: SimFd) -> io::Result<()> {
        self.call(0, |world, poller| {
            let members = &mut world.io.pollers[poller].members;
            let at = members.iter().position(|member| member.fd == fd.fd);
            let at = at.filter(|_| fd.world == world.number);
            members.remove(at.ok_or(io::ErrorKind::NotFound)?);
            Ok(())
        })
    }

    fn set_muted(&self, fd: SimFd, token: u64, is_muted: bool) -> io::Result<()> {
        self.call(0, |world, poller| {
            let members = &mut world.io.pollers[poller].members;
            let at = |it: &&mut Member| it.fd == fd.fd && fd.world == world.number;
            let member = members.iter_mut().find(at).ok_or(io::ErrorKind::NotFound)?;
            (member.token, member.is_muted) = (token, is_muted);
            member.is_new = !is_muted && !world.io.fds[fd.fd as usize].is_empty();
            if member.is_new {
                world.wake_sleeper(poller);
            }
            Ok(())
        })
    }

    fn poll(&self, events: &mut PollEvents) {
        events.clear();
        let _ = self.call(0, |world, poller| {
            world.harvest(poller, events);
            Ok(())
        });
    }

    /// # Panics
    /// Outside of the poller's world, and in a drop while the thread unwinds: the thread would never wake up.
    fn wait(
        &self,
        word: &SimU32,
        seen: u32,
        until_ns: Option<u64>,
        events: &mut PollEvents,
    ) -> WaitEnd {
        events.clear();
        if word.load(Ordering::Relaxed) != seen {
            return WaitEnd::Changed;
        }
        let told = step(|world| {
            world.flush();
            let cost = world.config.machine.costs.syscall_ns;
            world.event(EventKind::Park, 1, cost);
            world.number
        });
        assert_eq!(told, Some(self.world), "who waits outside would never wake");
        let mut sleeps = Err(WaitEnd::Spurious);
        give_up_cpu(|world| {
            sleeps = world.fall_asleep_in(self.poller as usize, until_ns);
            match sleeps {
                Ok(()) => Waits::Yes,
                Err(_) => Waits::No,
            }
        });
        let woken = || step(|world| world.wake_up_in(self.poller as usize));
        let end = match sleeps {
            Ok(()) => woken().unwrap_or(WaitEnd::Spurious),
            Err(end) => end,
        };
        let is_rung = self.take_all(events);
        match end {
            _ if is_rung => WaitEnd::Rung,
            _ if !events.is_empty() => WaitEnd::Ready,
            // Another thread took the events.
            WaitEnd::Ready => WaitEnd::Spurious,
            end => end,
        }
    }

    fn ring(&self) {
        let wake_ns = look(|world| world.config.machine.costs.eventfd_wake_ns).unwrap_or(0);
        let _ = self.call(wake_ns, |world, poller| {
            world.io.pollers[poller].is_rung = true;
            let sleeper = world.take_sleeper(poller);
            world.ring(sleeper);
            Ok(())
        });
    }
}
