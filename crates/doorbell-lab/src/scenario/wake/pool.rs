//! Threads that never sleep: they poll for due wakes and for woken workers.

use std::hint;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use crossbeam_channel::{Receiver, Sender, unbounded};

use super::MESSENGERS;
use super::board::Board;
use crate::measure::Samples;
use crate::peers::{Workers, join_all, thread_on};

/// A worker that has not run by then has lost its wake.
const LOST: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Pool {
    board: Arc<Board>,
    /// The next burst of each messenger.
    next: Vec<Mutex<u32>>,
    woken: Sender<usize>,
    jobs: Receiver<usize>,
}

pub(super) fn run(board: &Arc<Board>, workers: &Workers) -> Result<Vec<Samples>> {
    let (woken, jobs) = unbounded();
    let pool = Arc::new(Pool {
        board: Arc::clone(board),
        next: (0..MESSENGERS).map(|_| Mutex::new(0)).collect(),
        woken,
        jobs,
    });
    let mut threads = Vec::new();
    for place in 0..workers.count() {
        let pool = Arc::clone(&pool);
        let spin = move || pool.spin();
        threads.push(thread_on("spinning", workers.cpu(place), spin)?);
    }
    join_all(threads)
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

    /// Wakes the workers of a messenger if it is time. Whether that messenger is done.
    fn look(&self, messenger: usize, now: Instant) -> bool {
        // The other thread may have the lock.
        let Ok(mut next) = self.next[messenger].try_lock() else {
            return false;
        };
        let due = self.board.due(messenger, *next);
        if *next == self.board.bursts() {
            // The counts show a worker that lost its wake.
            return self.board.all_wait(messenger) || now > due + LOST;
        }
        if now >= due {
            *next += 1;
            self.board.wake_all(messenger, |place| {
                // Cannot fail while `self` has the receiver.
                let _ = self.woken.send(place);
            });
        }
        false
    }
}
