//! The fences: those behind a read-modify-write, and the pair of which only one side pays.

use crate::{Fenced, Ordering};
use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::atomic::AtomicU8;
#[cfg(doorbell_tsan)]
use std::sync::atomic::AtomicU32;

/// A fence that follows a read-modify-write of the same thread.
///
/// On x86-64 that read-modify-write is a locked instruction and so a full barrier already;
/// only the compiler must be kept from moving loads across. Elsewhere, and under Miri, it is
/// a real fence. `ThreadSanitizer` does not know fences, so there it is a read-modify-write
/// of a word that both sides share.
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

/// For `ThreadSanitizer`.
#[cfg(doorbell_tsan)]
fn meet() {
    static MEETING_POINT: AtomicU32 = AtomicU32::new(0);
    // ORDER: SeqCst read-modify-write of one word by both sides stands in for the fence.
    MEETING_POINT.fetch_add(1, Ordering::SeqCst);
}

/// What is known of membarrier(2).
///
/// | value | name | meaning |
/// |---|---|---|
/// | 0 | `UNKNOWN` | nobody has asked the kernel yet |
/// | 1 | `READY` | this process is registered: the heavy side may rely on it |
/// | 2 | `MISSING` | the kernel has it not, or does not let us |
static MEMBARRIER: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const READY: u8 = 1;
const MISSING: u8 = 2;
const _: () = assert!(UNKNOWN < READY && READY < MISSING);

/// The side that pays nothing, but where the kernel does not help.
#[inline(always)]
pub(super) fn light() {
    // ORDER: Relaxed; READY never changes back, and until it is seen this side pays itself.
    if MEMBARRIER.load(Ordering::Relaxed) == READY {
        // ORDER: compiler only; the barrier is what `heavy` has the kernel do on this CPU.
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

/// The side that pays for both: every thread of the process passes a barrier before this returns.
pub(super) fn heavy() -> Fenced {
    prepare();
    #[cfg(doorbell_tsan)]
    meet();
    // ORDER: SeqCst fence; partner the one of `light_unaided` (store buffering).
    std::sync::atomic::fence(Ordering::SeqCst);
    // ORDER: Relaxed as in `light`; this thread has asked above.
    if MEMBARRIER.load(Ordering::Relaxed) != READY {
        return Fenced::Yes;
    }
    // This process is registered (membarrier(2)); a filter of system calls may refuse it even so.
    match membarrier(MembarrierCommand::PrivateExpedited) {
        Ok(()) => Fenced::Yes,
        Err(_) => Fenced::Refused,
    }
}

/// Asks the kernel once whether it helps.
pub(super) fn prepare() {
    // ORDER: Relaxed; asking twice does no harm.
    if MEMBARRIER.load(Ordering::Relaxed) != UNKNOWN {
        return;
    }
    // Neither checker knows what the kernel does there.
    let known = if cfg!(miri) || cfg!(doorbell_tsan) {
        MISSING
    } else {
        match membarrier(MembarrierCommand::RegisterPrivateExpedited) {
            Ok(()) => READY,
            Err(_) => MISSING,
        }
    };
    // Only once: who has seen READY relies on it.
    // ORDER: Relaxed; a light side that still sees UNKNOWN makes a real fence, which is enough.
    let _ = MEMBARRIER.compare_exchange(UNKNOWN, known, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(all(test, not(miri), not(doorbell_tsan)))]
mod tests {
    use super::{Fenced, MEMBARRIER, UNKNOWN, heavy, light, prepare};
    use crate::Ordering;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;

    /// Store buffering, many times: of two that store to one word and read the other's, one sees.
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
