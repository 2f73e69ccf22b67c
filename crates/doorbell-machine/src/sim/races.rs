//! Races: two accesses to a cell, one of them a write, that nothing puts in an order.
//!
//! The machine itself is never weaker than x86, so a relaxed ordering that should be none changes
//! no value here. But the orderings say what a thread may rely on: each thread has a clock of
//! what it knows of all others, a store hands that on as far as its ordering says so, a load takes
//! it over as far as its own does (C++11's *happens before*, with fences and release sequences).
//! Who then touches a cell of which it does not know the last user races, whatever the values are.
//!
//! Not known here: what goes through std's own atomics, and that a futex wakes.

use super::config::Failure;
use super::world::{World, look, look_from_anywhere};
use crate::Ordering;
use std::sync::atomic::AtomicU64;

/// For each thread, up to which of its moments everything is known.
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
    /// Known from its next fence on: what its relaxed loads have read.
    read: Clock,
    /// What its last fence lets its relaxed stores hand on.
    fenced: Clock,
}

/// What is known of an atomic, or of a cell.
#[derive(Debug, Default)]
struct Shadow {
    /// What an atomic's value hands on. Of a cell: when each thread has read it since `write`.
    clock: Clock,
    /// The last write of a cell: who, and when.
    write: Option<(u32, u32)>,
}

/// What is known of all threads, atomics and cells of a world.
#[derive(Debug, Default)]
pub(super) struct Races {
    threads: Vec<Known>,
    shadows: Vec<Shadow>,
    free: Vec<u32>,
}

/// Which shadow something has: the number of the world, and that of the shadow plus one.
#[derive(Debug, Default)]
pub(super) struct Shade(AtomicU64);

impl Shade {
    /// Of a cell that the caller makes, which is its first write.
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

/// What is done to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Races {
    /// A thread begins, which knows what its starter knows.
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

    /// What the thread does from here on is not known to those who have heard of it so far.
    fn tick(&mut self, thread: u32) {
        self.threads[thread as usize].now[thread as usize] += 1;
    }

    /// A thread has seen the end of another one.
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

    /// Whose access it races with, if it does.
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
                // A plain store ends what an earlier one handed on.
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
