//! The same steps written by hand, with std atomics and for one machine only.

use std::ptr::{NonNull, null_mut, without_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

const NOTIFY: u32 = 1;
const RESCHED: u32 = 2;
const PARKED: u32 = 8;

struct Node {
    next: AtomicPtr<Node>,
    run: unsafe fn(NonNull<Node>, &Queue),
}

/// Where a worker would queue tasks. Calls get it and do not use it.
struct Queue {
    _oldest: *mut Node,
}

#[repr(C)]
struct Call {
    node: Node,
    ran: u64,
}

#[repr(align(128))]
struct Shared {
    bell: AtomicU32,
    head: AtomicPtr<Node>,
}

struct Remote {
    shared: Shared,
    switches: Arc<AtomicU64>,
}

fn free() -> *mut Node {
    without_provenance_mut(2)
}

fn closed() -> *mut Node {
    without_provenance_mut(1)
}

impl Remote {
    /// Pushes the node, and reads the bell in case the worker has to be notified.
    #[inline]
    unsafe fn post(&self, node: NonNull<Node>) -> bool {
        // SAFETY: the caller's node is alive.
        let link = unsafe { node.as_ref() };
        while let Err(seen) = link.next.compare_exchange_weak(
            free(),
            null_mut(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            assert!(seen == free(), "posted twice");
        }
        let mut head = self.shared.head.load(Ordering::Relaxed);
        loop {
            if head == closed() {
                link.next.store(free(), Ordering::Relaxed);
                return false;
            }
            link.next.store(head, Ordering::Relaxed);
            let pushed = self.shared.head.compare_exchange_weak(
                head,
                node.as_ptr(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match pushed {
                Ok(_) => break,
                Err(seen) => head = seen,
            }
        }
        if self.switches.load(Ordering::Relaxed) != 0 {
            self.by_switches(!head.is_null());
        }
        compiler_fence(Ordering::SeqCst);
        let bell = self.shared.bell.load(Ordering::Relaxed);
        if bell & NOTIFY == 0 && bell & PARKED != 0 {
            self.tell(!head.is_null());
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn tell(&self, behind: bool) {
        self.shared.bell.fetch_or(NOTIFY, Ordering::Release);
        unreachable!("nobody is parked here, behind another poster ({behind}) or not");
    }

    #[cold]
    #[inline(never)]
    fn by_switches(&self, behind: bool) {
        let rules = self.switches.load(Ordering::Relaxed);
        unreachable!("switches {rules} are set, behind another poster ({behind}) or not");
    }

    /// Clears the signals, takes the mailbox, reverses its order and runs it.
    #[inline]
    unsafe fn serve(&self, queue: &Queue) -> u64 {
        prefetch(self.shared.head.load(Ordering::Relaxed));
        if self.shared.bell.load(Ordering::Relaxed) & (NOTIFY | RESCHED) != 0 {
            self.shared
                .bell
                .fetch_and(!(NOTIFY | RESCHED), Ordering::AcqRel);
        }
        if self.shared.head.load(Ordering::Relaxed).is_null() {
            return 0;
        }
        let taken = self.shared.head.swap(null_mut(), Ordering::AcqRel);
        if taken == closed() {
            return 0;
        }
        let mut next = oldest_first(taken);
        let mut ran = 0;
        while let Some(node) = NonNull::new(next) {
            // SAFETY: taken nodes are alive until they have run.
            let link = unsafe { node.as_ref() };
            next = link.next.load(Ordering::Relaxed);
            link.next.store(free(), Ordering::Relaxed);
            // SAFETY: as above.
            unsafe { (link.run)(node, queue) };
            ran += 1;
        }
        ran
    }
}

#[inline]
fn oldest_first(newest: *mut Node) -> *mut Node {
    let mut node = newest;
    let mut oldest: *mut Node = null_mut();
    while let Some(link) = NonNull::new(node) {
        // SAFETY: taken nodes are alive until they have run.
        let link = unsafe { link.as_ref() };
        let before = link.next.load(Ordering::Relaxed);
        if oldest.is_null() && before.is_null() {
            return node;
        }
        link.next.store(oldest, Ordering::Relaxed);
        oldest = node;
        node = before;
    }
    oldest
}

fn prefetch(node: *const Node) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is only a hint, whatever the address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) node, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = node;
}

unsafe fn run(node: NonNull<Node>, _queue: &Queue) {
    // SAFETY: the node is the first field of a call that outlives the mailbox.
    unsafe { (*node.cast::<Call>().as_ptr()).ran += 1 };
}

#[inline(never)]
fn post(remote: &Remote, node: NonNull<Node>) -> bool {
    // SAFETY: the call stays in place until it is taken.
    unsafe { remote.post(node) }
}

#[inline(never)]
fn serve(remote: &Remote, queue: &Queue) -> u64 {
    // SAFETY: this thread is the worker.
    unsafe { remote.serve(queue) }
}

#[inline(never)]
pub(crate) fn calls(count: usize, batch: usize) -> u64 {
    let remote = Remote {
        shared: Shared {
            bell: AtomicU32::new(0),
            head: AtomicPtr::new(null_mut()),
        },
        switches: Arc::new(AtomicU64::new(0)),
    };
    let mut calls: Vec<Call> = (0..batch)
        .map(|_| Call {
            node: Node {
                next: AtomicPtr::new(free()),
                run,
            },
            ran: 0,
        })
        .collect();
    let queue = Queue {
        _oldest: null_mut(),
    };
    let base = calls.as_mut_ptr();
    let mut taken = 0;
    for _ in 0..count / batch {
        for i in 0..batch {
            // SAFETY: inside the vector, which is not accessed otherwise meanwhile.
            let node = unsafe { NonNull::new_unchecked(base.add(i).cast()) };
            assert!(post(&remote, node));
        }
        taken += serve(&remote, &queue);
    }
    assert_eq!(taken, count as u64);
    calls.iter().map(|call| call.ran).sum()
}
