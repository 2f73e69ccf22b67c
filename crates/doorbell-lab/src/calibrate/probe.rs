//! The table of probes, and one round of all of them.

use super::calls;
use super::lines::{self, Pool};
use super::stand::{Distance, Stand};
use super::wakes::{self, Awake, Means, Wake};
use super::work;
use crate::error::LabError;
use crate::measure::Clock;
use crate::progress::Progress;
use crate::text::Text;

/// One measurement. Its figure in a round is the median of several readings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// Its name in tables and in JSON.
    pub(super) name: &'static str,
    run: Run,
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
enum Run {
    Clock(fn(Clock) -> f64),
    Tried(fn(Clock) -> Result<f64, LabError>),
    Stand(fn(&Stand) -> Result<f64, LabError>),
    /// A line to another CPU and back.
    Trip(Distance),
    /// A part of a wake of a thread on a CPU that sleeps, or that is kept awake.
    Wake(Means, fn(Wake) -> f64),
    Awake(fn(Wake) -> f64),
    Bench(fn(&mut Bench) -> Result<Option<f64>, LabError>),
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

const fn probe(name: &'static str, run: Run) -> Probe {
    Probe { name, run }
}

impl Probe {
    /// How it is measured, as the profile's source states it.
    pub(super) fn how(&self) -> String {
        let mut all = Text(include_str!("probes.md")).items("Probes").into_iter();
        let how =
            all.find_map(|item| Some(item.strip_prefix(self.name)?.strip_prefix(": ")?.to_owned()));
        how.unwrap_or_default()
    }

    /// Its figure; `None` where this host lacks what it needs.
    fn measured(&self, bench: &mut Bench) -> Result<Option<f64>, LabError> {
        let clock = bench.stand.clock;
        match self.run {
            Run::Clock(of) => Ok(Some(of(clock))),
            Run::Tried(of) => of(clock).map(Some),
            Run::Stand(of) => of(&bench.stand).map(Some),
            Run::Trip(distance) => bench.trip(distance),
            Run::Wake(means, part) => bench.wake(means, part),
            Run::Awake(part) => bench.wake_awake(part),
            Run::Bench(of) => of(bench),
        }
    }
}

/// All probes, in the order in which they run.
pub(super) const PROBES: [Probe; 25] = [
    probe(
        "own_hit",
        Run::Bench(|bench| Ok(Some(bench.hits.hit_ns(bench.stand.clock)))),
    ),
    probe("own_rmw", Run::Clock(lines::own_rmw_ns)),
    probe("fence", Run::Clock(lines::fence_ns)),
    probe("clock", Run::Clock(calls::clock_ns)),
    probe("relax", Run::Clock(calls::relax_ns)),
    probe("trip_sibling", Run::Trip(Distance::Sibling)),
    probe("trip_cache", Run::Trip(Distance::Cache)),
    probe("trip_socket", Run::Trip(Distance::Socket)),
    probe("trip_remote", Run::Trip(Distance::Remote)),
    probe(
        "memory",
        Run::Bench(|bench| Ok(Some(bench.misses.miss_ns(bench.stand.clock)))),
    ),
    probe("syscall", Run::Clock(calls::syscall_ns)),
    probe("futex_call", Run::Clock(calls::futex_call_ns)),
    probe("eventfd_call", Run::Tried(calls::eventfd_call_ns)),
    probe("eventfd_turn", Run::Tried(calls::eventfd_turn_ns)),
    probe("hop", Run::Stand(calls::hop_ns)),
    probe("spawn", Run::Tried(calls::spawn_ns)),
    probe("futex_wake", Run::Wake(Means::Futex, |wake| wake.call_ns)),
    probe(
        "futex_to_run",
        Run::Wake(Means::Futex, |wake| wake.to_run_ns),
    ),
    probe("awake_wake", Run::Awake(|wake| wake.call_ns)),
    probe("awake_to_run", Run::Awake(|wake| wake.to_run_ns)),
    probe(
        "eventfd_wake",
        Run::Wake(Means::Eventfd, |wake| wake.call_ns),
    ),
    probe("late", Run::Stand(wakes::lateness_ns)),
    probe("late_awake", Run::Bench(Bench::lateness_awake)),
    probe("work_alone", Run::Stand(work::alone_ns)),
    probe(
        "work_beside",
        Run::Bench(|bench| work::beside_ns(&bench.stand)),
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
            progress.show(number, probe.name, &probe.how());
            *figure = probe.measured(bench)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_probe_says_how_it_is_measured() {
        let silent = PROBES.iter().filter(|probe| probe.how().is_empty());
        assert_eq!(
            silent.map(|probe| probe.name).collect::<Vec<_>>(),
            Vec::<&str>::new()
        );
        assert_eq!(
            Text(include_str!("probes.md")).items("Probes").len(),
            PROBES.len()
        );
    }
}
