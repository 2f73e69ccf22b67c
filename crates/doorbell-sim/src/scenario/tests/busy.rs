//! Busy workers keep time: what comes from outside waits for about one poll, whatever is queued, and tasks that yield
//! get their turns, whatever is ready.

use super::{one_scheduler, result_of};
use crate::fuzz::machine_for;
use crate::scenario::oracle;
use crate::scenario::program::{below, one_in, yield_now};
use crate::scenario::scheduler::Workers;
use crate::scenario::timer::Sleep;
use doorbell_core::call;
use doorbell_core::io::{Direction, Registration};
use doorbell_core::task::Kind;
use doorbell_core::worker::IdlePolicy;
use doorbell_machine::sim::{self, CHOSEN, Config, SimCounter, SimFd};
use doorbell_machine::{Bug, Counter, Machine, Readiness, Sim};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// A worker runs for so long between two looks, or for one poll.
const LOOK_NS: u64 = 100 * US;
/// What looks, wakes and switches take on the simulated machine.
const COSTS_NS: u64 = 50 * US;
/// A slice of the deferred queue, or one poll.
const SLICE_NS: u64 = 25 * US;
/// Rounds of everything that comes from outside.
const ROUNDS: u64 = 40;

/// What keeps the workers busy.
#[derive(Clone, Copy, Debug)]
struct Busy {
    workers: usize,
    /// Tasks that compute and yield, for each worker.
    tasks: u64,
    /// How long each of their polls takes.
    poll_ns: u64,
    /// The polls of tasks of which each launches the next one; 0 without them.
    flood_ns: u64,
    seed: u64,
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
    let kind = if one_in(3) { Kind::Pinned } else { Kind::Task };
    drop(workers.launch(worker, kind, async move {
        while waits.is_over.get() == 0 {
            sim::work(busy.poll_ns);
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
    assert!(call::post(&**workers.remote(worker), post).is_ok());
    let (theirs, since_ns) = (Arc::clone(waits), sim::time_ns());
    drop(workers.launch(worker, Kind::Task, async move {
        note(&theirs.spawn_ns, since_ns);
    }));
}

fn sleeps<const BUG: u8>(workers: &Shared<BUG>, worker: usize, waits: &Arc<Waits>) {
    let (its, waits) = (Arc::clone(workers), Arc::clone(waits));
    drop(workers.launch(worker, Kind::Task, async move {
        while waits.is_over.get() == 0 {
            let for_ns = 100 * US + below(3 * MS);
            let sleep = Sleep::new(&its, worker, for_ns);
            let since_ns = sim::time_ns() + for_ns;
            sleep.await;
            note(&waits.timer_ns, since_ns.min(sim::time_ns()));
        }
    }));
}

fn play<const BUG: u8>(busy: Busy) -> Arc<Waits> {
    Sim::<0>::bind_thread(&[busy.workers]).unwrap();
    let (workers, threads) =
        Workers::<BUG>::start(one_scheduler(busy.workers), Arc::default()).unwrap();
    let waits = Arc::<Waits>::default();
    let each = 0..busy.workers;
    let sockets: Vec<_> = each
        .clone()
        .map(|worker| reads(&workers, worker, &waits))
        .collect();
    for worker in each.clone() {
        sleeps(&workers, worker, &waits);
        (0..busy.tasks).for_each(|_| computes(&workers, worker, busy, &waits));
        if busy.flood_ns > 0 {
            floods(&workers, worker, busy, &waits);
        }
    }
    // What the tasks are like must be learned.
    sim::sleep(4 * busy.tasks * busy.poll_ns.max(SLICE_NS));
    for wait in [&waits.socket_ns, &waits.timer_ns, &waits.turn_ns] {
        wait.set(0);
    }
    for _ in 0..ROUNDS {
        for worker in each.clone() {
            come(&workers, worker, &sockets[worker], &waits);
        }
        sim::sleep(below(4 * busy.poll_ns.max(LOOK_NS)));
    }
    waits.is_over.set(1);
    for socket in &sockets {
        socket.write();
    }
    sim::sleep(8 * MS);
    oracle::until_quiet(&workers);
    workers.close(threads);
    oracle::check_freed(workers);
    waits
}

/// What waited for longer than it may, if anything did.
fn too_long<const BUG: u8>(busy: Busy) -> Option<String> {
    let config = Config {
        seed: busy.seed,
        machine: machine_for(busy.workers + 1, None),
        ..Config::default()
    };
    let waits = match result_of(config, move || {
        let waits = play::<BUG>(busy);
        let of = |wait: &SimCounter| wait.get();
        [
            &waits.socket_ns,
            &waits.timer_ns,
            &waits.post_ns,
            &waits.spawn_ns,
            &waits.turn_ns,
            &waits.polls,
        ]
        .map(of)
    }) {
        Ok(waits) => waits,
        Err(why) => return Some(why),
    };
    let [socket_ns, timer_ns, post_ns, spawn_ns, turn_ns, polls] = waits;
    // The poll under way; with a flood also the next one, as a slice of the deferred queue may come first.
    let turns = if busy.flood_ns > 0 { 2 } else { 1 };
    let outside_ns = turns * busy.poll_ns.max(SLICE_NS) + LOOK_NS + COSTS_NS;
    // All of them may be in the list of one worker.
    let tasks = busy.tasks * busy.workers as u64;
    let round_ns = tasks * (2 * busy.poll_ns.max(SLICE_NS) + 8 * busy.flood_ns);
    let turn_most_ns = round_ns + round_ns / 20 + outside_ns;
    // A worker that looks after stuck ones may be in the wheel just then, and leave this timer to the next look.
    let timer_most_ns = outside_ns + busy.poll_ns;
    let limits = [
        ("a socket", socket_ns, outside_ns),
        ("a timer", timer_ns, timer_most_ns),
        ("a post", post_ns, outside_ns),
        ("a spawned task", spawn_ns, outside_ns),
        ("a task that yielded", turn_ns, turn_most_ns),
    ];
    let late = limits
        .iter()
        .find(|(_, waited_ns, most_ns)| waited_ns > most_ns);
    match late {
        Some((what, waited_ns, most_ns)) => Some(format!(
            "{busy:?}: {what} waited for {waited_ns} of {most_ns} ns"
        )),
        None if polls < 4 * tasks => Some(format!("{busy:?}: {polls} polls of tasks that yield")),
        None => None,
    }
}

/// Without other ready tasks, and beside some.
fn settings(seeds: u64) -> impl Iterator<Item = Busy> {
    let sizes = [(1, 0), (1, 1), (1, 4), (2, 4), (2, 16)];
    let polls_ns = [US, 20 * US, 100 * US, MS, 2 * MS];
    let floods_ns = [0, 5 * US, 20 * US];
    (0..seeds).flat_map(move |seed| {
        sizes.into_iter().flat_map(move |(workers, tasks)| {
            polls_ns.into_iter().flat_map(move |poll_ns| {
                floods_ns.map(|flood_ns| Busy {
                    workers,
                    tasks,
                    poll_ns,
                    flood_ns,
                    seed,
                })
            })
        })
    })
}

#[test]
fn what_comes_to_busy_workers_waits_for_one_poll_and_who_yields_gets_a_turn() {
    let late: Vec<String> = settings(2).filter_map(too_long::<0>).collect();
    assert!(late.is_empty(), "{late:#?}");
}

fn is_noticed(bug: Bug) {
    sim::break_thread(bug);
    let late = settings(1).find_map(too_long::<CHOSEN>);
    assert!(late.is_some(), "{bug:?}");
}

#[test]
fn a_busy_worker_that_looks_by_count_is_noticed() {
    is_noticed(Bug::BusyLooksByCount);
}

#[test]
fn a_task_that_yields_and_stays_in_line_is_noticed() {
    is_noticed(Bug::DeferredInLine);
}

#[test]
fn a_deferred_queue_that_starves_is_noticed() {
    is_noticed(Bug::DeferredStarves);
}

/// Sleeps of one task on a worker that never parks: how late the latest is.
fn spins_past(workers: usize, for_ns: u64) -> u64 {
    let config = Config {
        machine: machine_for(workers + 1, None),
        ..Config::default()
    };
    result_of(config, move || {
        Sim::<0>::bind_thread(&[workers]).unwrap();
        let mut config = one_scheduler(workers);
        config.idle = IdlePolicy::NeverPark;
        let (workers, threads) = Workers::<0>::start(config, Arc::default()).unwrap();
        let (its, late_ns) = (Arc::clone(&workers), Arc::<SimCounter>::default());
        let theirs = Arc::clone(&late_ns);
        let sleeps: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            for _ in 0..20 {
                let due_ns = sim::time_ns() + for_ns;
                Sleep::new(&its, 0, for_ns).await;
                note(&theirs, due_ns.min(sim::time_ns()));
            }
        });
        let slept = workers.wait_for(workers.launch(0, Kind::Task, sleeps), 0);
        assert!(slept.is_ok());
        workers.close(threads);
        oracle::check_freed(workers);
        late_ns.get()
    })
    .unwrap()
}

#[test]
fn a_worker_that_never_parks_wakes_for_its_timers_in_time() {
    for workers in [2, 4] {
        for for_ns in [200 * US, MS, 5 * MS, 20 * MS] {
            let late_ns = spins_past(workers, for_ns);
            assert!(
                late_ns <= 30 * US,
                "{workers} workers, {for_ns}: {late_ns} ns"
            );
        }
    }
}
