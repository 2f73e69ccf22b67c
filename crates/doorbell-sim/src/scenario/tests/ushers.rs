//! A flood at an urgent lane with an usher, whose CPU others want or nobody does.

use super::floods::{CORES, MS, Pipe, Place, READ_NS, SPACING_NS, US, reads, spawn};
use super::one_crew;
use crate::scenario::class::{Classes, RT, Urgent};
use crate::scenario::crew::{CrewConfig, Lanes};
use crate::scenario::oracle;
use doorbell_core::lane::{IdlePolicy, LaneCounts};
use doorbell_core::switches::Switches;
use doorbell_machine::sim::{self, Config, MachineSpec, Memory};
use doorbell_machine::{Machine, Sim, ThreadHandle};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Descriptors that become ready, and how often: four times as often as a flood has it.
const PIPES: usize = 4;
const APART_NS: u64 = 100 * US;
const LASTS_NS: u64 = 40 * MS;

/// Whether a thread like any other wants the CPU of the lane all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cpu {
    Free,
    Wanted,
}

/// What came of a flood.
#[derive(Clone, Copy, Debug, Default)]
struct Came {
    counts: LaneCounts,
    late_max_ns: u64,
}

/// The first thread.
fn program(cpu: Cpu) -> Came {
    Sim::<0>::bind_thread(&[CORES]).unwrap();
    let crew = CrewConfig {
        classes: Classes::Each(Urgent::Fifo),
        idle: IdlePolicy::Park,
        spacing_ns: SPACING_NS,
        ushers: true,
        ..one_crew(CORES)
    };
    let (lanes, threads) = Lanes::<0>::start(crew, Arc::default()).unwrap();
    let place = Place::of(RT, 0);
    let until_ns = sim::time_ns() + LASTS_NS;
    let wants = (cpu == Cpu::Wanted).then(|| {
        spawn(0, move || {
            while sim::time_ns() < until_ns + MS {
                sim::work(20 * US);
            }
        })
    });
    let pipes: Vec<Pipe> = (0..PIPES).map(|_| Pipe::new()).collect();
    let readers = pipes.iter().map(|pipe| reads(&lanes, place, pipe.clone()));
    let readers: Vec<_> = readers.collect();
    while sim::time_ns() < until_ns {
        pipes.iter().for_each(Pipe::write);
        sim::sleep(APART_NS);
    }
    let counts = lanes.counts()[place.lane];
    pipes.iter().for_each(Pipe::end);
    for reader in readers {
        assert!(lanes.wait_for(reader, 0).is_ok());
    }
    if let Some(wants) = wants {
        wants.join().unwrap();
    }
    lanes.close(threads);
    oracle::check_rest(&lanes);
    oracle::check_counts(&lanes.counts(), Switches::default());
    oracle::check_freed(lanes);
    let late_max_ns = pipes.iter().map(Pipe::late_max_ns).max().unwrap();
    Came {
        counts,
        late_max_ns,
    }
}

fn run(cpu: Cpu, seed: u64) -> Came {
    let config = Config {
        seed,
        machine: MachineSpec::flat(CORES + 1),
        memory: [Memory::Sc, Memory::Tso][(seed % 2) as usize],
        ..Config::default()
    };
    let came = Rc::new(RefCell::new(Came::default()));
    let theirs = Rc::clone(&came);
    let outcome = sim::run_traced(config, None, move || {
        theirs.replace(program(cpu));
    });
    assert_eq!(outcome.unwrap().failure, None, "seed {seed}");
    came.take()
}

#[test]
fn a_look_is_made_at_once_where_nobody_else_wants_the_cpu() {
    for seed in 0..10 {
        let Came {
            counts,
            late_max_ns,
        } = run(Cpu::Free, seed);
        assert!(late_max_ns <= READ_NS, "{late_max_ns} ns, {counts:?}");
        assert!(counts.looks_ushered > 10, "{counts:?}");
        // One for a nap, and one for the first tasks.
        let rings = counts.rings - counts.rings_helped;
        assert!(rings <= counts.looks_ushered + 1, "{counts:?}");
        // All that comes at once is found by its ready descriptor: few looks are made beside that.
        assert!(
            counts.looks_put_off < counts.unparks_ready / 4,
            "{counts:?}"
        );
    }
}

#[test]
fn whoever_wants_the_cpu_is_interrupted_as_often_as_looks_are_due() {
    for seed in 0..10 {
        let Came {
            counts,
            late_max_ns,
        } = run(Cpu::Wanted, seed);
        assert!(late_max_ns <= SPACING_NS + READ_NS, "{counts:?}");
        assert_eq!(counts.looks_ushered, 0, "{counts:?}");
        assert!(
            counts.looks_put_off > LASTS_NS / SPACING_NS / 2,
            "{counts:?}"
        );
        // A sentinel looks each 250 us for 10 ms after it was of use, once or twice in this time.
        let looks = LASTS_NS / SPACING_NS;
        assert!(counts.parks < 5 * looks / 2, "{counts:?}");
    }
}
