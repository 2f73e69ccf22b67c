//! The clock: nanoseconds of `CLOCK_MONOTONIC`, read from the TSC if the kernel's clocksource is the TSC.
//!
//! Contract:
//! * *within each millisecond the kernel's clock runs at most 1,500 ppm slower than its mean rate of the last
//!   second or two ⇒ `now_ns()` is never ahead of it*, and behind by at most [`LAG_NS_MAX`];
//! * whatever the kernel's clock does, no reading on any thread is earlier than a reading that was returned
//!   before. If readings were ahead, the clock stands still until the kernel's clock has caught up.
//!
//! With the clocksource `tsc`, the time is extrapolated from an anchor: a pair of TSC and kernel time that is
//! at most one millisecond old. The rate is 1,500 ppm below the measured one. A pair that does not fit the
//! extrapolation from the anchor before it (the computer slept, the TSC was set) starts the measurement
//! again. The arithmetic is in `anchor.rs`.

/// The most by which a reading lags behind the kernel's clock.
pub const LAG_NS_MAX: u64 = 4_000;

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use tsc::{catch_up, now_ns, now_ns_unordered};

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) use {kernel_now_ns as now_ns, kernel_now_ns as now_ns_unordered};

/// Does nothing: each reading asks the kernel.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn catch_up() {}

/// Whether `now_ns()` reads the TSC now. Otherwise each reading asks the kernel.
///
/// ```
/// println!("{}", doorbell_machine::host::reads_tsc());
/// ```
pub fn reads_tsc() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return tsc::is_read();
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return false;
}

/// The kernel's own monotonic clock.
///
/// Read through the C library, which learned at the start of the process whether there is a vDSO. A tool like valgrind
/// may have removed it from the process.
pub(crate) fn kernel_now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one timespec. Every Linux has this clock, so it does not fail.
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // The monotonic clock starts at zero at boot: both parts are non-negative.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The std type of a moment, for conversion.
pub type StdInstant = std::time::Instant;

/// Converts a time of [`Host::now_ns`](crate::Host) to std's type, saturating at the end of its range.
pub fn std_instant(ns: u64) -> std::time::Instant {
    let (now, now_ns) = (std::time::Instant::now(), kernel_now_ns());
    if ns >= now_ns {
        // Std's range may end before ours: then try half the distance, and so on.
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

/// Converts a moment of std's type to a time of [`Host::now_ns`](crate::Host). A moment before the computer's
/// start gives zero; one past the range gives the largest time.
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
    use super::super::anchor::{Anchor, Course, PAIR_GAP_NS, Pair, ns_of};
    use super::kernel_now_ns;
    use crate::Ordering;
    use std::sync::atomic::{AtomicU32, AtomicU64, fence};

    /// Attempts at a pair, after which the clock uses the kernel's clock for good.
    const PAIR_TRIES: u32 = 100;
    /// How many times a reader looks again while another thread renews the anchor.
    const RENEWAL_LOOKS: u32 = 3;
    /// `state`: the kernel's clocksource has not been read, or may have changed.
    const UNKNOWN: u32 = 0;
    /// `state`: not the TSC; every reading asks the kernel.
    const KERNEL: u32 = 1;
    /// `state`: the TSC; its rate may not be measured yet.
    const TSC: u32 = 2;

    /// One anchor for all threads, guarded by a sequence count that is odd during a write. It has cache lines
    /// of its own, because it is read often and written at most about a thousand times a second.
    #[repr(align(128))]
    struct Shared {
        sequence: AtomicU32,
        state: AtomicU32,
        tsc: AtomicU64,
        ns: AtomicU64,
        rate: AtomicU64,
        age_max: AtomicU64,
        floor_ns: AtomicU64,
        /// TSC and ns of both pairs of [`Anchor::stretch`]. Only writers read it, one at a time.
        stretch: [AtomicU64; 4],
    }

    static SHARED: Shared = Shared {
        sequence: AtomicU32::new(0),
        state: AtomicU32::new(UNKNOWN),
        tsc: AtomicU64::new(0),
        ns: AtomicU64::new(0),
        rate: AtomicU64::new(0),
        age_max: AtomicU64::new(0),
        floor_ns: AtomicU64::new(0),
        stretch: [const { AtomicU64::new(0) }; 4],
    };

    /// The TSC, read after all earlier loads are complete. So a reading is not earlier than a time that this
    /// thread has got from another one.
    #[inline(always)]
    fn ticks() -> u64 {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // SAFETY: every x86-64 processor has LFENCE and RDTSC. Linux leaves RDTSC enabled, unless the program
        // asks for a signal instead (PR_SET_TSC).
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }

    /// The TSC, read in any order with the surrounding instructions.
    #[inline(always)]
    fn ticks_unordered() -> u64 {
        // SAFETY: as in `ticks`.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    #[inline]
    pub(crate) fn now_ns() -> u64 {
        extrapolate(ticks).unwrap_or_else(renew)
    }

    #[inline]
    pub(crate) fn now_ns_unordered() -> u64 {
        extrapolate(ticks_unordered).unwrap_or_else(renew)
    }

    /// Makes the kernel's time the new anchor, even if the present one is not old.
    pub(crate) fn catch_up() {
        let _ = renew();
    }

    pub(super) fn is_read() -> bool {
        // The first reading sets the state.
        let _ = now_ns();
        // ORDER: Relaxed; it publishes no other memory.
        SHARED.state.load(Ordering::Relaxed) == TSC
    }

    /// The time by the anchor; `None` if the anchor is too old or is being written.
    #[inline(always)]
    fn extrapolate(ticks: impl Fn() -> u64) -> Option<u64> {
        // ORDER: Acquire pairs with the Release that ends a renewal: the loads below see that renewal's words
        // or later ones.
        let sequence = SHARED.sequence.load(Ordering::Acquire);
        // ORDER: Relaxed; if a renewal overlapped this, the fence and the second look at the count below
        // discard the reading.
        let tsc = SHARED.tsc.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let ns = SHARED.ns.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let rate = SHARED.rate.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let age_max = SHARED.age_max.load(Ordering::Relaxed);
        // ORDER: Relaxed; it only grows, and a reader that got a later time from another thread also sees the
        // store that came before it.
        let floor_ns = SHARED.floor_ns.load(Ordering::Relaxed);
        let age = ticks().wrapping_sub(tsc);
        // ORDER: Acquire fence; pairs with the Release fence of `renew`, and keeps the loads above before the
        // second look.
        fence(Ordering::Acquire);
        if sequence & 1 != 0 || age >= age_max {
            return None;
        }
        // ORDER: Relaxed; ordered by the fence above.
        if SHARED.sequence.load(Ordering::Relaxed) != sequence {
            return None;
        }
        Some((ns + ns_of(age, rate)).max(floor_ns))
    }

    /// Asks the kernel for the time, and makes it the new anchor, unless another thread is doing so.
    #[cold]
    fn renew() -> u64 {
        // ORDER: Relaxed; it only decides which clock is read.
        match SHARED.state.load(Ordering::Relaxed) {
            KERNEL => return by_kernel(),
            UNKNOWN => {
                let state = if clocksource_is_tsc() { TSC } else { KERNEL };
                // ORDER: Relaxed; every thread would store the same value.
                SHARED.state.store(state, Ordering::Relaxed);
            }
            _ => {}
        }
        for _ in 0..RENEWAL_LOOKS {
            // ORDER: Relaxed; the exchange below decides.
            let sequence = SHARED.sequence.load(Ordering::Relaxed);
            let mine = sequence & 1 == 0
                // ORDER: Acquire pairs with the Release that ended the previous renewal: this writer sees all
                // words of the previous one.
                && SHARED
                    .sequence
                    .compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            if mine {
                // ORDER: Release fence; pairs with the Acquire fence of `extrapolate`. A reader that sees one
                // of the words stored below sees the odd count at its second look.
                fence(Ordering::Release);
                let ns = write_anchor();
                // ORDER: Release pairs with the readers' Acquire of the count.
                SHARED
                    .sequence
                    .store(sequence.wrapping_add(2), Ordering::Release);
                return ns;
            }
            std::hint::spin_loop();
            if let Some(ns) = extrapolate(ticks) {
                return ns;
            }
        }
        // The thread that renews the anchor was preempted. The floor keeps later readings from lying before
        // this one.
        by_kernel()
    }

    /// The kernel's time. It becomes the floor of all extrapolated readings.
    fn by_kernel() -> u64 {
        let ns = kernel_now_ns();
        // ORDER: Relaxed; see the load in `extrapolate`.
        SHARED.floor_ns.fetch_max(ns, Ordering::Relaxed).max(ns)
    }

    /// Kernel time and TSC, at most `PAIR_GAP_NS` apart. The TSC is read last, so that an extrapolation can
    /// only be late.
    fn pair() -> Option<Pair> {
        for _ in 0..PAIR_TRIES {
            let ns = kernel_now_ns();
            let tsc = ticks();
            // This reading comes after both, so it bounds the gap between them.
            if kernel_now_ns() - ns <= PAIR_GAP_NS {
                return Some(Pair { tsc, ns });
            }
        }
        None
    }

    /// Stores a new anchor; returns the time now. The caller has made the count odd.
    fn write_anchor() -> u64 {
        let Some(fresh) = pair() else {
            // Reading the kernel's clock takes too long for a pair: do not use the TSC.
            // ORDER: Relaxed; later readings find no anchor and see this state eventually.
            SHARED.state.store(KERNEL, Ordering::Relaxed);
            // ORDER: Relaxed; the count orders it for the readers.
            SHARED.age_max.store(0, Ordering::Relaxed);
            return by_kernel();
        };
        // ORDER: Relaxed; the exchange of the count has acquired what the previous writer stored.
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let [t0, n0, t1, n1] = &SHARED.stretch;
        let old = Anchor {
            at: Pair {
                tsc: word(&SHARED.tsc),
                ns: word(&SHARED.ns),
            },
            rate: word(&SHARED.rate),
            age_max: word(&SHARED.age_max),
            floor_ns: word(&SHARED.floor_ns),
            stretch: [
                Pair {
                    tsc: word(t0),
                    ns: word(n0),
                },
                Pair {
                    tsc: word(t1),
                    ns: word(n1),
                },
            ],
        };
        let (new, course) = old.renewed(fresh);
        if course == Course::Broken {
            // The kernel may have left the TSC too: read its clocksource again.
            // ORDER: Relaxed; it only decides which clock is read.
            SHARED.state.store(UNKNOWN, Ordering::Relaxed);
        }
        // ORDER: Relaxed; the count orders it for the readers.
        let set = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
        set(&SHARED.tsc, new.at.tsc);
        set(&SHARED.ns, new.at.ns);
        set(&SHARED.rate, new.rate);
        set(&SHARED.age_max, new.age_max);
        for (word, value) in [(t0, new.stretch[0].tsc), (n0, new.stretch[0].ns)] {
            set(word, value);
        }
        for (word, value) in [(t1, new.stretch[1].tsc), (n1, new.stretch[1].ns)] {
            set(word, value);
        }
        // ORDER: Relaxed; see the load in `extrapolate`. Other threads may raise it meanwhile.
        SHARED
            .floor_ns
            .fetch_max(new.floor_ns, Ordering::Relaxed)
            .max(new.floor_ns)
            .max(new.at.ns)
    }

    fn clocksource_is_tsc() -> bool {
        std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|name| name.trim() == "tsc")
    }
}
