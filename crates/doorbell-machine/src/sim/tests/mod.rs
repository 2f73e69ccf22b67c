//! Tests of the simulated machine against its promises.

mod costs;
mod faults;
mod litmus;
mod masks;
mod oracle;
mod parkers;
mod place;
mod poller;
mod races;
mod sched;
mod smt;
mod wait;
#[cfg(feature = "host")]
mod whole;

use crate::sim::{self, Config, Costs, MachineSpec, Outcome, Sim};
use crate::{Machine, ThreadSpec};
use std::sync::{Arc, Mutex};

/// Starts a thread on a CPU.
fn spawn(cpu: usize, body: impl FnOnce() + Send + 'static) -> sim::SimThread {
    let spec = ThreadSpec {
        name: format!("t{cpu}"),
        cpu: Some(cpu),
        stack_size: None,
    };
    Sim::<0>::spawn(spec, Box::new(body)).unwrap()
}

/// A machine without randomness.
fn exact(cpus: usize) -> Config {
    Config {
        machine: MachineSpec {
            jitter_percent: 0,
            ..MachineSpec::flat(cpus)
        },
        ..Config::default()
    }
}

fn costs() -> Costs {
    Costs::default()
}

/// Notes of the threads of a run, with their times.
#[derive(Clone, Debug, Default)]
struct Diary(Arc<Mutex<Vec<(&'static str, u64)>>>);

impl Diary {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push((what, sim::time_ns()));
    }

    /// The notes in order of time.
    fn order(&self) -> Vec<&'static str> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(what, _)| *what)
            .collect()
    }

    /// When this note was made first.
    #[track_caller]
    fn when(&self, what: &str) -> u64 {
        let notes = self.0.lock().unwrap();
        notes.iter().find(|(it, _)| *it == what).expect("noted").1
    }
}

/// Runs `body`, which must not fail.
#[track_caller]
fn run(config: Config, body: impl FnOnce() + 'static) -> Outcome {
    let outcome = sim::run(config, body).unwrap();
    assert_eq!(outcome.failure, None, "{outcome:#?}");
    outcome
}
