//! The tasks: they compute, read a socket, sleep, and are spawned from outside.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use super::super::steps::compute;
use super::super::timers::Random;
use super::peers::Peer;
use super::{SEED, SLEEP};
use crate::measure::Samples;

/// The bytes of a time on its way through a socket.
const STAMP: usize = size_of::<u64>();
/// How often a lone task yields before it writes: the reader waits by then, whatever the runtime does only
/// once in many polls.
const YIELDS: [f64; 2] = [200.0, 400.0];

/// What a task has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Something was read this long after it was written.
    Read(u64),
    /// A sleep ended this late.
    Slept(u64),
    /// A task ran this long after it was spawned.
    Ran(u64),
    /// A task has computed this often.
    Computed(u64),
    /// A lone task has yielded this often until what it wrote was read.
    Yielded(u64),
}

/// What the tasks of a pass share.
#[derive(Debug)]
pub(super) struct Scene {
    began: Instant,
    ends: AtomicBool,
    is_read: AtomicBool,
    found: Sender<Found>,
}

impl Scene {
    /// A scene, and what its tasks find. That ends when the last task has ended.
    pub(super) fn new() -> (Arc<Self>, Receiver<Found>) {
        let (found, all) = mpsc::channel();
        let scene = Self {
            began: Instant::now(),
            ends: AtomicBool::new(false),
            is_read: AtomicBool::new(false),
            found,
        };
        (Arc::new(scene), all)
    }

    /// Tells the tasks to end.
    pub(super) fn end(&self) {
        // ORDER: Relaxed; a flag that publishes nothing and may be seen late.
        self.ends.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        // ORDER: Relaxed; as where it is set.
        self.ends.load(Ordering::Relaxed)
    }

    fn tell(&self, found: Found) {
        // The receiver is gone only if the measuring thread has panicked.
        let _ = self.found.send(found);
    }

    /// Writes the time.
    pub(super) fn write(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.now_ns().to_le_bytes())
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

/// A task.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) scene: Arc<Scene>,
    pub(super) part: Part,
}

/// What a task does.
#[derive(Debug)]
pub(super) enum Part {
    /// Computes this many steps in a poll and yields, until the end.
    Compute(u64),
    /// Reads times from that address.
    Read(SocketAddr),
    /// Sleeps again and again, until the end.
    Sleep,
    /// Notes how long ago it was spawned.
    Run(Instant),
    /// Yields and writes times, until the end.
    YieldAndWrite(TcpStream),
}

impl Job {
    /// The task, on this runtime. It ends early if a socket fails; then something is missing in what is found.
    pub(super) async fn run<P: Peer>(self) {
        let scene = &*self.scene;
        match self.part {
            Part::Compute(steps) => compute_and_yield::<P>(scene, steps).await,
            Part::Read(address) => drop(read::<P>(scene, address).await),
            Part::Sleep => sleep::<P>(scene).await,
            Part::Run(spawned) => scene.tell(Found::Ran(ns_since(spawned))),
            Part::YieldAndWrite(stream) => drop(yield_and_write::<P>(scene, stream).await),
        }
    }
}

fn ns_since(time: Instant) -> u64 {
    Instant::now().saturating_duration_since(time).as_nanos() as u64
}

async fn compute_and_yield<P: Peer>(scene: &Scene, steps: u64) {
    let mut count = 0;
    while !scene.is_over() {
        compute(steps);
        count += 1;
        P::yield_now().await;
    }
    scene.tell(Found::Computed(count));
}

async fn read<P: Peer>(scene: &Scene, address: SocketAddr) -> io::Result<()> {
    let mut stream = P::connect(address).await?;
    let mut stamp = [0; STAMP];
    let mut filled = 0;
    loop {
        match P::read(&mut stream, &mut stamp[filled..]).await? {
            0 => return Ok(()),
            count => filled += count,
        }
        if filled == STAMP {
            filled = 0;
            let written_ns = u64::from_le_bytes(stamp);
            scene.tell(Found::Read(scene.now_ns().saturating_sub(written_ns)));
            // ORDER: Relaxed; a flag that publishes nothing.
            scene.is_read.store(true, Ordering::Relaxed);
        }
    }
}

async fn sleep<P: Peer>(scene: &Scene) {
    while !scene.is_over() {
        let due = Instant::now() + SLEEP;
        P::sleep(SLEEP).await;
        scene.tell(Found::Slept(ns_since(due)));
    }
}

async fn yield_and_write<P: Peer>(scene: &Scene, mut stream: TcpStream) -> io::Result<()> {
    let mut random = Random::seeded(SEED);
    let [low, high] = YIELDS;
    while !scene.is_over() {
        for _ in 0..random.between(low, high) as u32 {
            P::yield_now().await;
        }
        // ORDER: Relaxed, here and below; as where it is set.
        scene.is_read.store(false, Ordering::Relaxed);
        scene.write(&mut stream)?;
        let mut yields = 0;
        while !scene.is_read.load(Ordering::Relaxed) {
            P::yield_now().await;
            yields += 1;
        }
        scene.tell(Found::Yielded(yields));
    }
    Ok(())
}

/// Measured times and counts of one pass.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) read: Samples,
    pub(super) slept: Samples,
    pub(super) ran: Samples,
    pub(super) computed: u64,
    pub(super) yields: Vec<f64>,
}

impl Tally {
    /// All that was found; waits until the last task has ended.
    pub(super) fn of(all: &Receiver<Found>) -> Self {
        let mut tally = Self::default();
        for found in all {
            match found {
                Found::Read(ns) => tally.read.record(ns),
                Found::Slept(ns) => tally.slept.record(ns),
                Found::Ran(ns) => tally.ran.record(ns),
                Found::Computed(count) => tally.computed += count,
                Found::Yielded(count) => tally.yields.push(count as f64),
            }
        }
        tally
    }
}

/// How long a thread outside waits between two things that it does.
pub(super) fn pause(random: &mut Random) -> Duration {
    Duration::from_micros(random.between(1_000.0, 3_000.0) as u64)
}
