//! Surges: descriptors that become ready at the same moment while their worker is kept serving calls, and
//! crowds of tasks behind a poll that may be long.

use super::ledger::Ledger;
use super::program::{Ended, Player, Spun, below, one_in};
use doorbell_core::io::{Direction, Registration};
use doorbell_core::parcel;
use doorbell_core::task::Kind;
use doorbell_machine::sim::{self, SimCounter, SimFd};
use doorbell_machine::{Counter, Readiness};
use futures_channel::oneshot::channel;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;

/// How many descriptors become ready together, at most.
const PIPES_MAX: u64 = 12;
/// How often each descriptor becomes ready, at most.
const ROUNDS_MAX: u64 = 3;
/// The longest time between two rounds: long enough for a worker to have served calls for long.
const ROUND_NS: u64 = 2_500_000;
/// How many calls keep a worker busy, and how long each takes. 64 of them take more than the 1 ms after
/// which a spinning worker makes a pass.
const CALLS_MIN: u64 = 70;
const CALLS_MORE: u64 = 130;
const CALL_MIN_NS: u64 = 16_000;
const CALL_MORE_NS: u64 = 4_000;
/// The most tasks in a crowd.
const CROWD_MAX: u64 = 20;
/// How long the poll that spawned the crowd goes on.
const POLLS_NS: [u64; 5] = [0, 30_000, 150_000, 1_600_000, 3_000_000];
/// How many tellers there are beyond two, at most; how many tasks each of them wakes, and when.
const TELLERS_MAX: u64 = 3;
const TOLD: usize = 4;
const TELL_NS: u64 = 30_000;
/// How often a wake is overtaken, at most; how long it is prepared, and how close together the steps are.
const OVERTAKES_MAX: u64 = 6;
const SET_UP_NS: u64 = 70_000;
const FIRST_NS: u64 = 30_000;
const CLOSE_NS: u64 = 1_500;
/// How long the polls of the worker and of the waker keep the task from running.
const KEPT_NS: [u64; 3] = [200_000, 200_000, 2_500_000];
/// The longest poll of most tasks of a crowd.
const BRIEF_NS: u64 = 20_000;

/// Bytes on their way to a descriptor.
struct Pipe {
    fd: SimFd,
    bytes: SimCounter,
}

impl Pipe {
    fn open() -> Arc<Self> {
        Arc::new(Pipe {
            fd: SimFd::open(),
            bytes: SimCounter::default(),
        })
    }

    /// One byte comes from outside.
    fn write(&self) {
        self.bytes.add_shared(1);
        self.fd.set_ready(Readiness::READABLE);
    }

    fn read(&self) -> io::Result<u64> {
        let _ = self.fd.take(Readiness::READABLE);
        match self.bytes.get() {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            bytes => {
                self.bytes.set(0);
                Ok(bytes)
            }
        }
    }
}

impl<const BUG: u8> Player<BUG> {
    /// Makes some descriptors of one worker ready, mostly at the same moment. Meanwhile that worker may be
    /// kept serving calls, and another worker of its scheduler may get a crowd of tasks.
    pub(super) fn surge(&self) {
        let worker = self.any_worker();
        let rounds = 1 + below(ROUNDS_MAX);
        let pipes: Vec<_> = (0..below(PIPES_MAX + 1)).map(|_| Pipe::open()).collect();
        for pipe in &pipes {
            self.read_all(worker, pipe, rounds);
        }
        let is_kept = one_in(2);
        if is_kept {
            let work_ns = CALL_MIN_NS + below(CALL_MORE_NS);
            self.keep_serving(worker, CALLS_MIN + below(CALLS_MORE), work_ns);
        }
        for _ in 0..rounds {
            if one_in(2) {
                self.chorus(self.near(worker));
            }
            if one_in(2) {
                self.crowd(self.near(worker));
            }
            sim::sleep(below(ROUND_NS));
            if is_kept || one_in(2) {
                self.crowd(self.near(worker));
            }
            let pause_ns = [0, 0, 3_000][below(3) as usize];
            for pipe in &pipes {
                pipe.write();
                sim::work(below(pause_ns));
            }
        }
    }

    /// Tasks of one worker are woken at about the same time by tellers on several workers. The worker may
    /// spin when it is chosen for one task, and be inside the poll of another when that task arrives.
    fn chorus(&self, worker: usize) {
        let mut tellers = Vec::new();
        for _ in 0..2 + below(TELLERS_MAX) {
            let (says, hears): (Vec<_>, Vec<_>) = (0..TOLD).map(|_| channel::<()>()).unzip();
            for hears in hears {
                let ended = Ended::new(&self.workers);
                let goes_on_ns = POLLS_NS[below(3) as usize];
                let listens = async move {
                    let _ended = ended;
                    let _ = hears.await;
                    sim::work(goes_on_ns);
                };
                drop(self.workers.launch(worker, Kind::Task, Spun::new(listens)));
            }
            tellers.push(says);
        }
        sim::sleep(below(TELL_NS));
        for says in tellers {
            let ended = Ended::new(&self.workers);
            let tells = async move {
                let _ended = ended;
                for says in says {
                    sim::work(below(TELL_NS / 10));
                    let _ = says.send(());
                }
            };
            drop(self.workers.launch(self.near(worker), Kind::Pinned, tells));
        }
    }

    /// Wakes a task from another worker of its scheduler while its last worker spins. At that moment its
    /// last worker gets another task with a long poll, and the waker's poll goes on too. All other workers
    /// mostly sleep.
    pub(super) fn overtakes(&self) {
        for _ in 0..=below(OVERTAKES_MAX) {
            let worker = self.any_worker();
            self.overtake(worker, self.near(worker));
        }
    }

    fn overtake(&self, worker: usize, waker: usize) {
        let (says, hears) = channel::<()>();
        let ended = Ended::new(&self.workers);
        let listens = async move {
            let _ended = ended;
            let _ = hears.await;
        };
        drop(self.workers.launch(worker, Kind::Task, Spun::new(listens)));
        sim::sleep(FIRST_NS);
        let at_ns = sim::time_ns() + SET_UP_NS;
        let kept_ns = KEPT_NS[below(KEPT_NS.len() as u64) as usize];
        let spins_ns = at_ns - below(2 * CLOSE_NS);
        self.keep(worker, move || work_until(spins_ns));
        let wakes_ns = at_ns + below(CLOSE_NS);
        self.keep(waker, move || {
            work_until(wakes_ns);
            let _ = says.send(());
            sim::work(kept_ns);
        });
        work_until(at_ns);
        self.keep(worker, move || sim::work(kept_ns));
    }

    /// Launches a pinned task of one poll.
    fn keep(&self, worker: usize, does: impl FnOnce() + Send + 'static) {
        let ended = Ended::new(&self.workers);
        let poll = async move {
            let _ended = ended;
            does();
        };
        drop(self.workers.launch(worker, Kind::Pinned, poll));
    }

    /// Any worker of the same scheduler.
    fn near(&self, worker: usize) -> usize {
        let cores = self.workers.cores();
        worker / cores * cores + below(cores as u64) as usize
    }

    /// Launches a task that reads this many bytes through a descriptor of that worker, wherever the task
    /// runs.
    fn read_all(&self, worker: usize, pipe: &Arc<Pipe>, bytes: u64) {
        let (ended, player, pipe) = (Ended::new(&self.workers), self.clone(), Arc::clone(pipe));
        let reads = async move {
            let _ended = ended;
            let ledger = Arc::clone(&player.workers.ledger);
            let remote = player.workers.remote(worker).clone();
            let Ok(registered) = Registration::new(remote, pipe.fd) else {
                return gone(&ledger);
            };
            let mut read = 0;
            while read < bytes {
                let ready = poll_fn(|cx| registered.poll_io(cx, Direction::Read, || pipe.read()));
                match ready.await {
                    Ok(some) => read += some,
                    Err(_) => return gone(&ledger),
                }
                sim::work(below(BRIEF_NS / 4));
            }
            if read > bytes {
                sim::fail(format!("once: read {read} bytes of {bytes}"));
            }
        };
        let kind = if one_in(8) { Kind::Pinned } else { Kind::Task };
        drop(self.workers.launch(worker, kind, Spun::new(reads)));
    }

    /// Posts a chain of calls, each from the one before.
    fn keep_serving(&self, worker: usize, left: u64, work_ns: u64) {
        let once = self.workers.once("post of a chain", worker);
        let player = self.clone();
        let run = move || {
            // Posts the next call before this one ends, so one is always outstanding.
            if left > 0 {
                player.keep_serving(worker, left - 1, work_ns);
            }
            sim::work(work_ns);
            once.happens();
        };
        drop(parcel::post(&**self.workers.remote(worker), run));
    }

    /// Launches a task that spawns others on its worker and may then go on polling.
    pub(super) fn crowd(&self, worker: usize) {
        let (ended, player) = (Ended::new(&self.workers), self.clone());
        let many = 1 + [0, 1, below(CROWD_MAX)][below(3) as usize];
        let goes_on_ns = POLLS_NS[below(POLLS_NS.len() as u64) as usize];
        let spawns = async move {
            let _ended = ended;
            for _ in 0..many {
                player.brief(worker);
            }
            sim::work(goes_on_ns);
        };
        drop(self.workers.launch(worker, Kind::Pinned, spawns));
    }

    /// Launches a task that mostly ends soon.
    fn brief(&self, worker: usize) {
        let ended = Ended::new(&self.workers);
        let most_ns = if one_in(8) {
            POLLS_NS[below(POLLS_NS.len() as u64) as usize]
        } else {
            BRIEF_NS
        };
        let works = async move {
            let _ended = ended;
            sim::work(below(most_ns));
        };
        drop(self.workers.launch(worker, Kind::Task, Spun::new(works)));
    }
}

/// Keeps the CPU until then.
fn work_until(when_ns: u64) {
    sim::work(when_ns.saturating_sub(sim::time_ns()));
}

/// Checks that a worker refuses descriptors only if workers may end.
pub(super) fn gone(ledger: &Ledger) {
    if !ledger.ends() {
        sim::fail("lost: a worker that runs takes no descriptor");
    }
}
