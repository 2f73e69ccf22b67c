//! The fences: the one after a read-modify-write, and the asymmetric pair.

use crate::{Fenced, Ordering};
use std::sync::atomic::AtomicU8;
#[cfg(doorbell_tsan)]
use std::sync::atomic::AtomicU32;

/// A fence that follows a read-modify-write of the same thread.
///
/// On x86-64 that read-modify-write is a locked instruction, which is a full barrier already. There the fence
/// only keeps the compiler from moving loads across. On other processors, and under Miri, it is a real fence.
/// `ThreadSanitizer` does not know fences; with it, the fence is a read-modify-write of a word that both
/// sides share.
#[inline(always)]
pub(super) fn after_rmw() {
    #[cfg(doorbell_tsan)]
    meet();
    #[cfg(all(target_arch = "x86_64", not(miri), not(doorbell_tsan)))]
    // ORDER: compiler only; the locked instruction before it is the hardware's barrier.
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(all(any(not(target_arch = "x86_64"), miri), not(doorbell_tsan)))]
    // ORDER: fence_announce and fence_recheck are each other's partner (store buffering).
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// The fence for `ThreadSanitizer`.
#[cfg(doorbell_tsan)]
fn meet() {
    static MEETING_POINT: AtomicU32 = AtomicU32::new(0);
    // ORDER: SeqCst read-modify-write of one word by both sides stands in for the fence.
    MEETING_POINT.fetch_add(1, Ordering::SeqCst);
}

/// Whether this process can use membarrier(2).
///
/// | value | name | meaning |
/// |---|---|---|
/// | 0 | `UNKNOWN` | no thread has asked the kernel yet |
/// | 1 | `READY` | this process is registered: the light side relies on the heavy side's system call |
/// | 2 | `MISSING` | the kernel lacks the call, or refuses it |
static MEMBARRIER: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const READY: u8 = 1;
const MISSING: u8 = 2;
const _: () = assert!(UNKNOWN < READY && READY < MISSING);

/// The light side: free if the kernel helps, else a real fence.
#[inline(always)]
pub(super) fn light() {
    // ORDER: Relaxed; READY never changes back, and a thread that does not see it yet makes a real fence.
    if MEMBARRIER.load(Ordering::Relaxed) == READY {
        // ORDER: compiler only; `heavy` makes the kernel run the barrier on this CPU.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        light_unaided();
    }
}

#[cold]
fn light_unaided() {
    #[cfg(doorbell_tsan)]
    meet();
    // ORDER: SeqCst fence; partner the one in `heavy` (store buffering).
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// The heavy side: every running thread of the process passes a barrier before this returns, unless the light
/// side makes real fences.
pub(super) fn heavy() -> Fenced {
    prepare();
    #[cfg(doorbell_tsan)]
    meet();
    // ORDER: SeqCst fence; partner the one in `light_unaided` (store buffering).
    std::sync::atomic::fence(Ordering::SeqCst);
    // ORDER: Relaxed as in `light`; this thread has asked the kernel above.
    if MEMBARRIER.load(Ordering::Relaxed) != READY {
        return Fenced::Yes;
    }
    // This process is registered, but a filter of system calls may refuse the call nevertheless.
    if membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED as _) {
        Fenced::Yes
    } else {
        Fenced::Refused
    }
}

/// Whether the kernel did this.
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes a command and no flags, and touches no memory of the caller.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Registers this process for membarrier(2), unless a thread has tried before.
pub(super) fn prepare() {
    // ORDER: Relaxed; two threads may both ask the kernel.
    if MEMBARRIER.load(Ordering::Relaxed) != UNKNOWN {
        return;
    }
    // Miri and ThreadSanitizer do not know what the kernel does in that call.
    let known = if cfg!(miri) || cfg!(doorbell_tsan) {
        MISSING
    } else if membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED as _) {
        READY
    } else {
        MISSING
    };
    // Stored once, because a light side that has seen READY relies on it.
    // ORDER: Relaxed; a light side that still sees UNKNOWN makes a real fence, which is enough.
    let _ = MEMBARRIER.compare_exchange(UNKNOWN, known, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(all(test, not(miri), not(doorbell_tsan)))]
mod tests {
    use super::{Fenced, MEMBARRIER, UNKNOWN, heavy, light, prepare};
    use crate::Ordering;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;

    /// Store buffering, many times: two threads each store to one word and read the other's; at least one
    /// sees the other's store.
    #[test]
    fn of_two_sides_one_sees_the_other() {
        prepare();
        assert_ne!(MEMBARRIER.load(Ordering::Relaxed), UNKNOWN);
        let (words, results) = (
            [const { AtomicU32::new(0) }; 2],
            [const { AtomicU32::new(0) }; 2],
        );
        let barrier = Barrier::new(2);
        let side = |own: usize, fence: fn()| {
            for round in 1..=2_000 {
                barrier.wait();
                words[own].store(round, Ordering::Relaxed);
                fence();
                results[own].store(words[1 - own].load(Ordering::Relaxed), Ordering::Relaxed);
                barrier.wait();
                let seen = [0, 1].map(|side| results[side].load(Ordering::Relaxed));
                assert!(seen.contains(&round), "neither saw the other: {seen:?}");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| side(0, light));
            side(1, || assert_eq!(heavy(), Fenced::Yes));
        });
    }
}
