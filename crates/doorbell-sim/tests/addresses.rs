//! A run does not depend on where the allocator puts things: the same setup is run with memory used
//! again as soon as it is free, as allocators do, and with none used again before the run ends.

// The allocator is none of the machine's.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use doorbell_machine::sim::Memory;
use doorbell_sim::fuzz::{SHAPES, setup};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};

/// Keeps what is freed while it is told to.
struct Keeper {
    keeps: AtomicBool,
    kept: AtomicPtr<Kept>,
}

/// Lies in memory that was freed.
struct Kept {
    layout: Layout,
    next: *mut Kept,
}

#[global_allocator]
static KEEPER: Keeper = Keeper {
    keeps: AtomicBool::new(false),
    kept: AtomicPtr::new(std::ptr::null_mut()),
};

impl Keeper {
    /// Frees what was kept. Nothing else may allocate at this moment.
    fn let_go(&self) {
        self.keeps.store(false, SeqCst);
        let mut next = self.kept.swap(std::ptr::null_mut(), SeqCst);
        while !next.is_null() {
            // SAFETY: `dealloc` wrote it, and nobody else has the list any more.
            let kept = unsafe { next.read() };
            // SAFETY: allocated by `System` with this layout; its owner has freed it.
            unsafe { System.dealloc(next.cast(), kept.layout) };
            next = kept.next;
        }
    }
}

/// With room for [`Kept`].
fn wider(layout: Layout) -> Layout {
    let room = Layout::new::<Kept>();
    let align = layout.align().max(room.align());
    Layout::from_size_align(layout.size().max(room.size()), align).unwrap_or(layout)
}

// SAFETY: `System` with layouts that are no smaller; what is freed is kept out of use or freed.
unsafe impl GlobalAlloc for Keeper {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, and it is no smaller.
        unsafe { System.alloc(wider(layout)) }
    }

    #[allow(clippy::cast_ptr_alignment, reason = "`wider` sees to it")]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let layout = wider(layout);
        if !self.keeps.load(SeqCst) {
            // SAFETY: allocated above with this layout.
            return unsafe { System.dealloc(ptr, layout) };
        }
        let it = ptr.cast::<Kept>();
        let mut next = self.kept.load(SeqCst);
        loop {
            // SAFETY: the memory is free, wide enough and aligned; it is the list's from here on.
            unsafe { it.write(Kept { layout, next }) };
            match self.kept.compare_exchange(next, it, SeqCst, SeqCst) {
                Ok(_) => return,
                Err(seen) => next = seen,
            }
        }
    }
}

#[test]
fn a_run_is_the_same_wherever_its_memory_lies() {
    let cores = "2..16".parse().expect("it is a range");
    let mut differ = Vec::new();
    // Among them are 570 and 5926, which differed while an exchange compared addresses alone.
    for seed in (0..60).chain(560..580).chain(5920..5930) {
        let memory = [Memory::Sc, Memory::Tso][seed as usize % 2];
        let setup = setup(seed, cores, memory, None);
        for shape in SHAPES {
            let run = || (shape.run)(&setup, None).expect("the machine can be simulated");
            let again = run();
            KEEPER.keeps.store(true, SeqCst);
            let fresh = run();
            KEEPER.let_go();
            if (again.hash, again.events) != (fresh.hash, fresh.events) {
                differ.push((seed, shape.name));
            }
        }
    }
    assert!(differ.is_empty(), "{} differ: {differ:?}", differ.len());
}
