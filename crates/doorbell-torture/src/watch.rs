//! A thread that notices when the run hangs.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use doorbell::Handle;

use super::cores::Turns;
use super::driver::Station;
use super::round::Shape;

/// How long nothing may move: an operation takes a few milliseconds, or a few seconds on a loaded machine.
const STANDSTILL: Duration = Duration::from_mins(1);

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// The exit status of a run that hangs.
const EXIT_STOOD_STILL: i32 = 3;

/// The drivers of the current round.
#[derive(Debug, Default)]
pub(super) struct Stations {
    present: Mutex<Present>,
}

#[derive(Debug, Default)]
struct Present {
    seed: u64,
    shape: Option<Shape>,
    handle: Option<Handle>,
    turns: Arc<Turns>,
    stations: Vec<Arc<Station>>,
    /// When anything last moved, and how many operations there were then.
    moved: Option<(Instant, u64)>,
}

impl Stations {
    pub(super) fn seed(&self, seed: u64) {
        let mut present = self.lock();
        *present = Present {
            seed,
            ..Present::default()
        };
    }

    pub(super) fn begin(&self, handle: &Handle, shape: Shape, turns: &Arc<Turns>) {
        let mut present = self.lock();
        present.handle = Some(handle.clone());
        present.shape = Some(shape);
        present.turns = Arc::clone(turns);
    }

    pub(super) fn add(&self) -> Arc<Station> {
        let station = Arc::default();
        self.lock().stations.push(Arc::clone(&station));
        station
    }

    fn lock(&self) -> MutexGuard<'_, Present> {
        // A panic elsewhere cannot leave it half written.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The report, if nothing has moved for too long.
    fn standstill(&self) -> Option<String> {
        let mut present = self.lock();
        let steps = present.stations.iter().map(|s| s.look().1).sum();
        let (since, before) = *present.moved.get_or_insert((Instant::now(), steps));
        if before != steps {
            present.moved = Some((Instant::now(), steps));
            return None;
        }
        if since.elapsed() < STANDSTILL {
            return None;
        }
        let mut text = format!(
            "seed {}: nothing moved for {STANDSTILL:?} after {steps} operations\n  {:?}, {:?}\n",
            present.seed, present.shape, present.turns
        );
        // Writing to a string does not fail.
        for (number, station) in present.stations.iter().enumerate() {
            let (op, steps) = station.look();
            let _ = writeln!(text, "  driver {number}: `{}` after {steps}", op.name());
        }
        if let Some(handle) = &present.handle {
            let _ = writeln!(text, "  {:#?}", handle.metrics());
        }
        Some(text)
    }

    /// Starts a thread that ends the program when nothing moves any more, and that ends itself when the run
    /// is over.
    pub(super) fn guard(self: &Arc<Self>) {
        let stations = Arc::downgrade(self);
        std::thread::spawn(move || {
            while let Some(stations) = stations.upgrade() {
                if let Some(text) = stations.standstill() {
                    // The program ends anyway.
                    let _ = io::stderr().write_all(format!("error: {text}\n").as_bytes());
                    std::process::exit(EXIT_STOOD_STILL);
                }
                drop(stations);
                std::thread::sleep(LOOK);
            }
        });
    }
}
