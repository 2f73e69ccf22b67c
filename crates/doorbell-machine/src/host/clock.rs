//! The clock: nanoseconds of `CLOCK_MONOTONIC`, by the TSC where the kernel itself trusts it.
//!
//! Contract:
//! * *the kernel's clock does not run slower, within a millisecond, than 1,500 ppm below its
//!   mean rate of the last second or two ⇒ `now_ns()` is never ahead of it*, and behind by at
//!   most [`LAG_NS_MAX`];
//! * whatever the kernel's clock does, no reading on any thread lies before one that was given
//!   out earlier, and a reading that turns out ahead is waited for, not stepped back from.
//!
//! Where the clocksource is `tsc`, the time is extrapolated from an anchor (a pair of TSC and
//! kernel time) that is at most one millisecond old, at a rate 1,500 ppm below the measured one.
//! A pair that does not fit the line of the anchor before it (the computer slept, the TSC was
//! set) begins the measurement anew. The arithmetic is in `anchor.rs`.

/// By how much a reading may lie behind the kernel's clock.
pub const LAG_NS_MAX: u64 = 4_000;

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use tsc::{catch_up, now_ns, now_ns_unordered};

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) use {kernel_now_ns as now_ns, kernel_now_ns as now_ns_unordered};

/// The kernel's clock is asked each time.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn catch_up() {}

/// Whether `now_ns()` goes by the TSC now; else each reading asks the kernel.
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
/// By the C library, which was told at the start of the process whether there is a vDSO. rustix asks the
/// kernel for its address, and crashes where a tool like valgrind has taken the vDSO out of the process.
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

/// The CPU time that the calling thread has used.
pub(crate) fn thread_cpu_ns() -> u64 {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one timespec. Every Linux has this clock, so it does not fail.
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut used) };
    // It starts at zero with the thread: both parts are non-negative.
    used.tv_sec.cast_unsigned() * 1_000_000_000 + used.tv_nsec.cast_unsigned()
}

/// Std's moments, for conversion.
pub type StdInstant = std::time::Instant;

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
    use super::super::anchor::{Anchor, Course, PAIR_GAP_NS, Pair, ns_of};
    use super::kernel_now_ns;
    use crate::Ordering;
    use std::sync::atomic::{AtomicU32, AtomicU64, fence};

    /// How often a pair is tried before the kernel's clock is used for good.
    const PAIR_TRIES: u32 = 100;
    /// How often a reader looks again while another thread renews the anchor.
    const RENEWAL_LOOKS: u32 = 3;
    /// `state`: the kernel's clocksource has to be looked at.
    const UNKNOWN: u32 = 0;
    /// `state`: not the TSC; every reading asks the kernel.
    const KERNEL: u32 = 1;
    /// `state`: the TSC; the rate may still have to be measured.
    const TSC: u32 = 2;

    /// One anchor for all threads, guarded by a sequence count (odd while it is written), in
    /// cache lines of its own: it is written a thousand times a second at most, read often.
    #[repr(align(128))]
    struct Shared {
        sequence: AtomicU32,
        state: AtomicU32,
        tsc: AtomicU64,
        ns: AtomicU64,
        rate: AtomicU64,
        age_max: AtomicU64,
        floor_ns: AtomicU64,
        /// Only read by writers, one after the other: tsc and ns of both ends.
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

    /// The TSC, read after every load before it has its value: a time that was read from
    /// another thread's message is not overtaken.
    #[inline(always)]
    fn ticks() -> u64 {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // SAFETY: every x86-64 processor has LFENCE and RDTSC, and Linux leaves the latter
        // enabled for programs that do not ask to be killed by it (PR_SET_TSC).
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }

    /// The TSC, whenever the processor comes to it.
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

    /// Makes the kernel's time the new anchor, also where the present one is not old.
    pub(crate) fn catch_up() {
        let _ = renew();
    }

    pub(super) fn is_read() -> bool {
        // Its first reading finds out.
        let _ = now_ns();
        // ORDER: Relaxed; a word of its own.
        SHARED.state.load(Ordering::Relaxed) == TSC
    }

    /// The time by the anchor; `None` where that is too old or being written.
    #[inline(always)]
    fn extrapolate(ticks: impl Fn() -> u64) -> Option<u64> {
        // ORDER: Acquire pairs with the Release that ends a renewal; the anchor's words read
        // below are at least that renewal's.
        let sequence = SHARED.sequence.load(Ordering::Acquire);
        // ORDER: Relaxed; the fence and the second look at the count below throw the reading
        // away if a renewal overlapped it.
        let tsc = SHARED.tsc.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let ns = SHARED.ns.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let rate = SHARED.rate.load(Ordering::Relaxed);
        // ORDER: Relaxed; as above.
        let age_max = SHARED.age_max.load(Ordering::Relaxed);
        // ORDER: Relaxed; a maximum that only grows, and a reader that heard of a later time
        // from another thread heard of this store before it.
        let floor_ns = SHARED.floor_ns.load(Ordering::Relaxed);
        let age = ticks().wrapping_sub(tsc);
        // ORDER: Acquire fence; the loads above stay before the second look.
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

    /// Asks the kernel, and makes that the new anchor unless another thread is at it.
    #[cold]
    fn renew() -> u64 {
        // ORDER: Relaxed; nothing hangs on it but which clock is asked.
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
                // ORDER: Acquire pairs with the Release that ended the renewal before: one
                // writer after the other.
                && SHARED
                    .sequence
                    .compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            if mine {
                // ORDER: Release fence; a reader that sees one of the words stored below sees
                // the odd count at its second look.
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
        // The renewing thread was preempted. What is given out now lies past its anchor.
        by_kernel()
    }

    /// The kernel's time, made known to those who extrapolate.
    fn by_kernel() -> u64 {
        let ns = kernel_now_ns();
        // ORDER: Relaxed; see the load in `extrapolate`.
        SHARED.floor_ns.fetch_max(ns, Ordering::Relaxed).max(ns)
    }

    /// Kernel time and TSC, at most `PAIR_GAP_NS` apart, the TSC read last: what is
    /// extrapolated from a later tick can only be late.
    fn pair() -> Option<Pair> {
        for _ in 0..PAIR_TRIES {
            let ns = kernel_now_ns();
            let tsc = ticks();
            // The two lie before this third reading, which so bounds the gap between them.
            if kernel_now_ns() - ns <= PAIR_GAP_NS {
                return Some(Pair { tsc, ns });
            }
        }
        None
    }

    /// Stores a fresh anchor; returns the time now. Only between two changes of the count.
    fn write_anchor() -> u64 {
        let Some(fresh) = pair() else {
            // Reading the kernel's clock takes too long for a pair: leave the TSC alone.
            // ORDER: Relaxed; every later reading that finds no anchor sees it sometime.
            SHARED.state.store(KERNEL, Ordering::Relaxed);
            // ORDER: Relaxed; the count orders it for the readers.
            SHARED.age_max.store(0, Ordering::Relaxed);
            return by_kernel();
        };
        // ORDER: Relaxed; the count's exchange ordered the writer before this one.
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
            // ORDER: Relaxed; the kernel may have left the TSC too, so look again.
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
        // ORDER: Relaxed; see the load in `extrapolate`. Others may raise it meanwhile.
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
