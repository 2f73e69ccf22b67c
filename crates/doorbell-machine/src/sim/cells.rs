//! Cells, lines and counters of the simulated machine.

use super::config::EventKind;
use super::races::{Access, Shade};
use super::words::Tag;
use super::world::{World, look, look_anyway, look_from_anywhere, step};
use crate::{Cell, Counter, Line, Ordering};
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

/// What an oracle records. It is no part of the simulated machine: its accesses are no events.
#[derive(Debug, Default)]
pub struct SimRecord<T>(Mutex<T>);

impl<T> SimRecord<T> {
    /// Calls `f` with the record. Nothing that `f` does may be an event, because other threads would run meanwhile.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Memory that is not atomic. Its accesses are events that cost time.
pub struct SimCell<T> {
    value: UnsafeCell<T>,
    place: Place,
    shade: Shade,
}

/// The line in which a cell lies. It is a type of its own because it has a `Drop`.
#[derive(Debug, Default)]
struct Place(Tag);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = look_from_anywhere(|world| self.0.leave(world));
    }
}

impl<T> std::fmt::Debug for SimCell<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimCell")
    }
}

impl<T> Cell<T> for SimCell<T> {
    fn new(value: T) -> Self {
        SimCell {
            value: UnsafeCell::new(value),
            place: Place(Tag::new()),
            shade: Shade::of_new_cell(),
        }
    }
    #[inline]
    fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        step(|world| {
            let line = world.line_of(&self.place.0);
            world.note_access(&self.shade, Access::Read);
            let cost = world
                .lines
                .read(line, world.cpu, world.now_ns, &mut world.rng);
            world.event(EventKind::Read, line, cost);
        })
        .unwrap_or_else(|| self.place.0.check());
        f(self.value.get())
    }
    #[inline]
    fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        step(|world| {
            let line = world.line_of(&self.place.0);
            world.note_access(&self.shade, Access::Write);
            let cost = world.write_line(line);
            world.event(EventKind::Write, line, cost);
        })
        .unwrap_or_else(|| self.place.0.check());
        f(self.value.get())
    }
}

/// A cache line. All that its closure makes lies in it.
#[derive(Debug)]
pub struct SimLine<T> {
    value: T,
    place: Place,
}

impl<T> SimLine<T> {
    /// Its number in the world.
    pub(super) fn line(&self, world: &mut World) -> u32 {
        world.line_of(&self.place.0)
    }
}

impl<T> std::ops::Deref for SimLine<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Line<T> for SimLine<T> {
    fn new(make: impl FnOnce() -> T) -> Self {
        struct Made(Option<u32>);
        impl Drop for Made {
            fn drop(&mut self) {
                let _ = look_anyway(|w| w.threads[w.current as usize].making = self.0);
            }
        }
        let place = Place::default();
        let outer = look(|world| {
            let line = world.line_of(&place.0);
            world.threads[world.current as usize].making.replace(line)
        });
        let made = outer.map(Made);
        let value = make();
        drop(made);
        SimLine { value, place }
    }
}

/// A counter. Its accesses are no events, because a counter steers nothing.
#[derive(Debug, Default)]
pub struct SimCounter(AtomicU64);

impl Counter for SimCounter {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
    fn add_shared(&self, n: u64) -> u64 {
        self.0.fetch_add(n, Ordering::Relaxed)
    }
}
