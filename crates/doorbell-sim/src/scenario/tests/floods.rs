//! Floods of descriptors that begin and end, at urgent and at Fair workers. Nothing is lost or late, and once all floods
//! have ended no worker wakes up.

use crate::scenario::class::{Classes, FAIR, RT, Urgent};
use crate::scenario::oracle;
use crate::scenario::scheduler::{SchedulerConfig, Workers};
use crate::scenario::tests::one_scheduler;
use doorbell_core::io::{Direction, Registration};
use doorbell_core::scheduler::{RemoteRef, Turns};
use doorbell_core::switches::Switches;
use doorbell_core::task::{Join, Kind};
use doorbell_core::worker::{IdlePolicy, WorkerCounts};
use doorbell_machine::sim::{
    self, Config, Edges, MachineSpec, Memory, Parkers, SimCounter, SimFd, SimThread,
};
use doorbell_machine::{Counter, Machine, Readiness, Sim, ThreadHandle, ThreadSpec};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// The time until a woken task has read: a few wakes, and the reads of other tasks of its worker. It is 33 µs at most in
/// 400 seeds.
const READ_NS: u64 = 40 * US;
/// By when a call has run.
const CALL_NS: u64 = 100 * US;
/// By when a flood that has ended is over.
const OVER_NS: u64 = 13 * MS;
/// How long nothing happens at the end.
const QUIET_NS: u64 = 200 * MS;

const CORES: usize = 2;
const PIPES: usize = 6;
const PHASES: usize = 5;

fn below(limit: u64) -> u64 {
    sim::random() % limit
}

/// Bytes on their way to a descriptor.
#[derive(Clone)]
struct Pipe {
    fd: SimFd,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    bytes: SimCounter,
    /// When the first unread byte was written.
    since_ns: SimCounter,
    written: SimCounter,
    ended: SimCounter,
    /// The greatest lateness.
    late_max_ns: SimCounter,
}

impl Pipe {
    fn new() -> Self {
        Pipe {
            fd: SimFd::open(),
            inner: Arc::default(),
        }
    }

    fn write(&self) {
        if self.inner.bytes.get() == 0 {
            self.inner.since_ns.set(sim::time_ns());
        }
        self.inner.bytes.add_shared(1);
        self.inner.written.add_shared(1);
        self.fd.set_ready(Readiness::READABLE);
    }

    fn end(&self) {
        self.inner.ended.set(1);
        self.write();
    }

    fn late_max_ns(&self) -> u64 {
        self.inner.late_max_ns.get()
    }

    fn is_read(&self) -> bool {
        self.inner.bytes.get() == 0
    }

    /// Reads all bytes. Returns their number and their lateness.
    fn read(&self) -> io::Result<(u64, u64)> {
        let _ = self.fd.take(Readiness::READABLE);
        let bytes = self.inner.bytes.get();
        self.inner.bytes.set(0);
        if bytes == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let late_ns = sim::time_ns() - self.inner.since_ns.get();
        let most_ns = late_ns.max(self.late_max_ns());
        self.inner.late_max_ns.set(most_ns);
        Ok((bytes, late_ns))
    }
}

type Registered = Registration<Sim, RemoteRef<Sim>>;

fn register(workers: &Workers<0>, worker: usize, fd: SimFd) -> Registered {
    Registration::new(workers.remote(worker).clone(), fd).expect("the worker has not ended")
}

/// A worker, and the lateness allowed there.
#[derive(Clone, Copy)]
struct Place {
    worker: usize,
    is_urgent: bool,
}

impl Place {
    fn of(scheduler: usize, core: usize) -> Self {
        Place {
            worker: scheduler * CORES + core,
            is_urgent: scheduler == RT,
        }
    }

    fn check_late(self, what: &str, late_ns: u64) {
        if late_ns > READ_NS {
            let worker = self.worker;
            sim::fail(format!("late: {what} of worker {worker} by {late_ns} ns"));
        }
    }
}

/// Launches a task that reads a pipe to its end.
fn reads(workers: &Arc<Workers<0>>, place: Place, pipe: Pipe) -> Join<u64> {
    let registered = register(workers, place.worker, pipe.fd);
    let kind = if place.is_urgent {
        Kind::Pinned
    } else {
        Kind::Task
    };
    workers.launch(place.worker, kind, async move {
        let mut read = 0;
        loop {
            let next = poll_fn(|cx| registered.poll_io(cx, Direction::Read, || pipe.read()));
            let (bytes, late_ns) = next.await.expect("the worker has not ended");
            place.check_late("a byte", late_ns);
            read += bytes;
            if pipe.inner.ended.get() > 0 && pipe.is_read() {
                return read;
            }
        }
    })
}

/// When it was woken.
#[derive(Default)]
struct Woken(SimCounter);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.set(sim::time_ns());
    }
}

/// Writes to the pipes of one worker.
struct World {
    workers: Arc<Workers<0>>,
    place: Place,
    pipes: Vec<Pipe>,
}

impl World {
    fn any(&self) -> &Pipe {
        &self.pipes[below(self.pipes.len() as u64) as usize]
    }

    fn play(&self) {
        for _ in 0..PHASES {
            let until_ns = sim::time_ns() + 3 * MS + below(12 * MS);
            match below(5) {
                0 | 1 => self.flood(until_ns),
                2 => self.ask_one_at_a_time(until_ns),
                3 => self.write_seldom(until_ns),
                // Long enough for a flood to be over.
                _ => sim::sleep(OVER_NS),
            }
        }
        self.pipes.iter().for_each(Pipe::end);
    }

    fn flood(&self, until_ns: u64) {
        while sim::time_ns() < until_ns {
            match below(40) {
                0 => self.call(),
                1 => self.come_and_go(),
                2 => self.pipes.iter().for_each(Pipe::write),
                _ => self.any().write(),
            }
            sim::sleep(below(40 * US));
        }
    }

    /// A client that waits for each answer before it asks again.
    fn ask_one_at_a_time(&self, until_ns: u64) {
        while sim::time_ns() < until_ns {
            let pipe = self.any();
            pipe.write();
            while !pipe.is_read() {
                sim::sleep(5 * US);
            }
        }
    }

    fn write_seldom(&self, until_ns: u64) {
        while sim::time_ns() < until_ns {
            self.any().write();
            sim::sleep(MS + below(4 * MS));
        }
    }

    /// A call, which must run at once.
    fn call(&self) {
        let called_ns = sim::time_ns();
        if self.workers.call(self.place.worker, || ()).is_none() {
            sim::fail("lost: a call was refused by a worker that runs");
        }
        let late_ns = sim::time_ns() - called_ns;
        if late_ns > CALL_NS {
            sim::fail(format!("late: a call by {late_ns} ns"));
        }
    }

    /// Registers another ready descriptor and drops it soon.
    fn come_and_go(&self) {
        let (fd, woken) = (SimFd::open(), Arc::<Woken>::default());
        fd.set_ready(Readiness::READABLE);
        let from_ns = sim::time_ns();
        let registered = register(&self.workers, self.place.worker, fd);
        let waker = Waker::from(Arc::clone(&woken));
        let polled = registered.poll_ready(&Context::from_waker(&waker), Direction::Read);
        if polled.is_ready() {
            return;
        }
        sim::sleep(2 * READ_NS);
        match woken.0.get() {
            0 => sim::fail("lost: nobody has looked at a new descriptor"),
            woken_ns => self.place.check_late("a new one", woken_ns - from_ns),
        }
    }
}

fn spawn(cpu: usize, body: impl FnOnce() + Send + 'static) -> SimThread {
    let spec = ThreadSpec {
        name: format!("world {cpu}"),
        cpu: Some(cpu),
        stack_size: None,
    };
    Sim::<0>::spawn(spec, Box::new(body)).unwrap()
}

fn scheduler(seed: u64) -> SchedulerConfig {
    SchedulerConfig {
        classes: Classes::Each(Urgent::Fifo),
        idle: match seed % 3 {
            0 => IdlePolicy::Park,
            _ => IdlePolicy::Spin { spin_ns: 5 * US },
        },
        turns: [Turns::ByArrival, Turns::ByRank][(seed / 2 % 2) as usize],
        ..one_scheduler(CORES)
    }
}

/// The main thread. Returns what the workers counted.
fn program(seed: u64) -> Vec<WorkerCounts> {
    Sim::<0>::bind_thread(&[CORES]).unwrap();
    let (workers, threads) = Workers::<0>::start(scheduler(seed), Arc::default()).unwrap();
    let places = [FAIR, RT].map(|scheduler| (0..CORES).map(move |core| Place::of(scheduler, core)));
    let (mut worlds, mut readers) = (Vec::new(), Vec::new());
    for (at, place) in places.into_iter().flatten().enumerate() {
        let pipes: Vec<Pipe> = (0..PIPES).map(|_| Pipe::new()).collect();
        for pipe in &pipes {
            readers.push((reads(&workers, place, pipe.clone()), pipe.clone()));
        }
        let workers = Arc::clone(&workers);
        let world = World {
            workers,
            place,
            pipes,
        };
        worlds.push(spawn(CORES + 1 + at, move || world.play()));
    }
    for world in worlds {
        world.join().unwrap();
    }
    for (reader, pipe) in readers {
        let (read, written) = (workers.wait_for(reader, 0), pipe.inner.written.get());
        if !matches!(read, Ok(read) if read == written) {
            sim::fail(format!("lost: {read:?} bytes of {written}"));
        }
    }
    check_quiet(&workers);
    workers.close(threads);
    let counts = workers.counts();
    oracle::check_quiescence(&workers);
    oracle::check_counts(&counts, Switches::default());
    oracle::check_freed(workers);
    counts
}

/// Checks that no worker wakes up once all floods are over.
fn check_quiet(workers: &Workers<0>) {
    sim::sleep(3 * OVER_NS);
    let before = workers.counts();
    sim::sleep(QUIET_NS);
    for (worker, (now, before)) in workers.counts().iter().zip(&before).enumerate() {
        let since = now.since(before);
        if (since.passes, since.parks) != (0, 0) {
            sim::fail(format!("not quiet: worker {worker}, {since:?}"));
        }
    }
}

/// How often a descriptor ended a park of these workers.
fn wakes(workers: &[WorkerCounts]) -> u64 {
    workers.iter().map(|counts| counts.unparks_ready).sum()
}

/// Runs a seed and returns the counts.
fn run(seed: u64) -> Vec<WorkerCounts> {
    let config = Config {
        seed,
        machine: MachineSpec::flat(CORES + 1 + 2 * CORES),
        memory: [Memory::Sc, Memory::Tso][(seed % 2) as usize],
        parkers: Parkers::Mixed,
        edges: [Edges::Strict, Edges::Generous][(seed / 4 % 2) as usize],
        ..Config::default()
    };
    let counted = Rc::new(RefCell::new(Vec::new()));
    let theirs = Rc::clone(&counted);
    let outcome = sim::run_traced(config, None, move || {
        theirs.replace(program(seed));
    });
    assert_eq!(outcome.unwrap().failure, None, "seed {seed}");
    counted.take()
}

#[test]
fn nothing_is_lost_in_floods_that_begin_and_end() {
    let (mut fair, mut urgent) = (0, 0);
    for seed in 0..40 {
        let counts = run(seed);
        fair += wakes(&counts[FAIR * CORES..][..CORES]);
        urgent += wakes(&counts[RT * CORES..][..CORES]);
    }
    assert!(fair > 20_000, "{fair} wakes");
    assert!(urgent > 20_000, "{urgent} wakes");
}
