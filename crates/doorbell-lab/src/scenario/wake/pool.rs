//! Threads that never sleep: they look for wakes that are due and for workers that were woken.

use std::hint;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::super::common::{join, thread_on};
use super::board::{Board, Shape};
use super::hosts::{Cpus, THREADS};
use crate::error::LabError;
use crate::measure::Samples;

pub(super) const NAME: &str = "spinning pool";
const THREAD: &str = "spinning";
/// After the last burst, a worker that has not run for so long never will.
const LOST: Duration = Duration::from_secs(5);

/// What the threads share.
#[derive(Debug)]
struct Pool {
    board: Arc<Board>,
    /// The next burst of each messenger: one thread at a time stands for it.
    next: Vec<Mutex<u32>>,
    woken: Sender<usize>,
    jobs: Receiver<usize>,
}

/// Does everything of the board, and says how late each run began.
///
/// # Errors
/// If a thread cannot be started, or panics.
pub(super) fn run(board: &Arc<Board>, shape: Shape, cpus: Cpus) -> Result<Vec<Samples>, LabError> {
    let (woken, jobs) = unbounded();
    let pool = Arc::new(Pool {
        board: Arc::clone(board),
        next: (0..shape.messengers).map(|_| Mutex::new(0)).collect(),
        woken,
        jobs,
    });
    let mut threads = Vec::new();
    for place in 0..THREADS {
        let pool = Arc::clone(&pool);
        let cpu = cpus.map(|cpus| cpus[place]);
        threads.push(thread_on(THREAD, cpu, move || pool.spin())?);
    }
    let joined = threads.into_iter().map(|thread| join(thread, THREAD));
    joined.collect()
}

impl Pool {
    fn spin(&self) -> Samples {
        let mut late = Samples::default();
        loop {
            let now = Instant::now();
            let mut is_over = true;
            for messenger in 0..self.next.len() {
                is_over &= self.look(messenger, now);
            }
            if let Ok(place) = self.jobs.try_recv() {
                if let Some(ns) = self.board.work(place) {
                    late.record(ns);
                }
            } else if is_over {
                return late;
            } else {
                hint::spin_loop();
            }
        }
    }

    /// Wakes a messenger's workers if that is due. Whether it has done all it has to, and they too.
    fn look(&self, messenger: usize, now: Instant) -> bool {
        // The other thread may be at it.
        let Ok(mut next) = self.next[messenger].try_lock() else {
            return false;
        };
        let due = self.board.due(messenger, *next);
        if *next == self.board.bursts() {
            // One whose wake was lost is found by its counts.
            return self.board.all_wait(messenger) || now > due + LOST;
        }
        if now >= due {
            *next += 1;
            self.board.wake_all(messenger, |place| {
                // It does not fail while this has the other end.
                let _ = self.woken.send(place);
            });
        }
        false
    }
}
