//! Tasks that compute and yield for ever, and beside them a socket, a sleep, and spawns from outside.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::{Case, LONE, OnPeer, SEED, SLEEP};
use crate::error::{TASK_LOST, check_count, panicked};
use crate::frame::{Contestant, Outcome};
use crate::measure::{Samples, median, spread_of};
use crate::peers::{Net, Want, Workers, shortest_slack};
use crate::tools::{Crew, End, Random, compute, steps_for};

/// What is written to a socket is the time, 8 bytes.
const STAMP: usize = size_of::<u64>();
/// How often the lone task yields before it writes.
const YIELDS: [f64; 2] = [200.0, 400.0];
/// The times of a pass beside a crowd.
pub(super) const PARTS: [&str; 3] = ["socket", "sleep", "spawn"];
const SOCKET: &str = "using a socket of the loopback";

/// What the tasks of a pass share.
#[derive(Debug)]
struct Scene {
    began: Instant,
    end: End,
    is_read: AtomicBool,
}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            end: End::default(),
            is_read: AtomicBool::new(false),
        })
    }

    fn write(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.now_ns().to_le_bytes())
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

/// How often it computed.
async fn compute_and_yield<P: Net>(scene: Arc<Scene>, steps: u64) -> u64 {
    let mut count = 0;
    while !scene.end.is_asked() {
        compute(steps);
        count += 1;
        P::yield_now().await;
    }
    count
}

/// How long each stamp took from its write.
async fn read<P: Net>(scene: Arc<Scene>, address: SocketAddr) -> io::Result<Samples> {
    let mut stream = P::connect(address).await?;
    let (mut stamp, mut filled, mut took) = ([0; STAMP], 0, Samples::default());
    loop {
        match P::read(&mut stream, &mut stamp[filled..]).await? {
            0 => return Ok(took),
            count => filled += count,
        }
        if filled == STAMP {
            filled = 0;
            let written_ns = u64::from_le_bytes(stamp);
            took.record(scene.now_ns().saturating_sub(written_ns));
            // ORDER: Relaxed; a flag that publishes nothing.
            scene.is_read.store(true, Ordering::Relaxed);
        }
    }
}

/// How late each sleep ended.
async fn sleep<P: Net>(scene: Arc<Scene>) -> Samples {
    let mut late = Samples::default();
    while !scene.end.is_asked() {
        let due = Instant::now() + SLEEP;
        P::sleep_until(due).await;
        late.record(due.elapsed().as_nanos() as u64);
    }
    late
}

/// Counts its yields until another task has read what it wrote, each time.
async fn yield_and_write<P: Net>(scene: Arc<Scene>, mut stream: TcpStream) -> io::Result<Vec<f64>> {
    let (mut random, mut all) = (Random::seeded(SEED), Vec::new());
    let [low, high] = YIELDS;
    while !scene.end.is_asked() {
        for _ in 0..random.between(low, high) as u32 {
            P::yield_now().await;
        }
        // ORDER: Relaxed, here and below; as where it is set.
        scene.is_read.store(false, Ordering::Relaxed);
        scene.write(&mut stream)?;
        let mut yields = 0.0;
        while !scene.is_read.load(Ordering::Relaxed) {
            P::yield_now().await;
            yields += 1.0;
        }
        all.push(yields);
    }
    Ok(all)
}

type Reader = Crew<io::Result<Samples>>;

/// Starts the task that reads, and the other end of its connection.
fn start_reader<P: Net>(peer: &mut P, scene: &Arc<Scene>) -> Result<(Reader, TcpStream)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context(SOCKET)?;
    let (address, mut reader) = (listener.local_addr().context(SOCKET)?, Crew::new());
    peer.spawn(reader.member(read::<P>(Arc::clone(scene), address)))?;
    let (stream, _) = listener.accept().context(SOCKET)?;
    stream.set_nodelay(true).context(SOCKET)?;
    Ok((reader, stream))
}

/// Tasks that compute, and others beside them.
pub(super) struct Crowd(pub(super) Case);

impl OnPeer for Crowd {
    fn on<P: Net>(&self) -> Contestant {
        let (name, cores, ..) = self.0;
        let case = self.0;
        let run = move |peer: &mut P, amount_ms| beside_a_crowd(peer, case, amount_ms);
        Contestant::of(name, move || P::start(&Workers::Free(cores)), run)
    }
}

fn beside_a_crowd<P: Net>(
    peer: &mut P,
    (_, _, tasks, poll_us): Case,
    amount_ms: u32,
) -> Result<Outcome> {
    let steps = steps_for(Duration::from_micros(poll_us));
    let span = Duration::from_millis(amount_ms.into());
    let scene = Scene::new();
    let (reader, stream) = start_reader(peer, &scene)?;
    let (mut sleeper, mut computing, mut spawned) = (Crew::new(), Crew::new(), Crew::new());
    peer.spawn(sleeper.member(sleep::<P>(Arc::clone(&scene))))?;
    for _ in 0..tasks {
        let compute = compute_and_yield::<P>(Arc::clone(&scene), steps);
        peer.spawn(computing.member(compute))?;
    }
    let began = Instant::now();
    let written = thread::scope(|scope| {
        let outside = scope.spawn(|| disturb(peer, &scene, stream, &mut spawned, span));
        outside.join()
    });
    scene.end.ask();
    let took_s = began.elapsed().as_secs_f64();
    let written = written.map_err(|_| panicked("outside"))??;
    let read = reader.gather()?.remove(0).context(SOCKET)?;
    check_count("reads", written, read.len() as u64)?;
    let parts = vec![
        (PARTS[0], read),
        (PARTS[1], sleeper.gather()?.remove(0)),
        (PARTS[2], spawned.gather()?.into_iter().collect()),
    ];
    let computed = computing.gather()?.into_iter().sum();
    let figures = [("computed_per_s", computed as f64 / took_s)];
    Ok(Outcome::of(computed, figures).in_parts(parts))
}

/// Writes to the socket and spawns tasks, in turn. How often it wrote.
fn disturb<P: Net>(
    peer: &mut P,
    scene: &Scene,
    mut stream: TcpStream,
    spawned: &mut Crew<u64>,
    span: Duration,
) -> Result<u64> {
    // Its own wait for a CPU says nothing about a runtime.
    Want::Waker.ask();
    shortest_slack();
    let mut random = Random::seeded(SEED);
    let mut pause = || {
        let us = random.between(1_000.0, 3_000.0);
        thread::sleep(Duration::from_micros(us as u64));
    };
    let (began, mut written) = (Instant::now(), 0);
    while began.elapsed() < span {
        pause();
        scene.write(&mut stream).context(SOCKET)?;
        written += 1;
        pause();
        let at = Instant::now();
        peer.spawn(spawned.member(async move { at.elapsed().as_nanos() as u64 }))?;
    }
    Ok(written)
}

/// A socket that gets ready beside one lone task that yields.
pub(super) struct Lone;

impl OnPeer for Lone {
    fn on<P: Net>(&self) -> Contestant {
        let run = |peer: &mut P, amount_ms: u32| {
            let scene = Scene::new();
            let (reader, stream) = start_reader(peer, &scene)?;
            let mut lone = Crew::new();
            peer.spawn(lone.member(yield_and_write::<P>(Arc::clone(&scene), stream)))?;
            thread::sleep(Duration::from_millis(amount_ms.into()));
            scene.end.ask();
            let yields = lone.gather()?.remove(0).context(SOCKET)?;
            let read = reader.gather()?.remove(0).context(SOCKET)?;
            ensure!(!yields.is_empty() && yields.len() == read.len(), TASK_LOST);
            let middle = median(&yields).map(|count| ("yields_count", count));
            let most = spread_of(&yields).map(|[_, most]| ("yields_max_count", most));
            let outcome = Outcome::of(read.len() as u64, []);
            Ok(outcome.and(middle).and(most).late(read))
        };
        Contestant::of(LONE, || P::start(&Workers::Free(1)), run)
    }
}
