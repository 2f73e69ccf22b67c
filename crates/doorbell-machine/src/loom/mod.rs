//! The model-checking backend: loom's atomics, cells and threads.
//!
//! A test chooses a mutant ([`Bug`]) while the program runs ([`break_thread`]), to show that the checker
//! notices it. So the protocols are built once, not once for each mutant.
//!
//! The backend does not model:
//!
//! * time: a spin looks twice and gives up. A park with a deadline ends at once, and its thread's clock shows
//!   the deadline from then on. A deadline of `u64::MAX` never comes;
//! * costs;
//! * stale reads inside the kernel: a futex compares the current value, and so does the parker here.
//!
//! The beginning and the end of a word or a cell are accesses too, so loom reports when they race with others
//! (`words.rs`). Loom does not see the count of std's `Arc`. A model that shares words by one must keep a
//! clone until its threads have ended, or the last drop seems to race. A protocol makes such words by
//! [`Machine::counted_by_std`].
//!
//! `weaken.rs` lets a sweep weaken one ordering of one access at a time, by the environment.

mod poller;
mod weaken;
mod words;

pub use poller::{LoomFd, LoomPoller};
pub use words::{LoomCell, LoomPtr, LoomU32, LoomU64};

use crate::{
    Bug, Counter, Fenced, Line, Machine, Ordering, ParkEnd, Parker, Policy, PolicyError, Spun,
    ThreadError, ThreadHandle, ThreadSpec, Topology, Word,
};
use ::loom::sync::atomic::fence;
use ::loom::sync::{Condvar, Mutex};
use weaken::{Which, ordering};

/// The model checker's machine, with the mutant that [`break_thread`] chose. A run queue's ring buffer holds
/// `RING` tasks: two, so that models reach its end and its backlog; four in models whose thief takes more
/// than one.
#[derive(Clone, Copy, Debug)]
pub struct Loom<const RING: usize = 2>;

/// The fence of the caller's caller, unless the sweep of orderings has removed it.
#[track_caller]
fn fence_here() {
    let order = ordering(Ordering::SeqCst, Which::Fence);
    if order != Ordering::Relaxed {
        fence(order);
    }
}

/// A value; loom has no cache lines.
#[derive(Debug)]
pub struct LoomLine<T>(T);

impl<T> std::ops::Deref for LoomLine<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Line<T> for LoomLine<T> {
    fn new(make: impl FnOnce() -> T) -> Self {
        LoomLine(make())
    }
}

/// A std atomic, which the model checker does not see: a counter steers nothing.
#[derive(Debug, Default)]
pub struct LoomCounter(std::sync::atomic::AtomicU64);

impl Counter for LoomCounter {
    fn get(&self) -> u64 {
        // ORDER: Relaxed; a counter publishes nothing.
        self.0.load(Ordering::Relaxed)
    }
    fn set(&self, value: u64) {
        // ORDER: Relaxed; a counter publishes nothing.
        self.0.store(value, Ordering::Relaxed);
    }
    fn add_shared(&self, n: u64) -> u64 {
        // ORDER: Relaxed; a counter publishes nothing.
        self.0.fetch_add(n, Ordering::Relaxed)
    }
}

/// Behaves like a futex. The test of the word and the falling asleep are one step, under a lock that a ring
/// takes too. A ring is lost if no thread sleeps.
#[derive(Debug)]
pub struct LoomParker {
    lock: Mutex<()>,
    bell: Condvar,
}

impl<const RING: usize> Parker<Loom<RING>> for LoomParker {
    fn new() -> Self {
        LoomParker {
            lock: Mutex::new(()),
            bell: Condvar::new(),
        }
    }

    fn park(&self, word: &LoomU32, seen: u32, until_ns: Option<u64>) -> ParkEnd {
        let guard = self
            .lock
            .lock()
            .expect("the lock is only held inside this file");
        // ORDER: Relaxed, because the kernel promises no more. A read-modify-write reads the current value,
        // as the kernel's comparison does.
        if word.fetch_or(0, Ordering::Relaxed) != seen {
            return ParkEnd::Changed;
        }
        if leap_to(until_ns) {
            return ParkEnd::Deadline;
        }
        drop(
            self.bell
                .wait(guard)
                .expect("the lock is only held inside this file"),
        );
        ParkEnd::Rung
    }

    fn ring(&self, _word: &LoomU32) {
        let guard = self
            .lock
            .lock()
            .expect("the lock is only held inside this file");
        self.bell.notify_one();
        drop(guard);
    }
}

/// A thread of the model.
#[derive(Debug)]
pub struct LoomThread(::loom::thread::JoinHandle<()>);

impl ThreadHandle for LoomThread {
    fn join(self) -> Result<(), ThreadError> {
        self.0.join().map_err(|_| ThreadError::Panicked)
    }
    fn is_finished(&self) -> bool {
        // Models join their threads and do not ask this.
        false
    }
    fn is_current(&self) -> bool {
        self.0.thread().id() == ::loom::thread::current().id()
    }
}

::loom::thread_local! {
    static WORKER: std::cell::Cell<*const ()> = std::cell::Cell::new(std::ptr::null());
    static POOL: LoomPool = LoomPool::default();
    static NOW_NS: std::cell::Cell<u64> = std::cell::Cell::new(0);
}

thread_local! {
    // A thread-local of std: all threads of a model run on the OS thread that checks it.
    static BROKEN: std::cell::Cell<Bug> = const { std::cell::Cell::new(Bug::None) };
}

/// Breaks `line` in the models that this thread checks from now on.
pub fn break_thread(line: Bug) {
    BROKEN.set(line);
}

/// Whether a sleep of this thread has a deadline. If so, the thread's clock moves to it.
fn leap_to(until_ns: Option<u64>) -> bool {
    let Some(until_ns) = until_ns.filter(|ns| *ns < u64::MAX) else {
        return false;
    };
    NOW_NS.with(|now_ns| now_ns.set(now_ns.get().max(until_ns)));
    true
}

/// The most that a spin without a change moves its thread's clock.
const SPUN_MAX_NS: u64 = 1_000_000;

/// The pool of a thread of the model, and the function that ends it.
#[derive(Default)]
struct LoomPool(std::cell::Cell<Option<Kept>>);

/// A pointer, and the function that is called with it at the end.
type Kept = (*const (), unsafe fn(*const ()));

impl Drop for LoomPool {
    fn drop(&mut self) {
        if let Some((ptr, end)) = self.0.take() {
            // SAFETY: the caller of `set_pool_slot` allows this call, with the pointer that it stored.
            unsafe { end(ptr) };
        }
    }
}

impl<const RING: usize> Machine for Loom<RING> {
    type U32 = LoomU32;
    type U64 = LoomU64;
    type Ptr<T> = LoomPtr<T>;
    type Cell<T> = LoomCell<T>;
    type Line<T: Send + Sync> = LoomLine<T>;
    type Counter = LoomCounter;
    type Parker = LoomParker;
    type Poller = LoomPoller;
    type Thread = LoomThread;

    const RING_CAPACITY: usize = RING;
    const MODEL: bool = true;
    const ADDRESSES_STEER: bool = false;

    fn breaks(line: Bug) -> bool {
        BROKEN.get().is(line)
    }

    #[track_caller]
    fn fence_announce() {
        // ORDER: SeqCst fence; partner fence_recheck (store buffering).
        fence_here();
    }
    #[track_caller]
    fn fence_recheck() {
        // ORDER: SeqCst fence; partner fence_announce (store buffering).
        fence_here();
    }
    #[track_caller]
    fn fence_light() {
        // ORDER: SeqCst fence; partner fence_heavy (store buffering).
        fence_here();
    }
    #[track_caller]
    fn fence_heavy() -> Fenced {
        // ORDER: SeqCst fence; partner fence_light (store buffering).
        fence_here();
        Fenced::Yes
    }
    fn counted_by_std<T>(make: impl FnOnce() -> T) -> T {
        words::without_end(make)
    }
    fn now_ns() -> u64 {
        NOW_NS.with(std::cell::Cell::get)
    }
    fn relax(_: u32) {
        ::loom::thread::yield_now();
    }
    fn spin<T: Send + Sync>(line: &LoomLine<T>, for_ns: u64, changed: impl Fn(&T) -> bool) -> Spun {
        if changed(line) {
            return Spun::Changed;
        }
        ::loom::thread::yield_now();
        if changed(line) {
            return Spun::Changed;
        }
        leap_to(Some(Self::now_ns().saturating_add(for_ns.min(SPUN_MAX_NS))));
        Spun::Deadline
    }
    fn prefetch_write<T>(_ptr: *const T) {}
    fn worker_slot() -> *const () {
        WORKER.with(std::cell::Cell::get)
    }
    unsafe fn set_worker_slot(ptr: *const ()) {
        WORKER.with(|slot| slot.set(ptr));
    }
    fn pool_slot() -> *const () {
        let pool = POOL.try_with(|slot| slot.0.get());
        pool.ok().flatten().map_or(std::ptr::null(), |(ptr, _)| ptr)
    }
    unsafe fn set_pool_slot(ptr: *const (), end: unsafe fn(*const ())) -> bool {
        POOL.try_with(|slot| slot.0.set(Some((ptr, end)))).is_ok()
    }
    fn random() -> u64 {
        1
    }
    fn topology() -> Topology {
        Topology::flat(0..2, "a model has no caches")
    }
    fn cpu_count() -> usize {
        2
    }
    fn spawn(
        _spec: ThreadSpec,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> Result<LoomThread, ThreadError> {
        Ok(LoomThread(::loom::thread::spawn(body)))
    }
    fn cpu() -> usize {
        0
    }
    fn bind_thread(_cpus: &[usize]) -> Result<(), ThreadError> {
        Ok(())
    }
    fn set_policy(_policy: Policy) -> Result<(), PolicyError> {
        Ok(())
    }
    fn policy() -> Result<Policy, PolicyError> {
        Ok(Policy::default())
    }
}
