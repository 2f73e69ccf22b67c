//! One round of all probes.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use crossbeam_utils::CachePadded;
use doorbell_machine::{Host, Machine as _};

use super::memory::Pool;
use super::stand::Stand;
use super::wakes::{Event, IDLE, lateness_ns, round_trip_ns, wake, wake_ns, while_awake};
use crate::measure::{Pin, median};
use crate::peers::join;
use crate::progress::Progress;
use crate::text::Text;
use crate::tools::End;

/// Accesses to a line that is already cached, and to lines that no cache holds.
const HITS: u32 = 200_000;
const MISSES: u32 = 100_000;
/// The sizes of a pool that the first-level cache holds, and of one that no cache holds: more than most last-level
/// caches offer one core.
const SMALL_BYTES: usize = 4 << 10;
const LARGE_BYTES: usize = 128 << 20;
/// System calls between two readings of the clock.
const CALLS: u32 = 2_000;
/// Chunks, and how many are in each: round trips of a line (about ten microseconds), round trips between two threads of
/// one CPU, and computations (about ten microseconds).
const TRIPS: [u32; 2] = [101, 128];
const HOPS: [u32; 2] = [41, 32];
const WORK: [u32; 2] = [101, 1];
const TURNS: u32 = 8_192;
/// Threads that are started one after another.
const THREADS: usize = 32;

/// The probes in the order in which they run, and how each is measured, as the profile's source states it.
pub(super) static PROBES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let items = Text(include_str!("probes.md")).items("Probes");
    let named = items.iter().filter_map(|item| item.split_once(": "));
    let owned = named.map(|(name, how)| (name.to_owned(), how.to_owned()));
    owned.collect()
});

/// The figures of a round in ns, without those of probes that need what this host lacks.
pub(super) type Round = BTreeMap<&'static str, f64>;

/// What the probes share.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) stand: Stand,
    hits: Pool,
    misses: Pool,
}

impl Bench {
    pub(super) fn new(stand: Stand) -> Self {
        Self {
            stand,
            hits: Pool::of(SMALL_BYTES),
            misses: Pool::of(LARGE_BYTES),
        }
    }

    /// Measures everything once.
    pub(super) fn round(&mut self, number: u32, progress: &Progress) -> Result<Round> {
        let mut round = Round::new();
        for (name, how) in PROBES.iter() {
            progress.say(&format!("round {}: {name} ({how})", number + 1));
            round.extend(self.figure(name)?.map(|ns| (name.as_str(), ns)));
            progress.advance();
        }
        Ok(round)
    }

    /// A line to a CPU and back.
    fn trip(&self, there: Option<usize>) -> Result<Option<f64>> {
        let trip = |there| round_trip_ns::<false>(&self.stand, there, TRIPS);
        there.map(trip).transpose()
    }

    /// A part of a wake of a thread on another CPU, which was idle for so long.
    fn woken(&self, event: Option<Event>, idle: Duration, part: usize) -> Result<Option<f64>> {
        let wake = |there| wake_ns(&self.stand, there, event, idle);
        let found = self.stand.other().map(wake).transpose()?;
        Ok(found.map(|wake| wake[part]))
    }

    /// The same while that CPU is kept awake.
    fn awake(&self, part: usize) -> Result<Option<f64>> {
        self.stand.other().map_or(Ok(None), |there| {
            while_awake(&self.stand, there, || self.woken(None, IDLE, part))
        })
    }

    /// The figure of a probe; `None` where this host lacks what it needs.
    fn figure(&mut self, probe: &str) -> Result<Option<f64>> {
        let stand = &self.stand;
        let [sibling, cache, socket, remote] = stand.partners;
        Ok(Some(match probe {
            "own_hit" => {
                // One turn to cache the lines.
                let lines = SMALL_BYTES / size_of::<CachePadded<u8>>();
                self.hits.load_ns(stand, lines as u32);
                self.hits.load_ns(stand, HITS)
            }
            "own_rmw" => own_rmw_ns(stand),
            "fence" => fence_ns(stand),
            "clock" => stand.mean_ns(CALLS, |_| {
                black_box(Host::now_ns());
            }),
            "relax" => stand.mean_ns(CALLS, |_| Host::relax(1)),
            "trip_sibling" => return self.trip(sibling),
            "trip_cache" => return self.trip(cache),
            "trip_socket" => return self.trip(socket),
            "trip_remote" => return self.trip(remote),
            "memory" => self.misses.load_ns(stand, MISSES),
            "syscall" => stand.mean_ns(CALLS, |_| {
                black_box(rustix::process::getppid());
            }),
            "futex_call" => {
                let word = AtomicU32::new(0);
                stand.mean_ns(CALLS, |_| wake(&word))
            }
            "eventfd_call" => {
                let event = Event::new()?;
                stand.mean_ns(CALLS, |_| event.ring())
            }
            "eventfd_turn" => {
                let event = Event::new()?;
                let turn = |_| {
                    event.ring();
                    event.wait();
                };
                stand.mean_ns(CALLS, turn)
            }
            // A wake, a wait and a switch.
            "hop" => round_trip_ns::<true>(stand, stand.here, HOPS)? / 2.0,
            "spawn" => spawn_ns(stand)?,
            "futex_wake" => return self.woken(None, IDLE, 0),
            "futex_to_run" => return self.woken(None, IDLE, 1),
            "futex_wake_20us" => return self.woken(None, Duration::from_micros(20), 0),
            "futex_to_run_20us" => return self.woken(None, Duration::from_micros(20), 1),
            "futex_wake_200us" => return self.woken(None, Duration::from_micros(200), 0),
            "futex_to_run_200us" => return self.woken(None, Duration::from_micros(200), 1),
            "futex_wake_10ms" => return self.woken(None, Duration::from_millis(10), 0),
            "futex_to_run_10ms" => return self.woken(None, Duration::from_millis(10), 1),
            "awake_wake" => return self.awake(0),
            "awake_to_run" => return self.awake(1),
            "eventfd_wake" => return self.woken(Some(Event::new()?), IDLE, 0),
            "late" => lateness_ns(stand)?,
            "late_awake" => while_awake(stand, stand.here, || lateness_ns(stand))?,
            "work_alone" => {
                let _here = Pin::to(stand.here)?;
                stand.median_ns(WORK, compute)
            }
            "work_beside" => {
                let beside = |there| work_beside_ns(stand, there);
                return sibling.map(beside).transpose();
            }
            unknown => unreachable!("there is no probe {unknown}"),
        }))
    }
}

/// A locked add to a line in the first-level cache.
fn own_rmw_ns(stand: &Stand) -> f64 {
    let word = CachePadded::new(AtomicU32::new(0));
    stand.mean_ns(HITS, |_| {
        // ORDER: no other thread sees the word; SeqCst is what the instruction is anyway.
        word.fetch_add(1, Ordering::SeqCst);
    })
}

/// A sequentially consistent fence after a store, its usual place.
fn fence_ns(stand: &Stand) -> f64 {
    let word = CachePadded::new(AtomicU32::new(0));
    // Another thread could see the word, so the compiler must not drop the stores or merge the fences.
    black_box(&word);
    stand.mean_ns(HITS, |turn| {
        // ORDER: relaxed; no other thread sees the word, and only the instruction is measured.
        word.store(turn, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    })
}

/// Starting a thread, as seen by the thread that starts it.
fn spawn_ns(stand: &Stand) -> Result<f64> {
    let mut taken = Vec::with_capacity(THREADS);
    for _ in 0..THREADS {
        let start = stand.clock.now();
        let thread = thread::Builder::new().spawn(|| ());
        let end = stand.clock.now();
        taken.push(stand.clock.ns_between(start, end) as f64);
        join(thread.context("starting a thread")?)?;
    }
    Ok(median(&taken).unwrap_or_default())
}

/// Four independent sums, as in code that keeps a core busy by itself.
fn compute() {
    let mut sums = [1_u64, 2, 3, 4];
    for turn in 0..black_box(TURNS) {
        for sum in &mut sums {
            *sum = sum.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(turn);
        }
    }
    black_box(sums);
}

/// The computation while the CPU `there` does the same all the time.
fn work_beside_ns(stand: &Stand, there: usize) -> Result<f64> {
    let busy = |end: &End| {
        while !end.is_asked() {
            compute();
        }
        Ok(())
    };
    let own = |_: &End| stand.median_ns(WORK, compute);
    stand.beside(there, End::default(), busy, End::ask, own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_probe_of_the_text_has_a_figure_and_no_other_is_known() {
        let mut bench = Bench::new(Stand::of_this_host().expect("there is a CPU"));
        let round = bench
            .round(0, &Progress::hidden())
            .expect("it can be measured");
        let there = bench.stand.other().is_some();
        assert!(round.len() >= if there { 26 } else { 15 }, "{round:?}");
        assert!(round.values().all(|ns| *ns > 0.0), "{round:?}");
        // Any other CPU serves to check that the partner starts and ends.
        let there = bench.stand.other().unwrap_or(bench.stand.here);
        let beside = work_beside_ns(&bench.stand, there);
        assert!(beside.expect("it can be started") > 0.0);
    }
}
