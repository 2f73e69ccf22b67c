//! Surges: descriptors that become ready at one moment, a worker that is kept serving calls meanwhile, and
//! crowds of tasks behind a poll that may be long.

use super::ledger::Ledger;
use super::program::{Ended, Player, Spun, below, one_in};
use doorbell_core::call;
use doorbell_core::io::{Direction, Registration};
use doorbell_core::task::Kind;
use doorbell_machine::sim::{self, SimCounter, SimFd};
use doorbell_machine::{Counter, Readiness};
use futures_channel::oneshot::channel;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;

/// How many descriptors become ready together, at most.
const PIPES_MAX: u64 = 12;
/// How often each does.
const ROUNDS_MAX: u64 = 3;
/// When, at the latest, after the time before: so that a worker that is kept serving calls has done so for long.
const ROUND_NS: u64 = 2_500_000;
/// How many calls a worker is kept busy with, and how long each takes: 64 of them take more than the
/// millisecond after which a worker that spins looks at everything.
const CALLS_MIN: u64 = 70;
const CALLS_MORE: u64 = 130;
const CALL_MIN_NS: u64 = 16_000;
const CALL_MORE_NS: u64 = 4_000;
/// How many tasks are in a crowd, at most.
const CROWD_MAX: u64 = 20;
/// How long the poll goes on that has spawned them.
const POLLS_NS: [u64; 5] = [0, 30_000, 150_000, 1_600_000, 3_000_000];
/// How many tell others beside the first two, at most; how many each tells, and when.
const TELLERS_MAX: u64 = 3;
const TOLD: usize = 4;
const TELL_NS: u64 = 30_000;
/// How often a wake is overtaken, at most, how long before it is made ready, and how close the steps come.
const OVERTAKES_MAX: u64 = 6;
const SET_UP_NS: u64 = 70_000;
const FIRST_NS: u64 = 30_000;
const CLOSE_NS: u64 = 1_500;
/// How long the polls go on that keep the worker, and the waker's, from the task.
const KEPT_NS: [u64; 3] = [200_000, 200_000, 2_500_000];
/// The longest poll of most of them.
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

    /// One byte comes from the world.
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
    /// Some descriptors of one worker become ready, mostly together. Meanwhile that worker may be kept serving
    /// calls, and another worker of its scheduler may get a crowd of tasks.
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

    /// Tasks of a worker wait, each for one of those on other workers that tell them at about the same time: the
    /// worker may spin when it is chosen for one, and be inside another's poll when that one comes.
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

    /// A task is woken by another worker of its scheduler while the worker that ran it last spins. At that moment
    /// that worker gets another task, whose poll is long; the waker's goes on too. All others mostly sleep.
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

    /// A task that stays on that worker, of one poll.
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

    /// A task that reads so many bytes through a descriptor of that worker, wherever it runs.
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

    /// Calls that come one from the other.
    fn keep_serving(&self, worker: usize, left: u64, work_ns: u64) {
        let once = self.workers.once("post of a chain", worker);
        let player = self.clone();
        let run = move || {
            // The next is begun before this one is over: there is always one that is not.
            if left > 0 {
                player.keep_serving(worker, left - 1, work_ns);
            }
            sim::work(work_ns);
            once.happens();
        };
        drop(call::post(&**self.workers.remote(worker), run));
    }

    /// A task of that worker spawns others there, and its poll may go on.
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

    /// A task that mostly ends soon.
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

/// A descriptor has no worker any more.
pub(super) fn gone(ledger: &Ledger) {
    if !ledger.ends() {
        sim::fail("lost: a worker that runs takes no descriptor");
    }
}
