//! Races: two accesses to a cell, one of them a write, that nothing orders.
//!
//! The machine itself is never weaker than x86, so an ordering that is wrongly Relaxed changes no value here.
//! But the orderings say what a thread may rely on. Each thread has a vector clock of what it knows of all
//! others. A store passes the clock on as far as its ordering allows, and a load takes it over as far as its
//! own ordering allows (C++11's *happens before*, with fences and release sequences). A thread that accesses
//! a cell without knowing of its last user races, whatever the values are.
//!
//! What goes through std's own atomics, and the order that a futex's wake makes, are not known here.

use super::config::Failure;
use super::world::{World, look, look_from_anywhere};
use crate::Ordering;
use std::sync::atomic::AtomicU64;

/// A vector clock: for each thread, up to which of its moments everything is known.
type Clock = Vec<u32>;

fn join(clock: &mut Clock, other: &[u32]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

fn acquires(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst
    )
}

fn releases(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Release | Ordering::AcqRel | Ordering::SeqCst
    )
}

/// What a thread knows.
#[derive(Debug, Default)]
struct Known {
    now: Clock,
    /// What its Relaxed loads have read, which it knows from its next fence on.
    read: Clock,
    /// What its Relaxed stores pass on since its last fence.
    fenced: Clock,
}

/// What is known of an atomic, or of a cell.
#[derive(Debug, Default)]
struct Shadow {
    /// For an atomic: what its value passes on. For a cell: when each thread has read it since `write`.
    clock: Clock,
    /// The last write of a cell: its thread and moment.
    write: Option<(u32, u32)>,
}

/// What is known of all threads, atomics and cells of a world.
#[derive(Debug, Default)]
pub(super) struct Races {
    threads: Vec<Known>,
    shadows: Vec<Shadow>,
    free: Vec<u32>,
}

/// The shadow of an atomic or a cell: the number of the world, and the number of the shadow plus one.
#[derive(Debug, Default)]
pub(super) struct Shade(AtomicU64);

impl Shade {
    /// The shade of a cell that the caller makes. Making it counts as its first write.
    pub(super) fn of_new_cell() -> Self {
        let shade = Shade::default();
        let _ = look(|world| world.note_access(&shade, Access::Write));
        shade
    }

    fn index_in(&self, world: u32) -> Option<usize> {
        let kept = self.0.load(Ordering::Relaxed);
        (kept >> 32 == u64::from(world))
            .then_some(kept as u32)?
            .checked_sub(1)
            .map(|index| index as usize)
    }
}

impl Drop for Shade {
    fn drop(&mut self) {
        if self.0.load(Ordering::Relaxed) == 0 {
            return;
        }
        let _ = look_from_anywhere(|world| {
            let (number, races) = (world.number, world.races.as_mut());
            let Some((races, index)) = races.zip(self.index_in(number)) else {
                return;
            };
            if let Some(shadow) = races.shadows.get_mut(index) {
                *shadow = Shadow::default();
                races.free.push(index as u32);
            }
        });
    }
}

/// An access to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Races {
    /// A thread begins. It knows what its starter knows.
    pub(super) fn begin(&mut self, thread: u32, starter: Option<u32>) {
        let mut now = starter.map_or_else(Clock::new, |it| self.threads[it as usize].now.clone());
        now.resize(thread as usize + 1, 0);
        now[thread as usize] = 1;
        self.threads.push(Known {
            now,
            ..Known::default()
        });
        if let Some(starter) = starter {
            self.tick(starter);
        }
    }

    /// Begins a new moment of the thread. Threads that know it up to now do not know what it does from here
    /// on.
    fn tick(&mut self, thread: u32) {
        self.threads[thread as usize].now[thread as usize] += 1;
    }

    /// A thread has joined another one that ended.
    pub(super) fn join(&mut self, thread: u32, ended: u32) {
        let theirs = self.threads[ended as usize].now.clone();
        join(&mut self.threads[thread as usize].now, &theirs);
    }

    fn shadow(&mut self, shade: &Shade, world: u32) -> usize {
        if let Some(index) = shade.index_in(world) {
            return index;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.shadows.push(Shadow::default());
            self.shadows.len() as u32 - 1
        });
        let kept = u64::from(world) << 32 | (u64::from(index) + 1);
        shade.0.store(kept, Ordering::Relaxed);
        index as usize
    }

    fn load(&mut self, shadow: usize, thread: u32, order: Ordering) {
        let it = &mut self.threads[thread as usize];
        let known = if acquires(order) {
            &mut it.now
        } else {
            &mut it.read
        };
        join(known, &self.shadows[shadow].clock);
    }

    fn store(&mut self, shadow: usize, thread: u32, order: Ordering) {
        let it = &self.threads[thread as usize];
        let handed = if releases(order) { &it.now } else { &it.fenced };
        join(&mut self.shadows[shadow].clock, handed);
        if releases(order) {
            self.tick(thread);
        }
    }

    fn fence(&mut self, thread: u32) {
        let it = &mut self.threads[thread as usize];
        join(&mut it.now, &it.read);
        it.fenced.clone_from(&it.now);
        self.tick(thread);
    }

    /// The access with which this one races, and its thread, if it does.
    fn access(&mut self, shadow: usize, thread: u32, access: Access) -> Option<(u32, Access)> {
        let now = &self.threads[thread as usize].now;
        let known = |other: u32, at: u32| now.get(other as usize).copied().unwrap_or(0) >= at;
        let it = self.shadows.get_mut(shadow)?;
        if let Some((writer, at)) = it.write
            && !known(writer, at)
        {
            return Some((writer, Access::Write));
        }
        let at = now[thread as usize];
        if access == Access::Read {
            let len = it.clock.len().max(thread as usize + 1);
            it.clock.resize(len, 0);
            it.clock[thread as usize] = at;
            return None;
        }
        let mut reads = (0..).zip(it.clock.iter().copied());
        if let Some((reader, _)) = reads.find(|(reader, at)| !known(*reader, *at)) {
            return Some((reader, Access::Read));
        }
        it.clock.clear();
        it.write = Some((thread, at));
        None
    }
}

impl World {
    #[cold]
    fn with_shadow(&mut self, shade: &Shade, f: impl FnOnce(&mut Races, usize, u32)) {
        let (number, thread) = (self.number, self.current);
        if let Some(races) = &mut self.races {
            let shadow = races.shadow(shade, number);
            if shadow < races.shadows.len() {
                f(races, shadow, thread);
            }
        }
    }

    #[inline]
    pub(super) fn note_load(&mut self, shade: &Shade, order: Ordering) {
        if self.races.is_some() {
            self.with_shadow(shade, |races, shadow, thread| {
                races.load(shadow, thread, order);
            });
        }
    }

    #[inline]
    pub(super) fn note_store(&mut self, shade: &Shade, order: Ordering) {
        if self.races.is_some() {
            self.with_shadow(shade, |races, shadow, thread| {
                // A plain store ends the release sequence of an earlier one.
                races.shadows[shadow].clock.clear();
                races.store(shadow, thread, order);
            });
        }
    }

    #[inline]
    pub(super) fn note_change(&mut self, shade: &Shade, order: Ordering) {
        if self.races.is_some() {
            self.with_shadow(shade, |races, shadow, thread| {
                races.load(shadow, thread, order);
                races.store(shadow, thread, order);
            });
        }
    }

    #[inline]
    pub(super) fn note_fence(&mut self) {
        let thread = self.current;
        if let Some(races) = &mut self.races {
            races.fence(thread);
        }
    }

    #[inline]
    pub(super) fn note_access(&mut self, shade: &Shade, access: Access) {
        if self.races.is_none() {
            return;
        }
        let mut found = None;
        self.with_shadow(shade, |races, shadow, thread| {
            found = races.access(shadow, thread, access);
        });
        if let Some((other, theirs)) = found {
            let name = |thread: u32| self.threads[thread as usize].name.clone();
            let done = |access| match access {
                Access::Read => "read",
                Access::Write => "wrote",
            };
            let failure = Failure::Race {
                first: name(other),
                did: done(theirs),
                second: name(self.current),
                does: done(access),
            };
            self.fail(failure);
        }
    }
}
