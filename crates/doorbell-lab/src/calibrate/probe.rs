//! The table of probes, and one round of all of them.

use super::calls;
use super::lines::{self, Pool};
use super::stand::{Distance, Stand};
use super::wakes::{self, Awake, Means, Wake};
use super::work;
use crate::error::LabError;
use crate::progress::Progress;

/// One measurement. Its figure in a round is the median of several readings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// Its name in tables and in JSON.
    pub(super) name: &'static str,
    /// How it is measured, as the profile's source states it.
    pub(super) how: &'static str,
    run: fn(&mut Bench) -> Result<Option<f64>, LabError>,
}

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
            hits: Pool::small(),
            misses: Pool::large(),
        }
    }

    fn trip(&self, distance: Distance) -> Result<Option<f64>, LabError> {
        let partner = self.stand.partner(distance);
        partner
            .map(|there| lines::round_trip_ns(&self.stand, there))
            .transpose()
    }

    fn wake(&self, means: Means, part: fn(Wake) -> f64) -> Result<Option<f64>, LabError> {
        let wake = |there| wakes::wake_of(&self.stand, there, means);
        Ok(self.stand.other().map(wake).transpose()?.map(part))
    }

    /// Like [`Bench::wake`], for a CPU that is kept awake.
    fn wake_awake(&self, part: fn(Wake) -> f64) -> Result<Option<f64>, LabError> {
        let Some(there) = self.stand.other() else {
            return Ok(None);
        };
        let _awake = Awake::keep(there)?;
        Ok(Some(part(wakes::wake_of(
            &self.stand,
            there,
            Means::Futex,
        )?)))
    }

    /// How late a sleep ends on a CPU that is kept awake.
    fn lateness_awake(&mut self) -> Result<Option<f64>, LabError> {
        let _awake = Awake::keep(self.stand.here)?;
        wakes::lateness_ns(&self.stand).map(Some)
    }
}

/// A row of the table.
const fn probe(
    name: &'static str,
    how: &'static str,
    run: fn(&mut Bench) -> Result<Option<f64>, LabError>,
) -> Probe {
    Probe { name, how, run }
}

/// All probes, in the order in which they run.
pub(super) const PROBES: [Probe; 25] = [
    probe(
        "own_hit",
        "dependent loads of lines in the first-level cache",
        |bench| Ok(Some(bench.hits.hit_ns(bench.stand.clock))),
    ),
    probe("own_rmw", "locked adds to one line", |bench| {
        Ok(Some(lines::own_rmw_ns(bench.stand.clock)))
    }),
    probe("fence", "a store and a SeqCst fence, in a row", |bench| {
        Ok(Some(lines::fence_ns(bench.stand.clock)))
    }),
    probe("clock", "readings of the host's clock in a row", |bench| {
        Ok(Some(calls::clock_ns(bench.stand.clock)))
    }),
    probe("relax", "spin hints in a row", |bench| {
        Ok(Some(calls::relax_ns(bench.stand.clock)))
    }),
    probe(
        "trip_sibling",
        "a line to an SMT sibling and back, both sides spinning",
        |bench| bench.trip(Distance::Sibling),
    ),
    probe(
        "trip_cache",
        "a line to a core under the same last-level cache and back, both sides spinning",
        |bench| bench.trip(Distance::Cache),
    ),
    probe(
        "trip_socket",
        "a line to another last-level cache of the socket and back, both sides spinning",
        |bench| bench.trip(Distance::Socket),
    ),
    probe(
        "trip_remote",
        "a line to another socket and back, both sides spinning",
        |bench| bench.trip(Distance::Remote),
    ),
    probe(
        "memory",
        "dependent loads of lines that no cache holds, of 128 MiB in random order",
        |bench| Ok(Some(bench.misses.miss_ns(bench.stand.clock))),
    ),
    probe("syscall", "getppid in a row", |bench| {
        Ok(Some(calls::syscall_ns(bench.stand.clock)))
    }),
    probe("futex_call", "futex wakes without a waiter", |bench| {
        Ok(Some(calls::futex_call_ns(bench.stand.clock)))
    }),
    probe("eventfd_call", "eventfd writes without a waiter", |bench| {
        calls::eventfd_call_ns(bench.stand.clock).map(Some)
    }),
    probe(
        "eventfd_turn",
        "an eventfd write, the epoll_wait that finds it, and the read that empties it, by one thread",
        |bench| calls::eventfd_turn_ns(bench.stand.clock).map(Some),
    ),
    probe(
        "hop",
        "from one thread to another of one CPU by a futex: wake, wait, switch",
        |bench| calls::hop_ns(&bench.stand).map(Some),
    ),
    probe("spawn", "starting a thread, for the starter", |bench| {
        calls::spawn_ns(bench.stand.clock).map(Some)
    }),
    probe(
        "futex_wake",
        "the waker's call for a thread that sleeps on a CPU that was idle for 1 ms",
        |bench| bench.wake(Means::Futex, |wake| wake.call_ns),
    ),
    probe(
        "futex_to_run",
        "from before that call to the woken thread's first step",
        |bench| bench.wake(Means::Futex, |wake| wake.to_run_ns),
    ),
    probe(
        "awake_wake",
        "the waker's call for a thread on a CPU kept awake by an idle-class thread",
        |bench| bench.wake_awake(|wake| wake.call_ns),
    ),
    probe(
        "awake_to_run",
        "from before that call to the woken thread's first step",
        |bench| bench.wake_awake(|wake| wake.to_run_ns),
    ),
    probe(
        "eventfd_wake",
        "the waker's write for a thread that is in epoll_wait on a CPU that was idle for 1 ms",
        |bench| bench.wake(Means::Eventfd, |wake| wake.call_ns),
    ),
    probe(
        "late",
        "how late a sleep of 1 ms ends on an otherwise idle CPU",
        |bench| wakes::lateness_ns(&bench.stand).map(Some),
    ),
    probe(
        "late_awake",
        "how late it ends on a CPU kept awake by an idle-class thread",
        Bench::lateness_awake,
    ),
    probe(
        "work_alone",
        "a computation of some microseconds",
        |bench| work::alone_ns(&bench.stand).map(Some),
    ),
    probe(
        "work_beside",
        "the same while an SMT sibling does the same",
        |bench| work::beside_ns(&bench.stand),
    ),
];

/// The figures of a round, in the order of [`PROBES`]; `None` where this host lacks what the probe needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round(pub(super) [Option<f64>; PROBES.len()]);

impl Round {
    /// Measures everything once.
    ///
    /// # Errors
    /// The error of the probe that failed.
    pub(super) fn run(
        bench: &mut Bench,
        number: u32,
        progress: &Progress,
    ) -> Result<Self, LabError> {
        let mut figures = [None; PROBES.len()];
        for (figure, probe) in figures.iter_mut().zip(&PROBES) {
            progress.show(number, probe.name, probe.how);
            *figure = (probe.run)(bench)?;
            progress.advance();
        }
        Ok(Self(figures))
    }

    /// The figure of a probe.
    pub(super) fn of(&self, probe: &str) -> Option<f64> {
        self.0[place_of(probe)]
    }
}

/// The place of a probe in [`PROBES`].
pub(super) fn place_of(name: &str) -> usize {
    let place = PROBES.iter().position(|probe| probe.name == name);
    place.unwrap_or_else(|| panic!("there is no probe {name}"))
}
