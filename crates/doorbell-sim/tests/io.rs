//! Random programs of descriptors on the simulated machine: tasks that read, a world that writes, a
//! worker that parks, visitors, and descriptors that come and go. Nothing is lost, all counts come
//! back to zero, and each seed gives one run.

// The oracle's own numbers, which no machine sees.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use doorbell_core::bell::{Announced, Bell, Kick, Notified};
use doorbell_core::class::Standing;
use doorbell_core::io::{Direction, Driver, Interest, Registration, Rouse, Station, Swept};
use doorbell_core::wait::block_on;
use doorbell_machine::sim::{
    self, Config, Edges, Faults, MachineSpec, Memory, Outcome, Parkers, Range, SimFd, SimThread,
};
use doorbell_machine::{Machine, Parker, PollEvents, Readiness, Sim, ThreadHandle, ThreadSpec};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};

/// A worker without tasks.
struct Post {
    bell: Bell<Sim>,
    parker: <Sim as Machine>::Parker,
    driver: Driver<Sim>,
}

// SAFETY: the driver is a field.
unsafe impl Station<Sim> for Post {
    fn driver(&self) -> &Driver<Sim> {
        &self.driver
    }
    fn rouse(&self, _why: Rouse) {
        self.notify();
    }
}

impl Post {
    /// Notifies the worker, and rings it where it sleeps.
    fn notify(&self) {
        match self.bell.notify(Kick::Take, Standing::Level) {
            Notified::MustRing | Notified::MustHelp if self.driver.is_kept() => self.driver.ring(),
            Notified::MustRing | Notified::MustHelp => self.bell.ring(&self.parker),
            Notified::Running | Notified::Spinning | Notified::Already => {}
        }
    }
}

type Place = Arc<Post>;

fn place() -> Place {
    Arc::new(Post {
        bell: Bell::default(),
        parker: Parker::<Sim>::new(),
        driver: Driver::new(1),
    })
}

/// Counts its wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn spawn(cpu: usize, body: impl FnOnce() + Send + 'static) -> SimThread {
    let spec = ThreadSpec {
        name: format!("t{cpu}"),
        cpu: Some(cpu),
        stack_size: None,
    };
    Sim::<0>::spawn(spec, Box::new(body)).unwrap()
}

fn below(limit: u64) -> u64 {
    sim::random() % limit
}

/// Bytes on their way to a descriptor. A plain number of the world.
#[derive(Clone)]
struct Pipe {
    fd: SimFd,
    bytes: Arc<AtomicUsize>,
}

impl Pipe {
    fn write(&self) {
        self.bytes.fetch_add(1, Relaxed);
        self.fd.set_ready(Readiness::READABLE);
    }

    fn read(&self) -> io::Result<usize> {
        let _ = self.fd.take(Readiness::READABLE);
        match self.bytes.swap(0, Relaxed) {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            bytes => Ok(bytes),
        }
    }
}

/// The worker: parks as it must, brings events, frees.
fn run_worker(place: &Place, over: &AtomicUsize) {
    let mut events = PollEvents::new();
    while over.load(Relaxed) == 0 {
        let _ = place.driver.sweep();
        if place.bell.announce_spin() == Announced::Yes {
            let keeper = place.driver.try_keep(0);
            if place.bell.announce_park() == Announced::Yes {
                let until_ns = (below(4) == 0).then(|| Sim::<0>::now_ns() + below(200_000));
                match keeper {
                    None => drop(place.bell.park(&place.parker, until_ns)),
                    Some(keeper) => drop(keeper.park(&place.bell, until_ns, &mut events, || {})),
                }
            }
        }
        let _ = place.bell.end_idle();
        if below(8) == 0 {
            // A long poll: others look for it meanwhile.
            sim::work(below(100_000));
        }
    }
}

/// Reads so many bytes, through descriptors that it gives up now and then.
fn run_task(place: &Place, bytes: usize) {
    let mut left = bytes;
    while left > 0 {
        let pipe = Pipe {
            fd: SimFd::open(),
            bytes: Arc::default(),
        };
        let some = left.min(1 + below(4) as usize);
        left -= some;
        let registration = Registration::new(Arc::clone(place), pipe.fd).unwrap();
        let theirs = pipe.clone();
        let cpu = sim::cpu().unwrap();
        let world = spawn(cpu, move || {
            for _ in 0..some {
                sim::sleep(below(50_000));
                theirs.write();
            }
        });
        let mut read = 0;
        while read < some {
            let ready = poll_fn(|cx| registration.poll_io(cx, Direction::Read, || pipe.read()));
            read += block_on::<Sim, _>(ready, below(2) * 1_000).unwrap();
        }
        assert_eq!(read, some, "a byte too much");
        world.join().unwrap();
        leave(registration, &pipe);
    }
}

/// Gives a descriptor up while somebody waits for it: nothing is left, and no event comes.
fn leave(registration: Registration<Sim, Place>, pipe: &Pipe) {
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let _ = registration.poll_ready(&Context::from_waker(&waker), Direction::Read);
    {
        let mut wait = Box::pin(registration.readiness(Interest::WRITABLE));
        let _ = wait.as_mut().poll(&mut Context::from_waker(&waker));
    }
    if below(2) == 0 {
        // An event on its way.
        pipe.fd.set_ready(Readiness::WRITABLE);
    }
    drop(registration);
    // Longer than a visitor can be off its CPU that has an event already.
    sim::sleep(500_000);
    let woken = count.0.load(Relaxed);
    pipe.fd.set_ready(Readiness::ALL);
    sim::sleep(50_000);
    assert_eq!(count.0.load(Relaxed), woken, "woken after it went");
    assert_eq!(Arc::strong_count(&count), 2, "a waker was left behind");
}

fn program(tasks: usize, visitors: usize) {
    let place = place();
    let over = Arc::new(AtomicUsize::new(0));
    let worker = {
        let (place, over) = (Arc::clone(&place), Arc::clone(&over));
        spawn(1, move || run_worker(&place, &over))
    };
    let visiting = (0..visitors).map(|visitor| {
        let (place, over) = (Arc::clone(&place), Arc::clone(&over));
        spawn(2 + visitor, move || {
            let mut events = PollEvents::new();
            while over.load(Relaxed) == 0 {
                place.driver.look(&mut events);
                sim::sleep(below(30_000));
            }
        })
    });
    let visiting: Vec<SimThread> = visiting.collect();
    let reading = (0..tasks).map(|task| {
        let place = Arc::clone(&place);
        spawn(2 + visitors + task, move || run_task(&place, 12))
    });
    let reading: Vec<SimThread> = reading.collect();
    for task in reading {
        task.join().unwrap();
    }
    over.store(1, Relaxed);
    place.notify();
    worker.join().unwrap();
    for visitor in visiting {
        visitor.join().unwrap();
    }
    let _ = place.driver.sweep();
    assert_eq!(place.driver.sweep(), Swept::Nothing);
    assert!(!place.driver.has_sources());
    assert_eq!(place.driver.stranded(), 0);
}

fn go(seed: u64, edges: Edges) -> Outcome {
    let (tasks, visitors) = (1 + (seed % 3) as usize, (seed / 3 % 3) as usize);
    let config = Config {
        seed,
        machine: MachineSpec::flat(2 + tasks + visitors),
        memory: [Memory::Sc, Memory::Tso][(seed % 2) as usize],
        parkers: Parkers::Mixed,
        edges,
        faults: Faults {
            deschedule_chance: 2_000,
            deschedule_ns: Range {
                min_ns: 1_000,
                max_ns: 200_000,
            },
            spurious_chance: 20_000,
            ..Faults::default()
        },
        ..Config::default()
    };
    sim::run(config, move || program(tasks, visitors)).unwrap()
}

#[test]
fn w21_nothing_is_lost_by_strict_edges_or_generous_ones() {
    for edges in [Edges::Strict, Edges::Generous] {
        let mut rung = 0;
        for seed in 0..150 {
            let outcome = go(seed, edges);
            assert_eq!(outcome.failure, None, "seed {seed}, {edges:?}");
            assert_eq!(go(seed, edges).hash, outcome.hash, "seed {seed}, {edges:?}");
            rung += outcome.parks_rung;
        }
        assert!(rung > 0, "no worker was ever rung");
    }
}
