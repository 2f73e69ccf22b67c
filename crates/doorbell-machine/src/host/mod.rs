//! The Linux backend: std atomics, threads, futexes, epoll, the TSC clock, /sys, cgroups.

#[cfg(target_arch = "x86_64")]
mod anchor;
mod atomics;
mod cgroup;
mod clock;
mod fences;
pub mod net;
mod os;
mod parker;
pub mod pipe;
mod policy;
mod poller;
#[cfg(test)]
mod poller_tests;
pub mod socket_options;
mod sysfs;
mod thread;

pub use atomics::{CacheLine, HostCell, HostCounter};
pub use clock::{LAG_NS_MAX, StdInstant, ns_of, reads_tsc, std_instant};
pub use parker::HostParker;
pub use poller::HostPoller;
pub use thread::HostThread;

use crate::{Fenced, Machine, Policy, PolicyError, Spun, ThreadError, ThreadSpec, Topology};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// This computer, running Linux.
#[derive(Clone, Copy, Debug)]
pub struct Host;

/// How many times [`Host::spin`] looks between two readings of the clock.
const LOOKS_PER_CLOCK: u32 = 16;

impl Machine for Host {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    type Ptr<T> = AtomicPtr<T>;
    type Cell<T> = HostCell<T>;
    type Line<T: Send + Sync> = CacheLine<T>;
    type Counter = HostCounter;
    type Parker = HostParker;
    type Poller = HostPoller;
    type Thread = HostThread;

    const LAG_NS_MAX: u64 = LAG_NS_MAX;

    #[inline(always)]
    fn fence_announce() {
        fences::after_rmw();
    }

    #[inline(always)]
    fn fence_recheck() {
        fences::after_rmw();
    }

    #[inline(always)]
    fn fence_light() {
        fences::light();
    }

    fn fence_heavy() -> Fenced {
        fences::heavy()
    }

    fn prepare_fences() {
        fences::prepare();
    }

    #[inline]
    fn now_ns() -> u64 {
        clock::now_ns()
    }

    #[inline]
    fn now_ns_unordered() -> u64 {
        clock::now_ns_unordered()
    }

    #[inline(always)]
    fn relax(times: u32) {
        (0..times).for_each(|_| std::hint::spin_loop());
    }

    fn os_now_ns() -> u64 {
        clock::kernel_now_ns()
    }

    fn catch_up() {
        clock::catch_up();
    }

    #[inline]
    fn spin<T: Send + Sync>(
        line: &CacheLine<T>,
        for_ns: u64,
        changed: impl Fn(&T) -> bool,
    ) -> Spun {
        let mut until_ns = None;
        loop {
            for _ in 0..LOOKS_PER_CLOCK {
                if changed(line) {
                    return Spun::Changed;
                }
                std::hint::spin_loop();
            }
            let now_ns = clock::now_ns();
            if now_ns >= *until_ns.get_or_insert(now_ns.saturating_add(for_ns)) {
                return Spun::Deadline;
            }
        }
    }

    #[inline(always)]
    fn prefetch_write<T>(ptr: *const T) {
        // The intrinsic becomes PREFETCHW only if the build's target has that feature. Without it the line
        // arrives in shared state, and the write needs another transfer. Processors without the instruction
        // run it as a no-op.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch is a hint; for any address, it neither faults nor changes anything that the
        // program can see.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) ptr, options(nostack, preserves_flags, readonly));
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = ptr;
    }

    #[inline]
    fn worker_slot() -> *const () {
        crate::slots::worker()
    }

    unsafe fn set_worker_slot(ptr: *const ()) {
        // SAFETY: passed on from the caller.
        unsafe { crate::slots::set_worker(ptr) };
    }

    #[inline]
    fn pool_slot() -> *const () {
        crate::slots::pool()
    }

    unsafe fn set_pool_slot(ptr: *const (), end: unsafe fn(*const ())) -> bool {
        // SAFETY: passed on from the caller.
        unsafe { crate::slots::set_pool(ptr, end) }
    }

    fn random() -> u64 {
        use std::hash::{BuildHasher, Hasher};
        // Each RandomState has different keys. The first one of a thread gets them from the OS.
        std::hash::RandomState::new().build_hasher().finish()
    }

    fn topology() -> Topology {
        sysfs::topology(std::path::Path::new("/sys"), &thread::allowed_cpus())
    }

    fn set_policy(policy: Policy) -> Result<(), PolicyError> {
        policy::set(policy)
    }

    fn policy() -> Result<Policy, PolicyError> {
        policy::get()
    }

    fn cpu_count() -> usize {
        sysfs::online_cpus(std::path::Path::new("/sys"))
            .unwrap_or_else(|| thread::allowed_cpus().len())
    }

    #[inline]
    fn process() -> u32 {
        thread::process()
    }

    fn thread_number() -> u32 {
        // SAFETY: it cannot fail, and takes nothing.
        unsafe { libc::gettid() }.cast_unsigned()
    }

    fn cpu_time_ns(thread: u32) -> Option<u64> {
        let thread = i32::try_from(thread).ok().filter(|it| *it > 0)?;
        // The kernel's clock id for a thread: bit 2 (4) says that it is a thread's, and 2 in the low bits
        // selects the scheduler's count (CPUCLOCK_SCHED).
        let clock = (!thread << 3) | 4 | 2;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the kernel writes one timespec, or fails if there is no such thread.
        let said = unsafe { libc::clock_gettime(clock, &raw mut time) };
        let seconds = u64::try_from(time.tv_sec).ok().filter(|_| said == 0)?;
        Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
    }

    fn cpu() -> usize {
        // Miri does not know the call.
        if cfg!(miri) {
            return 0;
        }
        // Through the C library, like the clock. It fails only if the kernel lacks the call; then every
        // thread counts as running on CPU 0.
        // SAFETY: the call has no arguments and returns the number of the CPU.
        usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
    }

    fn bind_thread(cpus: &[usize]) -> Result<(), ThreadError> {
        thread::bind_thread(cpus)
    }
    fn cpu_quota() -> Option<usize> {
        cgroup::quota_cpus()
    }

    fn spawn(
        spec: ThreadSpec,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> Result<HostThread, ThreadError> {
        thread::spawn(spec, body)
    }
}

#[cfg(test)]
mod tests;
