//! Atomics of the simulated machine.
//!
//! An atomic is a plain value that knows its cache line. Its steps are no atomic ones for threads of the OS, so it
//! belongs to the OS thread whose world made it or touched it first: an access from any other panics. One that no world
//! has touched yet is a std atomic.

use super::buffer::Pending;
use super::config::{EventKind, Failure};
use super::queue::What;
use super::races::Shade;
use super::world::{World, home, look, look_anyway, step};
use crate::{Ordering, PtrWord, Word};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the simulated machine keeps 64-bit atomics in pointers: build it for 64 bits");

/// The line in which something lies, and to whom it belongs.
#[derive(Debug, Default)]
pub(super) struct Tag {
    /// The number of the world, the number of the line, and whether nothing else lies in that line.
    place: AtomicU64,
    /// The number of the OS thread that alone may touch it; 0 until a world has.
    home: AtomicU32,
}

/// What an OS thread is told that touches what belongs to another.
const ELSEWHERE: &str = "something of a simulation (a lock, a task, a waker) was used on a thread of the OS that does not run that simulation; make it inside the program, anew in each run, keep it out of statics, and start threads with `spawn_blocking`";

/// The tag after the drop. No world has this number.
const DROPPED: u64 = u64::MAX;

impl Tag {
    /// The tag for the line that the thread makes now; no line yet if it makes none.
    pub(super) fn new() -> Self {
        let tag = Tag::default();
        let _ = look_anyway(|world| {
            tag.home.store(world.home, Ordering::Relaxed);
            if let Some(line) = world.threads[world.current as usize].making {
                tag.set(world.number, line, false);
            }
        });
        tag
    }

    fn set(&self, world: u32, line: u32, own: bool) {
        let tag = u64::from(world) << 32 | u64::from(line) << 1 | u64::from(own);
        self.place.store(tag, Ordering::Relaxed);
    }

    /// Makes it belong to an OS thread. `false` if it belongs to another.
    pub(super) fn belongs(&self, home: u32) -> bool {
        let relaxed = Ordering::Relaxed;
        let before = self.home.compare_exchange(0, home, relaxed, relaxed);
        before.is_ok() || before == Err(home)
    }

    /// Whether it belongs to an OS thread other than this.
    fn is_elsewhere(&self) -> bool {
        let owner = self.home.load(Ordering::Relaxed);
        owner != 0 && owner != home()
    }

    /// For accesses that are no steps.
    ///
    /// # Panics
    /// If it belongs to another OS thread.
    #[cold]
    pub(super) fn check(&self) {
        assert!(!self.is_elsewhere(), "{ELSEWHERE}");
    }

    pub(super) fn set_own(&self, world: u32, line: u32) {
        self.set(world, line, true);
    }

    #[inline]
    pub(super) fn line_in(&self, world: u32) -> Option<u32> {
        let tag = self.place.load(Ordering::Relaxed);
        (tag >> 32 == u64::from(world)).then_some((tag as u32) >> 1)
    }

    /// Gives back a line that nothing else lies in. An access after this is reported, if the memory is still
    /// unchanged.
    pub(super) fn leave(&self, world: &mut World) {
        let is_own = self.place.load(Ordering::Relaxed) & 1 != 0;
        if let Some(line) = self.line_in(world.number).filter(|_| is_own) {
            world.lines.remove(line);
        }
        self.place.store(DROPPED, Ordering::Relaxed);
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.place.load(Ordering::Relaxed) == DROPPED
    }
}

/// The common part of all atomics. Numbers are stored as pointers without provenance.
#[derive(Debug)]
pub(super) struct Core {
    value: AtomicPtr<()>,
    tag: Tag,
    /// The number plus one of the only thread that has touched it so far; 0 once there were two. A store of
    /// the only thread is not buffered: no other thread looks, and the atomic may still be moved.
    only: AtomicU32,
    /// How many stores to it are in store buffers.
    pending: AtomicU32,
    /// Incremented by each change that other threads see.
    turn: AtomicU32,
    shade: Shade,
}

impl Core {
    fn new(value: *mut ()) -> Self {
        Core {
            value: AtomicPtr::new(value),
            tag: Tag::new(),
            only: AtomicU32::new(look(|world| world.current + 1).unwrap_or(0)),
            pending: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            shade: Shade::default(),
        }
    }

    #[inline]
    fn get(&self) -> *mut () {
        self.value.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, value: *mut ()) {
        self.value.store(value, Ordering::Relaxed);
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
    }

    /// Uses the atomic as a plain value: outside of any world, and while a thread unwinds.
    #[cold]
    fn plainly<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        self.tag.check();
        let _ = look_anyway(World::flush_quietly);
        f(self)
    }

    #[inline]
    pub(super) fn load(&self, order: Ordering) -> *mut () {
        step(|world| world.load(self, order)).unwrap_or_else(|| self.plainly(Core::get_plainly))
    }

    /// As [`Core::load`], for a thread that will compare: notes what it has seen.
    #[inline]
    fn look(&self, order: Ordering) -> *mut () {
        let look = |world: &mut World| {
            world.note_seen(self);
            world.load(self, order)
        };
        step(look).unwrap_or_else(|| self.plainly(Core::get_plainly))
    }

    #[inline]
    fn store(&self, value: *mut (), order: Ordering) {
        step(|world| world.store(self, value, order)).unwrap_or_else(|| {
            self.plainly(|it| it.change_plainly(|_| Some(value)));
        });
    }

    /// Changes the value to what `f` returns, if it returns one. Returns the value before, and whether it was
    /// changed. `f` gets the value, and whether it is unchanged since this thread's last look.
    #[inline]
    fn change(
        &self,
        (ok, fail): (Ordering, Ordering),
        f: impl Fn(*mut (), bool) -> Option<*mut ()>,
    ) -> (*mut (), bool) {
        let _ = look(|world| world.is_tso()).is_some_and(|tso| tso && step(World::flush).is_some());
        let change = |it: &Core, as_seen| {
            let before = it.get();
            let after = f(before, as_seen);
            if let Some(after) = after {
                it.set(after);
            }
            (before, after.is_some())
        };
        step(|world| {
            let line = world.line_of(&self.tag);
            world.note_touch(self);
            let (before, has_changed) = change(self, world.has_seen(self));
            if has_changed {
                world.note_change(&self.shade, ok);
            } else {
                world.note_seen(self);
                world.note_load(&self.shade, fail);
            }
            world.threads[world.current as usize].has_stored = false;
            let cost = world.write_line(line) + world.config.machine.costs.rmw_extra_ns;
            world.event(EventKind::Rmw, line, cost);
            (before, has_changed)
        })
        .unwrap_or_else(|| self.plainly(|it| it.change_plainly(|before| f(before, true))))
    }

    fn get_plainly(&self) -> *mut () {
        // ORDER: Acquire, with all changes outside of a world.
        self.value.load(Ordering::Acquire)
    }

    /// Changes the value as a std atomic.
    fn change_plainly(&self, f: impl Fn(*mut ()) -> Option<*mut ()>) -> (*mut (), bool) {
        // ORDER: AcqRel and Acquire, with all other changes outside of a world, whatever the caller asked for.
        let (ok, fail) = (Ordering::AcqRel, Ordering::Acquire);
        let before = self.value.fetch_update(ok, fail, f);
        if before.is_ok() {
            self.turn.fetch_add(1, Ordering::Relaxed);
        }
        (before.unwrap_or_else(|before| before), before.is_ok())
    }
}

/// Ends the program, because memory would be freed to which a world still has a store pending.
#[cold]
extern "C" fn dropped_elsewhere() -> ! {
    // A panic cannot leave a function of this kind: the program aborts with the text.
    panic!("{ELSEWHERE}");
}

impl Drop for Core {
    fn drop(&mut self) {
        // ORDER: Acquire, with the Release of the last drain, which touches the atomic no more.
        if self.tag.is_elsewhere() && self.pending.load(Ordering::Acquire) > 0 {
            dropped_elsewhere();
        }
        let _ = super::world::look_from_anywhere(|world| {
            if self.pending.load(Ordering::Relaxed) > 0 {
                world.forget_stores(self);
            }
            self.tag.leave(world);
        });
    }
}

/// What a thread saw when it looked at a pointer: the atomic's address, and its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen(usize, u32);

impl Seen {
    fn of(core: &Core) -> Self {
        let turn = core.turn.load(Ordering::Relaxed);
        Seen(std::ptr::from_ref(core).addr(), turn)
    }
}

impl World {
    #[inline]
    fn note_seen(&mut self, core: &Core) {
        self.threads[self.current as usize].seen = Seen::of(core);
    }

    #[inline]
    fn has_seen(&self, core: &Core) -> bool {
        let (seen, now) = (self.threads[self.current as usize].seen, Seen::of(core));
        seen.0 == now.0 && seen.1 == now.1
    }

    /// Notes that the running thread touches an atomic. A second thread makes it a shared one.
    #[inline]
    fn note_touch(&self, core: &Core) {
        if self.is_tso() && core.only.load(Ordering::Relaxed) != self.current + 1 {
            core.only.store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn load(&mut self, core: &Core, order: Ordering) -> *mut () {
        let line = self.line_of(&core.tag);
        self.note_touch(core);
        self.note_load(&core.shade, order);
        let buffer = &self.threads[self.current as usize].buffer;
        if !buffer.is_empty()
            && let Some(value) = buffer.newest(core)
        {
            let cost = self.config.machine.costs.own_hit_ns;
            self.event(EventKind::Load, line, cost);
            return value;
        }
        let cost = self.lines.read(line, self.cpu, self.now_ns, &mut self.rng);
        self.event(EventKind::Load, line, cost);
        core.get()
    }

    #[inline]
    fn store(&mut self, core: &Core, value: *mut (), order: Ordering) {
        let line = self.line_of(&core.tag);
        self.note_touch(core);
        self.note_store(&core.shade, order);
        self.threads[self.current as usize].has_stored = true;
        if self.is_tso() {
            return self.store_later(core, value, line);
        }
        core.set(value);
        let cost = self.write_line(line);
        self.event(EventKind::Store, line, cost);
    }

    /// The CPU writes a line, and the threads that spin on it look again. Returns the cost.
    #[inline]
    pub(super) fn write_line(&mut self, line: u32) -> u64 {
        let cost = self.lines.write(line, self.cpu, self.now_ns, &mut self.rng);
        self.tell_spinners(line);
        cost
    }

    fn store_later(&mut self, core: &Core, value: *mut (), line: u32) {
        if core.only.load(Ordering::Relaxed) == self.current + 1 {
            self.flush();
            core.set(value);
            let cost = self.write_line(line);
            return self.event(EventKind::Store, line, cost);
        }
        let (thread, spec) = (self.current, &self.config.machine);
        let (cost, full) = (spec.costs.own_hit_ns, spec.store_buffer);
        let due_ns = self.now_ns.saturating_add(self.rng.within(spec.drain_ns));
        let buffer = &mut self.threads[thread as usize].buffer;
        let was_empty = buffer.is_empty();
        core.pending.fetch_add(1, Ordering::Relaxed);
        buffer.push(Pending {
            core,
            value,
            line,
            // Stores drain in order, so it is not due before the store in front of it.
            due_ns: due_ns.max(buffer.last_ns()),
        });
        let (len, turn) = (buffer.len(), buffer.turn);
        self.event(EventKind::Store, line, cost);
        if was_empty {
            self.schedule(due_ns, What::Drain, thread, turn);
        } else if len > full {
            let cost = self.drain_oldest(thread);
            self.charge(cost);
        }
    }

    /// Makes the oldest store of a thread visible; returns what that costs.
    fn drain_oldest(&mut self, thread: u32) -> u64 {
        let Some(oldest) = self.threads[thread as usize].buffer.pop() else {
            return 0;
        };
        // SAFETY: the drop of an atomic takes its stores out of all buffers first, so it is alive.
        let core = unsafe { &*oldest.core };
        core.set(oldest.value);
        // ORDER: Release, with the Acquire in the drop of an atomic on another OS thread.
        core.pending.fetch_sub(1, Ordering::Release);
        let (cpu, now_ns) = (self.threads[thread as usize].cpu, self.now_ns);
        let cost = self.lines.write(oldest.line, cpu, now_ns, &mut self.rng);
        self.record(now_ns, cpu, thread, EventKind::Drain, oldest.line);
        self.tell_spinners(oldest.line);
        cost
    }

    /// Drains the oldest store of a thread, which is due, and schedules the next one.
    pub(super) fn drain(&mut self, thread: u32) {
        let turn = self.threads[thread as usize].buffer.turn;
        self.drain_oldest(thread);
        if let Some(due_ns) = self.threads[thread as usize].buffer.first_ns() {
            self.schedule(due_ns.max(self.now_ns), What::Drain, thread, turn);
        }
    }

    /// Makes all stores of the running thread visible. It waits for that.
    #[inline]
    pub(super) fn flush(&mut self) {
        while !self.threads[self.current as usize].buffer.is_empty() {
            let cost = self.drain_oldest(self.current);
            self.charge(cost);
        }
    }

    /// Makes all stores of a thread visible, without making it wait.
    pub(super) fn flush_of(&mut self, thread: u32) {
        while !self.threads[thread as usize].buffer.is_empty() {
            self.drain_oldest(thread);
        }
    }

    /// Makes all stores visible: the OS makes every CPU run a barrier.
    pub(super) fn drain_all(&mut self) {
        (0..self.threads.len() as u32).for_each(|thread| self.flush_of(thread));
    }

    /// Takes all stores out of the buffers, at the end of the run.
    pub(super) fn forget_all_stores(&mut self) {
        for thread in &mut self.threads {
            while let Some(oldest) = thread.buffer.pop() {
                // SAFETY: as in `drain_oldest`.
                let core = unsafe { &*oldest.core };
                // ORDER: as in `drain_oldest`.
                core.pending.fetch_sub(1, Ordering::Release);
            }
        }
    }

    /// The run fails: something was touched that belongs to another OS thread.
    ///
    /// # Panics
    /// Always, because the access must not happen.
    #[cold]
    pub(super) fn refuse(&mut self) -> ! {
        let thread = self.threads[self.current as usize].name.clone();
        self.fail(Failure::Elsewhere { thread });
        panic!("{ELSEWHERE}");
    }

    fn flush_quietly(&mut self) {
        self.flush_of(self.current);
    }

    /// Removes the stores to an atomic that is dropped. The run fails if one is from a thread other than the
    /// running one.
    fn forget_stores(&mut self, core: &Core) {
        for thread in 0..self.threads.len() {
            let it = &mut self.threads[thread];
            if it.buffer.forget(core) && thread as u32 != self.current {
                let thread = it.name.clone();
                let line = core.tag.line_in(self.number).unwrap_or(u32::MAX);
                self.fail(Failure::StoreToDropped { thread, line });
            }
        }
    }
}

/// The pointer as which a number is stored.
fn kept(value: u64) -> *mut () {
    std::ptr::without_provenance_mut(value as usize)
}

macro_rules! word {
    ($name:ident, $value:ty, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug)]
        pub struct $name(Core);

        impl $name {
            #[inline]
            fn change(&self, order: Ordering, f: impl Fn($value) -> $value) -> $value {
                let of = |ptr: *mut ()| ptr.addr() as $value;
                let change = |before, _| Some(kept(f(of(before)).into()));
                of(self.0.change((order, order), change).0)
            }
        }

        impl Word<$value> for $name {
            fn new(value: $value) -> Self {
                $name(Core::new(kept(value.into())))
            }
            #[inline]
            fn load(&self, order: Ordering) -> $value {
                self.0.load(order).addr() as $value
            }
            #[inline]
            fn store(&self, value: $value, order: Ordering) {
                self.0.store(kept(value.into()), order);
            }
            #[inline]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.change(order, |_| value)
            }
            #[inline]
            fn fetch_or(&self, bits: $value, order: Ordering) -> $value {
                self.change(order, |before| before | bits)
            }
            #[inline]
            fn fetch_and(&self, bits: $value, order: Ordering) -> $value {
                self.change(order, |before| before & bits)
            }
            #[inline]
            fn fetch_xor(&self, bits: $value, order: Ordering) -> $value {
                self.change(order, |before| before ^ bits)
            }
            #[inline]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.change(order, |before| before.wrapping_add(value))
            }
            #[inline]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.change(order, |before| before.wrapping_sub(value))
            }
            #[inline]
            fn compare_exchange(
                &self,
                seen: $value,
                new: $value,
                ok: Ordering,
                fail: Ordering,
            ) -> Result<$value, $value> {
                let (old, new) = (kept(seen.into()), kept(new.into()));
                let change = |before, _| (before == old).then_some(new);
                let (before, has_changed) = self.0.change((ok, fail), change);
                let before = before.addr() as $value;
                if has_changed { Ok(before) } else { Err(before) }
            }
        }
    };
}

word!(SimU32, u32, "A simulated atomic of 32 bits.");
word!(SimU64, u64, "A simulated atomic of 64 bits.");

/// A simulated atomic pointer.
pub struct SimPtr<T>(Core, std::marker::PhantomData<*mut T>);

// SAFETY: it is an atomic pointer, which may go to any thread, like std's.
unsafe impl<T> Send for SimPtr<T> {}
// SAFETY: as for Send.
unsafe impl<T> Sync for SimPtr<T> {}

impl<T> std::fmt::Debug for SimPtr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimPtr")
    }
}

impl<T> PtrWord<T> for SimPtr<T> {
    fn new(ptr: *mut T) -> Self {
        SimPtr(Core::new(ptr.cast()), std::marker::PhantomData)
    }
    #[inline]
    fn load(&self, order: Ordering) -> *mut T {
        self.0.look(order).cast()
    }
    #[inline]
    fn store(&self, ptr: *mut T, order: Ordering) {
        self.0.store(ptr.cast(), order);
    }
    #[inline]
    fn swap(&self, ptr: *mut T, order: Ordering) -> *mut T {
        self.0
            .change((order, order), |_, _| Some(ptr.cast()))
            .0
            .cast()
    }
    #[inline]
    fn compare_exchange_weak(
        &self,
        seen: *mut T,
        new: *mut T,
        ok: Ordering,
        fail: Ordering,
    ) -> Result<*mut T, *mut T> {
        // Whether freed memory comes back at the same address is up to the allocator, not to the seed. So the
        // exchange fails if the pointer was changed at all since this thread's last look. A weak exchange may
        // do that.
        let change = |it: *mut (), as_seen| {
            let equal = it == seen.cast() && (as_seen || is_no_place(it));
            equal.then_some(new.cast())
        };
        let (before, has_changed) = self.0.change((ok, fail), change);
        if has_changed {
            Ok(before.cast())
        } else {
            Err(before.cast())
        }
    }
}

/// Whether it is null or one of the marks that some words use: no memory lies at such an address.
fn is_no_place(ptr: *mut ()) -> bool {
    ptr.addr() < 4096
}
