//! Busy workers keep time: what comes from outside waits for about one poll, whatever is queued, and tasks that yield
//! get their turns, whatever is ready.

use super::oracle;
use super::program::{below, one_in, yield_now};
use super::scheduler::{SchedulerConfig, Workers, one_scheduler};
use super::shape::Lot;
use super::timer::Sleep;
use doorbell_core::io::{Direction, Registration};
use doorbell_core::parcel;
use doorbell_core::task::Kind;
use doorbell_core::worker::IdlePolicy;
use doorbell_machine::sim::{self, Config, Outcome, RunError, SimCounter, SimFd, Sink};
use doorbell_machine::{Counter, Machine, Readiness, Sim};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// A worker runs for so long between two looks, or for one poll.
const LOOK_NS: u64 = 100 * US;
/// What looks, wakes and switches take on the simulated machine.
const COSTS_NS: u64 = 75 * US;
/// A slice of the deferred queue ends with the first poll after so long.
const SLICE_NS: u64 = 20 * US;
/// Rounds of everything that comes from outside.
const ROUNDS: u64 = 24;

/// What keeps the workers busy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    /// What workers do when they are not.
    pub(crate) idle: IdlePolicy,
    pub(crate) workers: usize,
    /// Tasks that compute and yield, for each worker.
    pub(crate) tasks: u64,
    /// How long each of their polls takes, at most. The polls of half of the tasks are shorter.
    pub(crate) poll_ns: u64,
    /// How long each poll of a chain takes: tasks that each launch the next. 0 without a chain.
    pub(crate) flood_ns: u64,
    /// The longest timer.
    pub(crate) sleep_ns: u64,
}

impl Busy {
    /// Draws everything but the number of workers.
    pub(crate) fn drawn(seed: u64, workers: usize) -> Self {
        let mut lot = Lot(seed);
        let idle = match lot.draw(4) {
            0 => IdlePolicy::NeverPark,
            1 => IdlePolicy::Spin { spin_ns: 5 * MS },
            2 => IdlePolicy::Spin { spin_ns: 20 * US },
            _ => IdlePolicy::Park,
        };
        Busy {
            idle,
            workers,
            tasks: [0, 1, 2, 4, 16][lot.draw(5) as usize],
            // Powers of two, so that short ones are as usual as long ones.
            poll_ns: (US << lot.draw(11)) + lot.draw(US),
            flood_ns: [0, 0, 5 * US, 10 * US, 20 * US][lot.draw(5) as usize],
            sleep_ns: MS * [1, 3, 10, 100][lot.draw(4) as usize],
        }
    }

    fn all_tasks(self) -> u64 {
        self.tasks * self.workers as u64
    }

    /// Runs it. The outcome is a failure if something waited for too long.
    pub(crate) fn run<const BUG: u8>(
        self,
        config: Config,
        sink: Option<Sink>,
    ) -> Result<Outcome, RunError> {
        sim::run_traced(config, sink, move || {
            let waits = self.play::<BUG>();
            if let Some(why) = self.too_long(&waits) {
                sim::fail(why);
            }
        })
    }

    fn play<const BUG: u8>(self) -> Arc<Waits> {
        let bound = Sim::<BUG>::bind_thread(&[self.workers]);
        assert!(bound.is_ok(), "the machine has a CPU for this thread");
        let scheduler = SchedulerConfig {
            idle: self.idle,
            ..one_scheduler(self.workers)
        };
        let (workers, threads) = Workers::<BUG>::start(scheduler, Arc::default()).unwrap();
        let waits = Arc::<Waits>::default();
        let each = 0..self.workers;
        let sockets: Vec<_> = each
            .clone()
            .map(|worker| reads(&workers, worker, &waits))
            .collect();
        for worker in each.clone() {
            sleeps(&workers, worker, self, &waits);
            (0..self.tasks).for_each(|_| computes(&workers, worker, self, &waits));
            if self.flood_ns > 0 {
                floods(&workers, worker, self, &waits);
            }
        }
        // Nothing is known of a task before its first poll, so that poll is in line. One worker may get all of them.
        sim::sleep(3 * self.all_tasks() * self.poll_ns.max(SLICE_NS));
        for wait in [&waits.socket_ns, &waits.timer_ns, &waits.turn_ns] {
            wait.set(0);
        }
        for _ in 0..ROUNDS {
            for worker in each.clone() {
                come(&workers, worker, &sockets[worker], &waits);
            }
            sim::sleep(below(4 * self.poll_ns.max(LOOK_NS)));
        }
        waits.is_over.set(1);
        for socket in &sockets {
            socket.write();
        }
        sim::sleep(self.sleep_ns + 8 * MS);
        workers.close(threads);
        oracle::check_freed(workers);
        waits
    }

    /// What waited for longer than it may, if anything did.
    fn too_long(self, waits: &Waits) -> Option<String> {
        let slice_ns = if self.poll_ns < SLICE_NS {
            SLICE_NS + self.poll_ns
        } else {
            self.poll_ns
        };
        // The slice under way; with a flood also the next one, and a poll of the flood before each.
        let turns = if self.flood_ns > 0 { 2 } else { 1 };
        let outside_ns = turns * (slice_ns + self.flood_ns) + LOOK_NS + COSTS_NS;
        // All of them may be in the list of one worker.
        let tasks = self.all_tasks();
        let round_ns = tasks * (2 * slice_ns + 8 * self.flood_ns);
        let turn_ns = round_ns + round_ns / 20 + outside_ns;
        // A worker that looks after stuck ones may be in the wheel just then, and leave this timer to the next look.
        let timer_ns = outside_ns + self.poll_ns;
        let limits = [
            ("a socket", &waits.socket_ns, outside_ns),
            ("a timer", &waits.timer_ns, timer_ns),
            ("a post", &waits.post_ns, outside_ns),
            ("a spawned task", &waits.spawn_ns, outside_ns),
            ("a task that yielded", &waits.turn_ns, turn_ns),
        ];
        let late = limits.iter().find(|(_, ns, most_ns)| ns.get() > *most_ns);
        match late {
            Some((what, ns, most_ns)) => Some(format!(
                "busy: {what} waited for {} of {most_ns} ns",
                ns.get()
            )),
            None if waits.polls.get() < 4 * tasks => Some(format!(
                "busy: {} polls of tasks that yield",
                waits.polls.get()
            )),
            None => None,
        }
    }
}

/// The longest waits.
#[derive(Default)]
struct Waits {
    socket_ns: SimCounter,
    timer_ns: SimCounter,
    post_ns: SimCounter,
    spawn_ns: SimCounter,
    /// Of a task that yielded for its next poll.
    turn_ns: SimCounter,
    /// The polls of the tasks that yield.
    polls: SimCounter,
    is_over: SimCounter,
}

fn note(most: &SimCounter, since_ns: u64) {
    most.set(most.get().max(sim::time_ns() - since_ns));
}

/// A descriptor, and when the byte came that nobody has read.
struct Socket {
    fd: SimFd,
    since_ns: SimCounter,
}

impl Socket {
    fn read(&self) -> io::Result<u64> {
        let _ = self.fd.take(Readiness::READABLE);
        let since_ns = self.since_ns.get();
        self.since_ns.set(0);
        let nothing = || io::ErrorKind::WouldBlock.into();
        (since_ns > 0).then_some(since_ns).ok_or_else(nothing)
    }

    fn write(&self) {
        if self.since_ns.get() == 0 {
            self.since_ns.set(sim::time_ns());
        }
        self.fd.set_ready(Readiness::READABLE);
    }
}

type Shared<const BUG: u8> = Arc<Workers<BUG>>;

fn reads<const BUG: u8>(workers: &Shared<BUG>, worker: usize, waits: &Arc<Waits>) -> Arc<Socket> {
    let socket = Arc::new(Socket {
        fd: SimFd::open(),
        since_ns: SimCounter::default(),
    });
    let (its, waits) = (Arc::clone(&socket), Arc::clone(waits));
    let remote = workers.remote(worker).clone();
    drop(workers.launch(worker, Kind::Task, async move {
        let registered = Registration::new(remote, its.fd).expect("the worker runs");
        while waits.is_over.get() == 0 {
            let read = poll_fn(|cx| registered.poll_io(cx, Direction::Read, || its.read()));
            let Ok(since_ns) = read.await else { return };
            note(&waits.socket_ns, since_ns);
        }
    }));
    socket
}

fn computes<const BUG: u8>(workers: &Shared<BUG>, worker: usize, busy: Busy, waits: &Arc<Waits>) {
    let waits = Arc::clone(waits);
    // Beside pinned tasks those that do not fit into a ring wait for further rounds (`queue/round.rs`).
    let may_be_pinned = busy.all_tasks() <= Sim::<BUG>::RING_CAPACITY as u64;
    let kind = if may_be_pinned && one_in(3) {
        Kind::Pinned
    } else {
        Kind::Task
    };
    let poll_ns = if one_in(2) {
        busy.poll_ns
    } else {
        1 + below(busy.poll_ns)
    };
    drop(workers.launch(worker, kind, async move {
        while waits.is_over.get() == 0 {
            sim::work(poll_ns);
            waits.polls.add_shared(1);
            let since_ns = sim::time_ns();
            yield_now().await;
            note(&waits.turn_ns, since_ns);
        }
    }));
}

/// A pinned task that launches the next one: one of them is ready at any time.
fn floods<const BUG: u8>(workers: &Shared<BUG>, worker: usize, busy: Busy, waits: &Arc<Waits>) {
    let (its, waits) = (Arc::clone(workers), Arc::clone(waits));
    drop(workers.launch(worker, Kind::Pinned, async move {
        sim::work(busy.flood_ns);
        if waits.is_over.get() == 0 {
            floods(&its, worker, busy, &waits);
        }
    }));
}

/// One round of what comes from outside.
fn come<const BUG: u8>(workers: &Shared<BUG>, worker: usize, socket: &Socket, waits: &Arc<Waits>) {
    socket.write();
    let (theirs, since_ns) = (Arc::clone(waits), sim::time_ns());
    let post = move || note(&theirs.post_ns, since_ns);
    assert!(parcel::post(&**workers.remote(worker), post).is_ok());
    let (theirs, since_ns) = (Arc::clone(waits), sim::time_ns());
    drop(workers.launch(worker, Kind::Task, async move {
        note(&theirs.spawn_ns, since_ns);
    }));
}

fn sleeps<const BUG: u8>(workers: &Shared<BUG>, worker: usize, busy: Busy, waits: &Arc<Waits>) {
    let (its, waits) = (Arc::clone(workers), Arc::clone(waits));
    drop(workers.launch(worker, Kind::Task, async move {
        while waits.is_over.get() == 0 {
            let for_ns = 100 * US + below(busy.sleep_ns);
            let sleep = Sleep::new(&its, worker, for_ns);
            let since_ns = sim::time_ns() + for_ns;
            sleep.await;
            note(&waits.timer_ns, since_ns.min(sim::time_ns()));
        }
    }));
}
