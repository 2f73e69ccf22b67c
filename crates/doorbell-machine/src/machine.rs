//! The trait [`Machine`] and the small traits of its parts.

use crate::{
    Bug, Mark, Ordering, Policy, PolicyError, PollEvents, Poller, PollerError, Topology, WaitEnd,
};
use std::fmt::Debug;

/// An atomic integer of a machine. Same meaning as the std type of that width.
///
/// Every method takes its ordering from the caller, who writes the `// ORDER:` note.
pub trait Word<V>: Debug + Send + Sync {
    /// A new word that holds `value`.
    fn new(value: V) -> Self;
    /// Atomic load.
    fn load(&self, order: Ordering) -> V;
    /// Atomic store.
    fn store(&self, value: V, order: Ordering);
    /// Atomic exchange; returns the value before.
    fn swap(&self, value: V, order: Ordering) -> V;
    /// Atomic or; returns the value before.
    fn fetch_or(&self, bits: V, order: Ordering) -> V;
    /// Atomic and; returns the value before.
    fn fetch_and(&self, bits: V, order: Ordering) -> V;
    /// Atomic exclusive or; returns the value before.
    fn fetch_xor(&self, bits: V, order: Ordering) -> V;
    /// Atomic wrapping add; returns the value before.
    fn fetch_add(&self, value: V, order: Ordering) -> V;
    /// Atomic wrapping subtract; returns the value before.
    fn fetch_sub(&self, value: V, order: Ordering) -> V;
    /// Atomic compare and exchange.
    ///
    /// # Errors
    /// The value found, where it was not `seen`.
    fn compare_exchange(&self, seen: V, new: V, ok: Ordering, fail: Ordering) -> Result<V, V>;
}

/// An atomic pointer of a machine.
pub trait PtrWord<T> {
    /// A new word that holds `ptr`.
    fn new(ptr: *mut T) -> Self;
    /// Atomic load.
    fn load(&self, order: Ordering) -> *mut T;
    /// Atomic store.
    fn store(&self, ptr: *mut T, order: Ordering);
    /// Atomic exchange; returns the pointer before.
    fn swap(&self, ptr: *mut T, order: Ordering) -> *mut T;
    /// Atomic compare and exchange that may fail for no reason.
    ///
    /// # Errors
    /// The pointer found, where it was not `seen` or the exchange failed spuriously.
    fn compare_exchange_weak(
        &self,
        seen: *mut T,
        new: *mut T,
        ok: Ordering,
        fail: Ordering,
    ) -> Result<*mut T, *mut T>;
}

/// Memory that is not atomic and whose owner changes by protocol: an `UnsafeCell` whose
/// accesses a checking machine can see.
pub trait Cell<T> {
    /// A new cell that holds `value`.
    fn new(value: T) -> Self;
    /// Calls `f` with a pointer for reading.
    fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R;
    /// Calls `f` with a pointer for writing.
    fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R;
}

/// A cache line with an identity: what lies in it travels together.
///
/// The value is made by a closure so that a simulated machine knows, while the atomics in it
/// are created, to which line they belong.
pub trait Line<T>: std::ops::Deref<Target = T> {
    /// A line of its own that holds what `make` returns.
    fn new(make: impl FnOnce() -> T) -> Self;
}

/// A number that is read for people: never synchronises, never steers a protocol, and is
/// not modelled by checkers.
pub trait Counter: Debug + Default + Send + Sync {
    /// The value now; exact once its writers rest.
    fn get(&self) -> u64;
    /// Sets the value. Only one thread may write by `set` and [`Counter::add_owned`].
    fn set(&self, value: u64);
    /// Adds without a read-modify-write: only for the counter's single writer.
    #[inline]
    fn add_owned(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }
    /// Adds by a read-modify-write; returns the value before. Any number of writers, none
    /// of which uses the owner's methods.
    fn add_shared(&self, n: u64) -> u64;
}

/// Why [`Parker::park`] came back.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkEnd {
    /// The last test found the word changed: the thread did not block at all.
    Changed,
    /// Somebody rang.
    Rung,
    /// The deadline passed.
    Deadline,
    /// The OS returned for no reason of ours (a signal).
    Spurious,
}

/// What [`Machine::spin`] saw.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spun {
    /// What was waited for holds.
    Changed,
    /// The time was over first.
    Deadline,
}

/// In which of its two forms a parker blocks its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkIn {
    /// On the word alone: [`Parker::park`].
    Word,
    /// In the parker's poller, which descriptors reach too: [`Parker::park_polling`].
    Poller,
}

/// The place in which one thread blocks.
///
/// A parker whose thread has descriptors has a poller, which is opened once and stays until the parker goes, though it
/// may be [closed](crate::Poller::close) before. The thread says by [`Parker::choose`], before it announces that it
/// parks, in which form it will; who learns from the announcement that he must ring then rings the right one.
pub trait Parker<M: Machine>: Debug + Send + Sync {
    /// A free parker, without a poller.
    fn new() -> Self;
    /// The poller, once it was opened.
    fn poller(&self) -> Option<&M::Poller>;
    /// Opens the poller, unless it is open. Any thread may call this; nobody waits for another.
    ///
    /// # Errors
    /// [`PollerError`] says which of the steps the OS refused.
    fn open_poller(&self) -> Result<&M::Poller, PollerError>;
    /// Says in which form the thread will park. Only that thread calls this, while it is awake, and
    /// before the read-modify-write by which it says that it parks.
    fn choose(&self, form: ParkIn);
    /// What was chosen last. Exact for whoever has acquired the read-modify-write behind it.
    fn chosen(&self) -> ParkIn;
    /// As [`Parker::park`], in the poller, with what is ready put into `events`; having chosen
    /// [`ParkIn::Poller`].
    ///
    /// # Panics
    /// If the poller was not opened.
    fn park_polling(
        &self,
        word: &M::U32,
        seen: u32,
        until_ns: Option<u64>,
        events: &mut PollEvents,
    ) -> WaitEnd {
        let poller = self.poller().expect("who parks in a poller has opened it");
        poller.wait(word, seen, until_ns, events)
    }
    /// Blocks until rung, as long as `*word == seen` at the last test, at most until
    /// `until_ns` of [`Machine::now_ns`].
    ///
    /// The test of the word and the falling asleep are one step with respect to
    /// [`Parker::ring`]: *a word changed before the ring ⇒ no sleep past that ring*.
    fn park(&self, word: &M::U32, seen: u32, until_ns: Option<u64>) -> ParkEnd;
    /// Wakes the thread that is parked on `word`, if one is, in the form that it has chosen. One
    /// syscall on the host. The caller has acquired the announcement of that thread; another's ring
    /// may go to the other form, and wake nobody.
    fn ring(&self, word: &M::U32);
}

/// What a thread of a worker is to be.
#[derive(Clone, Debug)]
pub struct ThreadSpec {
    /// Its name, as the OS shows it (the host cuts it to 15 bytes).
    pub name: String,
    /// The CPU to bind it to, by the machine's number; `None` leaves it free.
    pub cpu: Option<usize>,
    /// How many bytes of stack it is to have, at most `isize::MAX`; `None` for what the machine gives. A
    /// machine whose threads are simulated gives what it gives.
    pub stack_size: Option<usize>,
}

/// A thread that was not started, or that ended badly.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// The OS refused a thread.
    #[error(
        "the OS did not start thread `{name}`: {source}; lower the number of cores or the stack size, or raise the limit on threads (ulimit -u, pids.max)"
    )]
    Spawn {
        /// The thread's name.
        name: String,
        /// What the OS said.
        source: std::io::Error,
    },
    /// The thread could not be bound to its CPU.
    #[error(
        "thread `{name}` could not be bound to CPU {cpu}: {source}; choose CPUs of the affinity mask or build without pinning"
    )]
    Bind {
        /// The thread's name.
        name: String,
        /// The CPU asked for.
        cpu: usize,
        /// What the OS said.
        source: std::io::Error,
    },
    /// The thread panicked.
    #[error("a thread of the runtime panicked")]
    Panicked,
}

impl ThreadError {
    /// What the OS said, in one word.
    pub fn kind(&self) -> std::io::ErrorKind {
        match self {
            ThreadError::Spawn { source, .. } | ThreadError::Bind { source, .. } => source.kind(),
            ThreadError::Panicked => std::io::ErrorKind::Other,
        }
    }
}

/// A started thread that can be waited for.
pub trait ThreadHandle: Debug + Send {
    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// [`ThreadError::Panicked`] if it panicked.
    fn join(self) -> Result<(), ThreadError>;
    /// Whether the caller runs on this very thread.
    fn is_current(&self) -> bool;
    /// Whether the thread has ended: [`ThreadHandle::join`] would not wait.
    fn is_finished(&self) -> bool;
}

/// Whether a heavy fence was made.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// It was.
    Yes,
    /// The OS had promised it, and now refuses: a filter of system calls was set since.
    Refused,
}

/// The machine that protocol code runs on. All methods are static: a machine is a type.
///
/// `current()`-like identity is a slot ([`Machine::worker_slot`]), so that a simulated machine
/// can run many workers on one thread.
pub trait Machine: Debug + Sized + Send + Sync + 'static {
    /// An atomic of 32 bits; the only width that can be spun on and parked on.
    type U32: Word<u32>;
    /// An atomic of 64 bits.
    type U64: Word<u64>;
    /// An atomic pointer.
    type Ptr<T>: PtrWord<T>;
    /// Memory handed from owner to owner.
    type Cell<T>: Cell<T>;
    /// A cache line of its own.
    type Line<T: Send + Sync>: Line<T> + Send + Sync;
    /// A number for people.
    type Counter: Counter;
    /// A place to block in.
    type Parker: Parker<Self>;
    /// A set of descriptors.
    type Poller: Poller<Self>;
    /// A started thread.
    type Thread: ThreadHandle;

    /// How many tasks the ring of a worker's run queue holds, a power of two; beyond that they go
    /// to its backlog.
    const RING_CAPACITY: usize = 256;
    /// Whether this is a model, in which the sizes of pools and batches shrink.
    const MODEL: bool = false;
    /// Whether addresses may steer what is done: which way of a table is taken, what is fetched
    /// ahead. Not on a machine whose runs are repeated, since addresses differ from run to run.
    const ADDRESSES_STEER: bool = true;

    /// Whether this machine runs with that mutant; never but in tests of the checkers.
    #[inline(always)]
    fn breaks(_line: Bug) -> bool {
        false
    }

    /// The fence of a worker that has just announced its state by a read-modify-write and will
    /// now look for work. Partner: [`Machine::fence_recheck`].
    ///
    /// Contract: *the access before it in program order is a read-modify-write ⇒ it orders
    /// that access before every later load, as a sequentially consistent fence does.*
    fn fence_announce();
    /// The fence of a poster that has just pushed by a read-modify-write and will now look at
    /// the bell. Same contract; partner: [`Machine::fence_announce`].
    fn fence_recheck();
    /// The fence of one who does a thing often, and pays nothing for it where the machine can have
    /// the other side pay: it orders a store before every later load. Partner:
    /// [`Machine::fence_heavy`]; two light ones do not order each other.
    fn fence_light();
    /// The fence of one who does a thing rarely, and pays for both: on the host a system call
    /// that interrupts every CPU on which a thread of this process runs (Linux's membarrier(2), the
    /// idea of asymmetric fences). Partner: [`Machine::fence_light`]. On [`Fenced::Refused`] there was
    /// none.
    fn fence_heavy() -> Fenced;
    /// Readies the pair, so that the light one is light. Called before workers run.
    fn prepare_fences() {}

    /// Makes what will lie in memory that std's `Arc` counts. A model checker does not see that count, so
    /// it must not hold the end of such memory against those who used it.
    fn counted_by_std<T>(make: impl FnOnce() -> T) -> T {
        make()
    }

    /// By how much [`Machine::now_ns`] may lie behind the OS's clock.
    const LAG_NS_MAX: u64 = 0;

    /// Nanoseconds since a fixed point; never runs backwards, never ahead of the OS's
    /// monotonic clock.
    fn now_ns() -> u64;
    /// As [`Machine::now_ns`], and the processor may read it a little before what stands before
    /// it: cheaper, for deadlines, which [`Machine::LAG_NS_MAX`] covers. Not to be compared with
    /// times of other threads.
    fn now_ns_unordered() -> u64 {
        Self::now_ns()
    }
    /// The OS's own monotonic clock, which [`Machine::now_ns`] may lie behind: dearer, and exact.
    fn os_now_ns() -> u64 {
        Self::now_ns()
    }
    /// From here on [`Machine::now_ns`] gives no time before what the OS's clock shows now.
    fn catch_up() {}
    /// A hint that the caller spins.
    fn relax();
    /// Spins a line until `changed` holds of what lies in it, for about `for_ns`
    /// nanoseconds. On the host it spins, and reads no clock before it has looked a while; a
    /// simulated machine blocks until somebody takes the line.
    ///
    /// `changed` only loads, and only from this line.
    fn spin<T: Send + Sync>(
        line: &Self::Line<T>,
        for_ns: u64,
        changed: impl Fn(&T) -> bool,
    ) -> Spun;
    /// A hint that `*ptr` will soon be written here. May be anything, also dangling.
    fn prefetch_write<T>(ptr: *const T);

    /// Says that a rare branch was reached; nothing at all but on a machine that counts them.
    #[inline(always)]
    fn mark(_mark: Mark) {}

    /// The pointer that this worker stored last; null on a thread that is no worker.
    fn worker_slot() -> *const ();
    /// Stores a pointer for [`Machine::worker_slot`] of this worker only.
    ///
    /// # Safety
    /// Whoever reads the slot trusts it: `ptr` is null, or what they expect, for as long as it
    /// is stored.
    unsafe fn set_worker_slot(ptr: *const ());
    /// The pool that this worker or thread stored; null where there is none.
    fn pool_slot() -> *const ();
    /// Stores a pointer for [`Machine::pool_slot`] of this worker or thread, which calls `end`
    /// with it when it ends. `false`, and nothing stored, if it is ending already.
    ///
    /// # Safety
    /// Whoever reads the slot trusts it: `ptr` is what they expect, until `end` was called. The
    /// slot is empty.
    #[must_use]
    unsafe fn set_pool_slot(ptr: *const (), end: unsafe fn(*const ())) -> bool;
    /// A random number; on a simulated machine it comes from the seed.
    fn random() -> u64;
    /// The CPUs that this process may use.
    fn topology() -> Topology;
    /// How many CPUs the machine has online, whether this process may use them or not.
    fn cpu_count() -> usize;
    /// The CPU on which the calling thread runs, by the machine's number; a moment later it may be another.
    fn cpu() -> usize;
    /// A number of the calling thread, by which [`Machine::cpu_time_ns`] knows it as long as it lives; 0 where
    /// it has none.
    fn thread_number() -> u32 {
        0
    }
    /// For how long the thread with that number has had a CPU; `None` where that is not known.
    fn cpu_time_ns(_thread: u32) -> Option<u64> {
        None
    }
    /// Binds the calling thread to a CPU, or to all that `cpus` names.
    ///
    /// # Errors
    /// [`ThreadError::Bind`] if the OS refuses; the thread then stays where it was.
    fn bind_thread(cpus: &[usize]) -> Result<(), ThreadError>;
    /// Changes how the OS schedules the calling thread.
    ///
    /// An OS that does not know slices takes one without a word: see [`Machine::policy`].
    ///
    /// # Errors
    /// [`PolicyError::Refused`] if the OS does; the thread then runs as before.
    fn set_policy(policy: Policy) -> Result<(), PolicyError>;
    /// How the OS schedules the calling thread, as it says itself.
    ///
    /// # Errors
    /// [`PolicyError::Unknown`] if it does not say, or has scheduled it in another way than a
    /// [`Policy`] can name.
    fn policy() -> Result<Policy, PolicyError>;
    /// How many CPUs' worth of time this process may use, by the quotas of the OS: rounded up,
    /// at least one. `None` if nothing bounds it but the CPUs there are.
    fn cpu_quota() -> Option<usize> {
        None
    }
    /// Starts a thread.
    ///
    /// # Errors
    /// [`ThreadError`] says which step failed and what to do.
    fn spawn(
        spec: ThreadSpec,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> Result<Self::Thread, ThreadError>;
}
