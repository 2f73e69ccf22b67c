//! The clock: nanoseconds of `CLOCK_MONOTONIC`, by the TSC where the kernel itself trusts it.
//!
//! Contract: *`now_ns()` returned `t` ⇒ `CLOCK_MONOTONIC` was at least `t` by then, and every
//! later call on any thread returns at least `t`*. So a deadline that has passed here has
//! passed for `std::time::Instant` too, never the other way round.
//!
//! Where the clocksource is `tsc`, the time is extrapolated from an anchor (a pair of TSC and
//! kernel time) that is at most one millisecond old. The kernel may slew its clock by up to
//! 500 ppm either way, so the rate used is 1,500 ppm below the one measured: an extrapolation
//! is 0.5 to 2.5 µs late when its anchor is renewed, and never early. The pair of a new anchor
//! is at most 0.4 µs apart, less than that 0.5, so time does not step back at a renewal.

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use tsc::now_ns;

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) use kernel_now_ns as now_ns;

/// The kernel's own monotonic clock.
pub(crate) fn kernel_now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The monotonic clock starts at zero at boot: both parts are non-negative.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// A moment of [`Host::now_ns`](crate::Host) as std's, saturating at the end of its range.
pub fn std_instant(ns: u64) -> std::time::Instant {
    let (now, now_ns) = (std::time::Instant::now(), kernel_now_ns());
    if ns >= now_ns {
        // Std's range may end before ours; half of the way is asked for then, and so on.
        let mut ahead = std::time::Duration::from_nanos(ns - now_ns);
        loop {
            match now.checked_add(ahead) {
                Some(instant) => return instant,
                None => ahead /= 2,
            }
        }
    }
    let behind = std::time::Duration::from_nanos(now_ns - ns);
    now.checked_sub(behind).unwrap_or(now)
}

/// A moment of std's as [`Host::now_ns`](crate::Host) gives it; zero for one before the
/// computer's start, the largest for one past the range.
pub fn ns_of(instant: std::time::Instant) -> u64 {
    let (now, now_ns) = (std::time::Instant::now(), kernel_now_ns());
    let ns = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    match instant.checked_duration_since(now) {
        Some(ahead) => now_ns.saturating_add(ns(ahead)),
        None => now_ns.saturating_sub(ns(now.duration_since(instant))),
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod tsc {
    use super::kernel_now_ns;
    use crate::Ordering;
    use std::sync::atomic::{AtomicU32, AtomicU64, fence};

    /// Rates are fixed-point: nanoseconds per tick, shifted by this.
    const RATE_SHIFT: u32 = 32;
    /// The shortest stretch a rate is measured over.
    const RATE_STRETCH_NS: u64 = 2_000_000;
    /// An anchor older than this is renewed.
    const ANCHOR_AGE_NS: u64 = 1_000_000;
    /// By how much the rate used stays below the rate measured.
    const CAUTION_PPM: u64 = 1_500;
    /// The two readings of a pair may be this far apart; see the head of the file.
    const PAIR_GAP_NS: u64 = 400;
    /// How often a pair is tried before the kernel's clock is used for good.
    const PAIR_TRIES: u32 = 100;
    /// How often a reader looks again while another thread renews the anchor.
    const RENEWAL_LOOKS: u32 = 100;
    /// `state`: the kernel's clocksource has not been looked at yet.
    const UNKNOWN: u32 = 0;
    /// `state`: not the TSC; every reading asks the kernel.
    const KERNEL: u32 = 1;
    /// `state`: the TSC; the rate may still have to be measured.
    const TSC: u32 = 2;

    /// One anchor for all threads, guarded by a sequence count (odd while it is written), in
    /// cache lines of its own: it is written a thousand times a second at most, read often.
    #[repr(align(128))]
    struct Anchor {
        sequence: AtomicU32,
        state: AtomicU32,
        tsc: AtomicU64,
        ns: AtomicU64,
        /// Nanoseconds per tick, fixed-point; zero until measured.
        rate: AtomicU64,
        /// Ticks after which the anchor is renewed.
        age_max: AtomicU64,
        /// The latest time that was given out past the anchor.
        floor: AtomicU64,
        /// The pair that the rate is measured from.
        first_tsc: AtomicU64,
        first_ns: AtomicU64,
    }

    static ANCHOR: Anchor = Anchor {
        sequence: AtomicU32::new(0),
        state: AtomicU32::new(UNKNOWN),
        tsc: AtomicU64::new(0),
        ns: AtomicU64::new(0),
        rate: AtomicU64::new(0),
        age_max: AtomicU64::new(0),
        floor: AtomicU64::new(0),
        first_tsc: AtomicU64::new(0),
        first_ns: AtomicU64::new(0),
    };

    #[inline(always)]
    fn ticks() -> u64 {
        // SAFETY: every x86-64 processor has RDTSC, and Linux leaves it enabled for programs
        // that do not ask to be killed by it (PR_SET_TSC).
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    #[inline]
    pub(crate) fn now_ns() -> u64 {
        extrapolate().unwrap_or_else(renew)
    }

    /// The time by the anchor; `None` where that is too old or being written.
    #[inline(always)]
    fn extrapolate() -> Option<u64> {
        // ORDER: Acquire pairs with the Release that ends a renewal; the anchor's words read
        // below are at least that renewal's.
        let sequence = ANCHOR.sequence.load(Ordering::Acquire);
        // ORDER: Relaxed; the fence and the second look at the count below throw the reading
        // away if a renewal overlapped it.
        let tsc = ANCHOR.tsc.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let ns = ANCHOR.ns.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let rate = ANCHOR.rate.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let age_max = ANCHOR.age_max.load(Ordering::Relaxed);
        // ORDER: Relaxed; a maximum that only grows, and a reader that heard of a later time
        // from another thread heard of this store before it.
        let floor = ANCHOR.floor.load(Ordering::Relaxed);
        // ORDER: Acquire fence; the loads above stay before the second look.
        fence(Ordering::Acquire);
        let age = ticks().wrapping_sub(tsc);
        if sequence & 1 != 0 || age >= age_max {
            return None;
        }
        // ORDER: Relaxed; ordered by the fence above.
        if ANCHOR.sequence.load(Ordering::Relaxed) != sequence {
            return None;
        }
        let extrapolated = ns + ((u128::from(age) * u128::from(rate)) >> RATE_SHIFT) as u64;
        Some(extrapolated.max(floor))
    }

    /// Asks the kernel, and makes that the new anchor unless another thread is at it.
    #[cold]
    fn renew() -> u64 {
        // ORDER: Relaxed; the state only ever leaves UNKNOWN, or TSC for KERNEL.
        match ANCHOR.state.load(Ordering::Relaxed) {
            KERNEL => return kernel_now_ns(),
            UNKNOWN => {
                let state = if clocksource_is_tsc() { TSC } else { KERNEL };
                // ORDER: Relaxed; every thread would store the same value.
                ANCHOR.state.store(state, Ordering::Relaxed);
            }
            _ => {}
        }
        for _ in 0..RENEWAL_LOOKS {
            // ORDER: Relaxed; the exchange below decides.
            let sequence = ANCHOR.sequence.load(Ordering::Relaxed);
            let mine = sequence & 1 == 0
                // ORDER: Acquire pairs with the Release that ended the renewal before: one
                // writer after the other.
                && ANCHOR
                    .sequence
                    .compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            if mine {
                // ORDER: Release fence; a reader that sees one of the words stored below sees
                // the odd count at its second look.
                fence(Ordering::Release);
                let ns = write_anchor();
                // ORDER: Release pairs with the readers' Acquire of the count.
                ANCHOR
                    .sequence
                    .store(sequence.wrapping_add(2), Ordering::Release);
                return ns;
            }
            std::hint::spin_loop();
            if let Some(ns) = extrapolate() {
                return ns;
            }
        }
        // The renewing thread was preempted. What is given out now lies past its anchor.
        let ns = kernel_now_ns();
        // ORDER: Relaxed; see the load in `extrapolate`.
        ANCHOR.floor.fetch_max(ns, Ordering::Relaxed).max(ns)
    }

    /// Kernel time and TSC, at most `PAIR_GAP_NS` apart, the TSC read last: what is
    /// extrapolated from a later tick can only be late.
    fn pair() -> Option<(u64, u64)> {
        for _ in 0..PAIR_TRIES {
            let ns = kernel_now_ns();
            let tsc = ticks();
            // The two lie before this third reading, which so bounds the gap between them.
            if kernel_now_ns() - ns <= PAIR_GAP_NS {
                return Some((ns, tsc));
            }
        }
        None
    }

    /// Stores a fresh anchor and, once there is a stretch to measure over, the rate. Returns
    /// the time now.
    fn write_anchor() -> u64 {
        let Some((ns, tsc)) = pair() else {
            // Reading the kernel's clock takes too long for a pair: leave the TSC alone.
            // ORDER: Relaxed; every later reading that finds no anchor sees it sometime.
            ANCHOR.state.store(KERNEL, Ordering::Relaxed);
            // ORDER: Relaxed; the count orders it for the readers.
            ANCHOR.age_max.store(0, Ordering::Relaxed);
            return kernel_now_ns();
        };
        // ORDER: Relaxed; the count's exchange ordered the writer before this one.
        let first_tsc = ANCHOR.first_tsc.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let first_ns = ANCHOR.first_ns.load(Ordering::Relaxed);
        if first_ns == 0 || tsc <= first_tsc {
            // The first reading, or the TSC went back (a migrated guest): measure afresh.
            // ORDER: Relaxed; only writers read it.
            ANCHOR.first_tsc.store(tsc, Ordering::Relaxed);
            // ORDER: Relaxed; only writers read it.
            ANCHOR.first_ns.store(ns.max(1), Ordering::Relaxed);
            // ORDER: Relaxed; the count orders it for the readers.
            ANCHOR.age_max.store(0, Ordering::Relaxed);
        } else if ns - first_ns >= RATE_STRETCH_NS {
            let rate = rate_of(ns - first_ns, tsc - first_tsc);
            // ORDER: Relaxed; the count orders it for the readers.
            ANCHOR.rate.store(rate, Ordering::Relaxed);
            let age_max = (u128::from(ANCHOR_AGE_NS) << RATE_SHIFT) / u128::from(rate.max(1));
            // ORDER: Relaxed; the count orders it for the readers.
            ANCHOR.age_max.store(age_max as u64, Ordering::Relaxed);
        }
        // ORDER: Relaxed; the count orders it for the readers.
        ANCHOR.tsc.store(tsc, Ordering::Relaxed);
        // ORDER: Relaxed; the count orders it for the readers.
        ANCHOR.ns.store(ns, Ordering::Relaxed);
        // ORDER: Relaxed; see the load in `extrapolate`.
        ns.max(ANCHOR.floor.load(Ordering::Relaxed))
    }

    /// Nanoseconds per tick over a stretch, lowered by the caution.
    pub(super) fn rate_of(stretch_ns: u64, stretch_ticks: u64) -> u64 {
        let rate = (u128::from(stretch_ns) << RATE_SHIFT) / u128::from(stretch_ticks.max(1));
        (rate * u128::from(1_000_000 - CAUTION_PPM) / 1_000_000) as u64
    }

    fn clocksource_is_tsc() -> bool {
        std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|name| name.trim() == "tsc")
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn the_rate_is_below_the_one_measured() {
            // 1 GHz: one nanosecond a tick, less 1,500 ppm.
            let one = 1u64 << super::RATE_SHIFT;
            assert_eq!(super::rate_of(1_000_000, 1_000_000), one * 9_985 / 10_000);
            assert!(super::rate_of(1_000_000, 3_000_000) < one / 3);
        }
    }
}
