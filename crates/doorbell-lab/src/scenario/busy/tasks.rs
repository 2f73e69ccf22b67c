//! Tasks that compute and yield for ever, and beside them a socket, a sleep, and spawns from outside.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::{Case, LONE, OnPeer, SEED, SLEEP};
use crate::error::{TASK_LOST, panicked};
use crate::frame::{Contestant, Outcome};
use crate::measure::{Samples, Spread, median};
use crate::peers::{Net, Want, Workers, shortest_slack};
use crate::tools::{End, Random, compute, steps_for};
use anyhow::{Context as _, Result, bail};

/// What is written to a socket is the time, 8 bytes.
const STAMP: usize = size_of::<u64>();
/// How often the lone task yields before it writes.
const YIELDS: [f64; 2] = [200.0, 400.0];
/// The times of a pass beside a crowd.
pub(super) const PARTS: [&str; 3] = ["socket", "sleep", "spawn"];

/// Something found by a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Read(u64),
    Slept(u64),
    Ran(u64),
    Computed(u64),
    Yielded(u64),
}

/// What the tasks of a pass share.
#[derive(Debug)]
struct Scene {
    began: Instant,
    end: End,
    is_read: AtomicBool,
    found: Sender<Found>,
}

impl Scene {
    fn new() -> (Arc<Self>, Receiver<Found>) {
        let (found, all) = mpsc::channel();
        let scene = Self {
            began: Instant::now(),
            end: End::default(),
            is_read: AtomicBool::new(false),
            found,
        };
        (Arc::new(scene), all)
    }

    fn tell(&self, found: Found) {
        // The receiver is gone only if the measuring thread has panicked.
        let _ = self.found.send(found);
    }

    fn write(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.now_ns().to_le_bytes())
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

/// A task; it is made where it runs.
#[derive(Debug)]
pub(crate) struct NetTask {
    scene: Arc<Scene>,
    part: Part,
}

#[derive(Debug)]
enum Part {
    Compute(u64),
    Read(SocketAddr),
    Sleep,
    Run(Instant),
    YieldAndWrite(TcpStream),
}

impl NetTask {
    pub(crate) async fn run<P: Net>(self) {
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

async fn compute_and_yield<P: Net>(scene: &Scene, steps: u64) {
    let mut count = 0;
    while !scene.end.is_asked() {
        compute(steps);
        count += 1;
        P::yield_here().await;
    }
    scene.tell(Found::Computed(count));
}

async fn read<P: Net>(scene: &Scene, address: SocketAddr) -> io::Result<()> {
    let mut stream = P::connect(address).await?;
    let (mut stamp, mut filled) = ([0; STAMP], 0);
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

async fn sleep<P: Net>(scene: &Scene) {
    while !scene.end.is_asked() {
        let due = Instant::now() + SLEEP;
        P::sleep_for(SLEEP).await;
        scene.tell(Found::Slept(ns_since(due)));
    }
}

/// Counts its yields until another task has read what it wrote.
async fn yield_and_write<P: Net>(scene: &Scene, mut stream: TcpStream) -> io::Result<()> {
    let mut random = Random::seeded(SEED);
    let [low, high] = YIELDS;
    while !scene.end.is_asked() {
        for _ in 0..random.between(low, high) as u32 {
            P::yield_here().await;
        }
        // ORDER: Relaxed, here and below; as where it is set.
        scene.is_read.store(false, Ordering::Relaxed);
        scene.write(&mut stream)?;
        let mut yields = 0;
        while !scene.is_read.load(Ordering::Relaxed) {
            P::yield_here().await;
            yields += 1;
        }
        scene.tell(Found::Yielded(yields));
    }
    Ok(())
}

/// What the tasks of a pass found.
#[derive(Debug, Default)]
struct Tally {
    read: Samples,
    slept: Samples,
    ran: Samples,
    computed: u64,
    yields: Vec<f64>,
}

impl Tally {
    /// Until all tasks have ended.
    fn of(all: &Receiver<Found>) -> Self {
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

fn launch<P: Net>(peer: &mut P, scene: &Arc<Scene>, part: Part) -> Result<()> {
    let scene = Arc::clone(scene);
    peer.launch(NetTask { scene, part })
}

/// Starts the task that reads. The other end of its connection.
fn start_reader<P: Net>(peer: &mut P, scene: &Arc<Scene>) -> Result<TcpStream> {
    let failed = "using a socket of the loopback";
    let listener = TcpListener::bind(("127.0.0.1", 0)).context(failed)?;
    let address = listener.local_addr().context(failed)?;
    launch(peer, scene, Part::Read(address))?;
    let (stream, _) = listener.accept().context(failed)?;
    stream.set_nodelay(true).context(failed)?;
    Ok(stream)
}

/// Tasks that compute, and others beside them.
pub(super) struct Crowd(pub(super) Case);

impl OnPeer for Crowd {
    fn on<P: Net>(&self) -> Contestant {
        let case = self.0;
        let run = move |peer: &mut P, amount_ms| beside_a_crowd(peer, case, amount_ms);
        Contestant::of(case.name, move || P::start(&Workers::Free(case.cores)), run)
    }
}

fn beside_a_crowd<P: Net>(peer: &mut P, case: Case, amount_ms: u32) -> Result<Outcome> {
    let span = Duration::from_millis(amount_ms.into());
    let (scene, all) = Scene::new();
    let stream = start_reader(peer, &scene)?;
    launch(peer, &scene, Part::Sleep)?;
    for _ in 0..case.tasks {
        launch(peer, &scene, Part::Compute(steps_for(case.poll)))?;
    }
    let began = Instant::now();
    let done = thread::scope(|scope| {
        let outside = scope.spawn(|| disturb(peer, &scene, stream, span));
        outside.join()
    });
    scene.end.ask();
    let took_s = began.elapsed().as_secs_f64();
    drop(scene);
    let tally = Tally::of(&all);
    let panicked = |_| panicked("outside");
    if [tally.read.len(), tally.ran.len()] != done.map_err(panicked)?? {
        bail!(TASK_LOST);
    }
    let mut parts = vec![(PARTS[0], tally.read), (PARTS[1], tally.slept)];
    if P::SPAWNS_FROM_OUTSIDE {
        parts.push((PARTS[2], tally.ran));
    }
    let figures = [("computed_per_s", tally.computed as f64 / took_s)];
    Ok(Outcome::of(tally.computed, figures).in_parts(parts))
}

/// Writes to the socket and spawns tasks, in turn. How often.
fn disturb<P: Net>(
    peer: &mut P,
    scene: &Arc<Scene>,
    mut stream: TcpStream,
    span: Duration,
) -> Result<[usize; 2]> {
    // Its own wait for a CPU says nothing about a runtime.
    Want::Waker.ask();
    shortest_slack();
    let mut random = Random::seeded(SEED);
    let mut pause = || {
        let us = random.between(1_000.0, 3_000.0);
        thread::sleep(Duration::from_micros(us as u64));
    };
    let mut done = [0, 0];
    let began = Instant::now();
    while began.elapsed() < span {
        pause();
        let written = scene.write(&mut stream);
        written.context("using a socket of the loopback")?;
        done[0] += 1;
        if P::SPAWNS_FROM_OUTSIDE {
            pause();
            launch(peer, scene, Part::Run(Instant::now()))?;
            done[1] += 1;
        }
    }
    Ok(done)
}

/// A socket that gets ready beside one lone task that yields.
pub(super) struct Lone;

impl OnPeer for Lone {
    fn on<P: Net>(&self) -> Contestant {
        let run = |peer: &mut P, amount_ms: u32| {
            let (scene, all) = Scene::new();
            let stream = start_reader(peer, &scene)?;
            launch(peer, &scene, Part::YieldAndWrite(stream))?;
            thread::sleep(Duration::from_millis(amount_ms.into()));
            scene.end.ask();
            drop(scene);
            let tally = Tally::of(&all);
            if tally.yields.is_empty() || tally.yields.len() != tally.read.len() {
                bail!(TASK_LOST);
            }
            let middle = median(&tally.yields).map(|count| ("yields_count", count));
            let most = Spread::of(&tally.yields).map(|ends| ("yields_max_count", ends.max));
            let outcome = Outcome::of(tally.read.len() as u64, []);
            Ok(outcome.and(middle).and(most).late(tally.read))
        };
        Contestant::of(LONE, || P::start(&Workers::Free(1)), run)
    }
}
