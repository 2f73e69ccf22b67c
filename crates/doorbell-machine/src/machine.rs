//! The trait [`Machine`] and the small traits of its parts.

use crate::{Bug, Mark, Ordering, Policy, PolicyError, Poller, Topology};
use std::fmt::Debug;

/// An atomic integer of a machine. It means the same as the std type of that width.
///
/// Each method takes its ordering from the caller, and the `// ORDER:` note stands at the call.
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
    /// Atomic compare and exchange that may fail spuriously.
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

/// Memory that is not atomic and that a protocol hands from owner to owner: an `UnsafeCell` whose accesses
/// a model checker can see.
pub trait Cell<T> {
    /// A new cell that holds `value`.
    fn new(value: T) -> Self;
    /// Calls `f` with a pointer for reading.
    fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R;
    /// Calls `f` with a pointer for writing.
    fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R;
}

/// A cache line with an identity: its content moves between CPUs as a whole.
///
/// A closure makes the content, so that a simulated machine knows the line of each atomic while the atomic is
/// created.
pub trait Line<T>: std::ops::Deref<Target = T> {
    /// A line of its own that holds what `make` returns.
    fn new(make: impl FnOnce() -> T) -> Self;
}

/// A number for people to read. It never synchronises and never steers a protocol, and model checkers do not
/// see it.
pub trait Counter: Debug + Default + Send + Sync {
    /// The value now; exact once no thread writes it any more.
    fn get(&self) -> u64;
    /// Sets the value. Only one thread may write by `set` and [`Counter::add_owned`].
    fn set(&self, value: u64);
    /// Adds without a read-modify-write. Only the counter's single writer may call this.
    #[inline]
    fn add_owned(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }
    /// Adds by a read-modify-write; returns the value before. Any number of threads may call this, if none
    /// uses `set` or [`Counter::add_owned`].
    fn add_shared(&self, n: u64) -> u64;
}

/// Why [`Parker::park`] returned.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkEnd {
    /// The last test found the word changed: the thread did not block at all.
    Changed,
    /// Another thread rang.
    Rung,
    /// The deadline passed.
    Deadline,
    /// The OS returned for another reason, such as a signal.
    Spurious,
}

/// What [`Machine::spin`] saw.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spun {
    /// The condition holds.
    Changed,
    /// The time was over first.
    Deadline,
}

/// The place in which one thread blocks.
pub trait Parker<M: Machine>: Debug + Send + Sync {
    /// A parker in which no thread parks.
    fn new() -> Self;
    /// Blocks until rung, if `*word == seen` at the last test, and at most until `until_ns` of
    /// [`Machine::now_ns`].
    ///
    /// The test of the word and the falling asleep are one step with respect to
    /// [`Parker::ring`]: *a word changed before the ring ⇒ no sleep past that ring*.
    fn park(&self, word: &M::U32, seen: u32, until_ns: Option<u64>) -> ParkEnd;
    /// Wakes the thread that is parked on `word`, if there is one. One syscall on the host.
    fn ring(&self, word: &M::U32);
}

/// The properties of a new thread.
#[derive(Clone, Debug)]
pub struct ThreadSpec {
    /// Its name, as the OS shows it (the host cuts it to 15 bytes).
    pub name: String,
    /// The CPU to bind it to, by the machine's number; `None` leaves it unbound.
    pub cpu: Option<usize>,
    /// The size of its stack in bytes, at most `isize::MAX`; `None` for the machine's default. A machine that
    /// simulates threads ignores it.
    pub stack_size: Option<usize>,
}

/// A thread was not started, could not be bound, or panicked.
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
    /// The kind of the OS's error; `Other` for a panic.
    pub fn kind(&self) -> std::io::ErrorKind {
        match self {
            ThreadError::Spawn { source, .. } | ThreadError::Bind { source, .. } => source.kind(),
            ThreadError::Panicked => std::io::ErrorKind::Other,
        }
    }
}

/// A started thread, which another thread can wait for.
pub trait ThreadHandle: Debug + Send {
    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// [`ThreadError::Panicked`] if it panicked.
    fn join(self) -> Result<(), ThreadError>;
    /// Whether the caller runs on this thread.
    fn is_current(&self) -> bool;
    /// Whether the thread has ended, so that [`ThreadHandle::join`] would not wait.
    fn is_finished(&self) -> bool;
}

/// Whether [`Machine::fence_heavy`] was a fence.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// It was.
    Yes,
    /// It was not: the OS refuses a call that it granted before, because a filter of system calls was set
    /// since.
    Refused,
}

/// The machine that protocol code runs on. All methods are static: a machine is a type.
///
/// A worker finds itself by a slot ([`Machine::worker_slot`]), not by its thread, so that a simulated machine
/// can run many workers on one thread.
pub trait Machine: Debug + Sized + Send + Sync + 'static {
    /// An atomic of 32 bits; the only width that can be spun on and parked on.
    type U32: Word<u32>;
    /// An atomic of 64 bits.
    type U64: Word<u64>;
    /// An atomic pointer.
    type Ptr<T>: PtrWord<T>;
    /// Memory that a protocol hands from owner to owner.
    type Cell<T>: Cell<T>;
    /// A cache line of its own.
    type Line<T: Send + Sync>: Line<T> + Send + Sync;
    /// A number for people to read.
    type Counter: Counter;
    /// The place in which one thread blocks.
    type Parker: Parker<Self>;
    /// A set of descriptors.
    type Poller: Poller<Self>;
    /// A started thread.
    type Thread: ThreadHandle;

    /// How many tasks the ring buffer of a worker's run queue holds, a power of two. More tasks go to its
    /// backlog.
    const RING_CAPACITY: usize = 256;
    /// Whether this is a model, where pools and batches are small.
    const MODEL: bool = false;
    /// Whether the protocols may decide by addresses, for example which entry of a table to use. `false` on a
    /// machine that repeats runs, because addresses differ from run to run.
    const ADDRESSES_STEER: bool = true;
    /// Whether its threads may block by other means than a [`Parker`]: in a channel or a lock of another crate.
    /// `false` on a machine that runs all its threads on one thread of the OS.
    const OS_THREADS: bool = true;

    /// Whether this machine runs with that mutant; `false` except in tests of the checkers.
    #[inline(always)]
    fn breaks(_line: Bug) -> bool {
        false
    }

    /// The fence between a worker's announcement of its state, a read-modify-write, and its look for work.
    /// Partner: [`Machine::fence_recheck`].
    ///
    /// Contract: *the access before it in program order is a read-modify-write ⇒ it orders
    /// that access before every later load, as a sequentially consistent fence does.*
    fn fence_announce();
    /// The fence between a poster's push, a read-modify-write, and its look at the bell. Same contract;
    /// partner: [`Machine::fence_announce`].
    fn fence_recheck();
    /// The cheap half of an asymmetric pair, for the side that runs often: it orders a store before every
    /// later load, and costs nothing where the machine can make the other side pay. Partner:
    /// [`Machine::fence_heavy`]; two light fences do not order each other.
    fn fence_light();
    /// The expensive half of the pair, for the side that runs rarely. On the host it is a system call that
    /// interrupts every CPU on which a thread of this process runs (membarrier(2)). Partner:
    /// [`Machine::fence_light`]. After [`Fenced::Refused`] nothing is ordered.
    fn fence_heavy() -> Fenced;
    /// Prepares the pair, so that the light fence is light. Called before workers run.
    fn prepare_fences() {}

    /// Makes a value that will lie in memory counted by std's `Arc`. A model checker does not see that count,
    /// so it must not report the end of such memory as a race with its users.
    fn counted_by_std<T>(make: impl FnOnce() -> T) -> T {
        make()
    }

    /// The most by which [`Machine::now_ns`] lags behind the OS's clock.
    const LAG_NS_MAX: u64 = 0;

    /// Nanoseconds since a fixed point. Never runs backwards, and never ahead of the OS's monotonic clock.
    fn now_ns() -> u64;
    /// As [`Machine::now_ns`] and cheaper, but the processor may read the clock a little before the preceding
    /// instructions. For deadlines; do not compare it with times of other threads.
    fn now_ns_unordered() -> u64 {
        Self::now_ns()
    }
    /// The OS's own monotonic clock, behind which [`Machine::now_ns`] may lag: exact, but more expensive.
    fn os_now_ns() -> u64 {
        Self::now_ns()
    }
    /// After this, [`Machine::now_ns`] returns no time before what the OS's clock shows now.
    fn catch_up() {}
    /// A hint that the caller spins, so many times.
    fn relax(times: u32);
    /// Spins until `changed` holds of the line's content, for about `for_ns` nanoseconds. The host looks many
    /// times before it first reads the clock. A simulated machine blocks until another CPU writes to the
    /// line.
    ///
    /// `changed` only loads, and only from this line.
    fn spin<T: Send + Sync>(
        line: &Self::Line<T>,
        for_ns: u64,
        changed: impl Fn(&T) -> bool,
    ) -> Spun;
    /// A hint that this thread will soon write to `*ptr`. Any pointer is allowed, even a dangling one.
    fn prefetch_write<T>(ptr: *const T);

    /// Runs code of a user's: a poll, a waker, a destructor, a closure. It may have locks that the machine does not
    /// know. A simulated machine can be told to switch to no other thread meanwhile.
    #[inline(always)]
    fn user<R>(code: impl FnOnce() -> R) -> R {
        code()
    }

    /// Says that a rare branch was reached. Does nothing, except on a machine that counts such branches.
    #[inline(always)]
    fn mark(_mark: Mark) {}

    /// The pointer that this worker stored last; null on a thread that is no worker.
    fn worker_slot() -> *const ();
    /// Stores the pointer that [`Machine::worker_slot`] returns for this worker.
    ///
    /// # Safety
    /// Readers dereference the slot: as long as `ptr` is stored, it is null or points to what they expect.
    unsafe fn set_worker_slot(ptr: *const ());
    /// The pool that this worker or thread stored; null if there is none.
    fn pool_slot() -> *const ();
    /// Stores the pointer that [`Machine::pool_slot`] returns for this worker or thread, which calls `end`
    /// with it when it ends. If it is ending already, returns `false` and stores nothing.
    ///
    /// # Safety
    /// Readers dereference the slot: `ptr` points to what they expect, until `end` was called. The slot is
    /// empty.
    #[must_use]
    unsafe fn set_pool_slot(ptr: *const (), end: unsafe fn(*const ())) -> bool;
    /// A random number. On a simulated machine it follows from the seed.
    fn random() -> u64;
    /// The CPUs that this process may use.
    fn topology() -> Topology;
    /// A number of this process. It is another one in a child that fork(2) makes: there only the thread that forked
    /// goes on, and descriptors are shared with the parent.
    fn process() -> u32 {
        0
    }
    /// How many CPUs of the machine are online, whether this process may use them or not.
    fn cpu_count() -> usize;
    /// The CPU on which the calling thread runs, by the machine's number. The answer may be outdated at once.
    fn cpu() -> usize;
    /// A number of the calling thread for [`Machine::cpu_time_ns`], valid as long as the thread lives; 0 on a
    /// machine without such numbers.
    fn thread_number() -> u32 {
        0
    }
    /// The CPU time that the thread with that number has used; `None` if it is unknown.
    fn cpu_time_ns(_thread: u32) -> Option<u64> {
        None
    }
    /// Binds the calling thread to these CPUs.
    ///
    /// # Errors
    /// [`ThreadError::Bind`] if the OS refuses; the thread then stays bound as before.
    fn bind_thread(cpus: &[usize]) -> Result<(), ThreadError>;
    /// Changes how the OS schedules the calling thread.
    ///
    /// An OS that does not know slices ignores one silently: check by [`Machine::policy`].
    ///
    /// # Errors
    /// [`PolicyError::Refused`] if the OS refuses; the thread then runs as before.
    fn set_policy(policy: Policy) -> Result<(), PolicyError>;
    /// How the OS says that it schedules the calling thread.
    ///
    /// # Errors
    /// [`PolicyError::Unknown`] if the OS does not say, or names a policy that [`Policy`] does not have.
    fn policy() -> Result<Policy, PolicyError>;
    /// How many CPUs' worth of time the OS's quotas allow this process, rounded up, at least one. `None` if
    /// no quota bounds it.
    fn cpu_quota() -> Option<usize> {
        None
    }
    /// Starts a thread.
    ///
    /// # Errors
    /// [`ThreadError`] says which step failed, and what the user can do.
    fn spawn(
        spec: ThreadSpec,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> Result<Self::Thread, ThreadError>;
}
