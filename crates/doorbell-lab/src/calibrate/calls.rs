//! The cost of system calls, and of a switch between two threads of one CPU.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::thread;

use doorbell_machine::{Host, Machine as _};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::thread::futex;

use super::stand::Stand;
use super::trips::{self, Trips};
use crate::error::LabError;
use crate::measure::{Clock, median};
use crate::peers::join;

/// Calls between two readings of the clock.
const CALLS: u32 = 2_000;
/// Round trips between two threads of one CPU.
const HOPS: Trips = Trips {
    per_chunk: 32,
    chunks: 41,
};

/// Threads that are started one after another.
const THREADS: usize = 32;

/// The cost of the cheapest system call.
pub(super) fn syscall_ns(clock: Clock) -> f64 {
    each_ns(clock, || {
        std::hint::black_box(rustix::process::getppid());
    })
}

/// A futex wake without a waiter.
pub(super) fn futex_call_ns(clock: Clock) -> f64 {
    let word = AtomicU32::new(0);
    each_ns(clock, || wake(&word))
}

/// A write to an eventfd without a waiter.
///
/// # Errors
/// [`LabError::System`] if no eventfd can be created.
pub(super) fn eventfd_call_ns(clock: Clock) -> Result<f64, LabError> {
    let descriptor = new_eventfd()?;
    Ok(each_ns(clock, || ring(&descriptor)))
}

/// An eventfd that blocks its readers.
pub(super) fn new_eventfd() -> Result<OwnedFd, LabError> {
    eventfd(0, EventfdFlags::CLOEXEC).map_err(LabError::system("eventfd"))
}

/// Adds one to an eventfd, which wakes its reader.
pub(super) fn ring(descriptor: &OwnedFd) {
    // It fails only if the sum overflows, which takes far more writes.
    let _ = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
}

/// An epoll set that watches one eventfd.
pub(super) fn new_epoll(descriptor: &OwnedFd) -> Result<OwnedFd, LabError> {
    let made = epoll::create(epoll::CreateFlags::CLOEXEC).and_then(|poller| {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&poller, descriptor, data, epoll::EventFlags::IN)?;
        Ok(poller)
    });
    made.map_err(LabError::system("epoll"))
}

/// Waits until an eventfd was rung, and resets it.
pub(super) fn await_ring(poller: &OwnedFd, descriptor: &OwnedFd) {
    let mut events = [epoll::Event {
        flags: epoll::EventFlags::empty(),
        data: epoll::EventData::new_u64(0),
    }];
    // After an error the caller looks again, as after a spurious wake. The sum itself is not needed.
    if epoll::wait(poller, &mut events, None).is_ok() {
        let _ = rustix::io::read(descriptor, &mut [0_u8; 8]);
    }
}

/// A write to an eventfd, an `epoll_wait` that finds it, and the read that resets it.
///
/// # Errors
/// [`LabError::System`] if no eventfd or epoll set can be created.
pub(super) fn eventfd_turn_ns(clock: Clock) -> Result<f64, LabError> {
    let descriptor = new_eventfd()?;
    let poller = new_epoll(&descriptor)?;
    Ok(each_ns(clock, || {
        ring(&descriptor);
        await_ring(&poller, &descriptor);
    }))
}

/// Wakes one thread that waits on `word`.
pub(super) fn wake(word: &AtomicU32) {
    // It fails only if the word is not mapped.
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}

/// Waits until woken, as long as the word is `seen`.
pub(super) fn wait(word: &AtomicU32, seen: u32) {
    // Whatever the call returns, the caller looks at the word again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, seen, None);
}

/// One reading of the clock that workers use.
pub(super) fn clock_ns(clock: Clock) -> f64 {
    each_ns(clock, || {
        std::hint::black_box(Host::now_ns());
    })
}

/// One spin-loop hint.
pub(super) fn relax_ns(clock: Clock) -> f64 {
    each_ns(clock, Host::relax)
}

/// Starting a thread, as seen by the thread that starts it.
///
/// # Errors
/// [`LabError::System`] if a thread cannot be started.
pub(super) fn spawn_ns(clock: Clock) -> Result<f64, LabError> {
    let mut taken = Vec::with_capacity(THREADS);
    for _ in 0..THREADS {
        let start = clock.now();
        let thread = thread::Builder::new().spawn(|| ());
        let end = clock.now();
        taken.push(clock.ns_between(start, end) as f64);
        let thread = thread.map_err(LabError::system("starting a thread"))?;
        join(thread, "that does nothing")?;
    }
    Ok(median(&taken).unwrap_or_default())
}

/// The kernel's time slice for the calling thread; `None` on kernels before 6.12, which do not report it.
pub(super) fn slice_ns() -> Option<u64> {
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: all fields are integers, and zero is valid for each.
    let mut found: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size` bytes, the size of `found`; 0 means this thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, size, 0) };
    (done == 0 && found.sched_runtime > 0).then_some(found.sched_runtime)
}

/// From one thread to another on the same CPU: a futex wake, a futex wait and a switch.
///
/// # Errors
/// [`LabError::System`] if a thread cannot be started or pinned.
pub(super) fn hop_ns(stand: &Stand) -> Result<f64, LabError> {
    Ok(trips::round_trip_ns::<true>(stand, stand.here, HOPS)? / 2.0)
}

fn each_ns(clock: Clock, call: impl Fn()) -> f64 {
    mean_ns(clock, CALLS, |_| call())
}

/// The time of one of many calls in a row, each with its number.
#[inline(always)]
pub(super) fn mean_ns(clock: Clock, count: u32, mut call: impl FnMut(u32)) -> f64 {
    let start = clock.now();
    for turn in 0..count {
        call(turn);
    }
    let end = clock.now();
    clock.ns_between(start, end) as f64 / f64::from(count)
}
