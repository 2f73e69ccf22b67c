//! Tasks that compute and yield for ever, and beside them a socket, a sleep, and spawns from outside.

use std::collections::BTreeMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::super::common::shortest_slack;
use super::super::timers::Random;
use super::super::trial::{Outcome, Trial};
use super::super::wants::Want;
use super::jobs::{Job, Part, Scene, Tally, pause};
use super::peers::Peer;
use super::{SEED, steps};
use crate::error::LabError;

/// How many cores and computing tasks there are, and how long each poll of these is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) cores: usize,
    pub(super) tasks: usize,
    pub(super) poll: Duration,
}

const fn case(name: &'static str, cores: usize, tasks: usize, poll_us: u64) -> Case {
    Case {
        name,
        cores,
        tasks,
        poll: Duration::from_micros(poll_us),
    }
}

/// All cases, in the order of the table.
pub(super) const CASES: [Case; 6] = [
    case("1 core, 1 task, 20 us", 1, 1, 20),
    case("1 core, 4 tasks, 100 us", 1, 4, 100),
    case("1 core, 1 task, 500 us", 1, 1, 500),
    case("1 core, 4 tasks, 1 ms", 1, 4, 1_000),
    case("2 cores, 4 tasks, 1 ms", 2, 4, 1_000),
    case("2 cores, 16 tasks, 1 ms", 2, 16, 1_000),
];

/// What is measured beside them, as it is called in the table.
pub(super) const PARTS: [&str; 3] = ["socket", "sleep", "spawn"];

/// One case on one runtime.
#[derive(Debug)]
pub(super) struct Crowd<P> {
    case: Case,
    is_baseline: bool,
    host: Option<P>,
}

impl<P> Crowd<P> {
    pub(super) fn new(case: Case, is_baseline: bool) -> Self {
        Self {
            case,
            is_baseline,
            host: None,
        }
    }
}

impl<P: Peer> Trial for Crowd<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn variant(&self) -> &'static str {
        self.case.name
    }

    fn group(&self) -> &'static str {
        self.case.name
    }

    fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        self.host = Some(P::start(self.case.cores)?);
        Ok(())
    }

    fn run(&mut self, amount_ms: u32) -> Result<Outcome, LabError> {
        let host = self.host.as_mut().ok_or(LabError::NotSetUp)?;
        let span = Duration::from_millis(u64::from(amount_ms));
        let (scene, all) = Scene::new();
        let stream = start_reader(host, &scene)?;
        let mut launch = |part| {
            let scene = Arc::clone(&scene);
            host.launch(Job { scene, part })
        };
        launch(Part::Sleep)?;
        for _ in 0..self.case.tasks {
            launch(Part::Compute(steps(self.case.poll)))?;
        }
        let began = Instant::now();
        let done = thread::scope(|scope| {
            let outside = scope.spawn(|| disturb(host, &scene, stream, span));
            outside.join()
        });
        scene.end();
        let took_s = began.elapsed().as_secs_f64();
        drop(scene);
        let tally = Tally::of(&all);
        let panicked = |_| LabError::ThreadPanicked { thread: "outside" };
        let done = done.map_err(panicked)??;
        if [tally.read.len(), tally.ran.len()] != done {
            return Err(LabError::TaskLost);
        }
        let mut parts = vec![(PARTS[0], tally.read), (PARTS[1], tally.slept)];
        if P::SPAWNS_FROM_OUTSIDE {
            parts.push((PARTS[2], tally.ran));
        }
        Ok(Outcome {
            operations: tally.computed,
            figures: BTreeMap::from([("computed_per_s", tally.computed as f64 / took_s)]),
            parts,
            ..Outcome::default()
        })
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), P::stop)
    }
}

pub(super) fn socket_error(source: io::Error) -> LabError {
    LabError::System {
        what: "using a socket of the loopback",
        source,
    }
}

/// Starts the task that reads, and returns the other end of its socket.
pub(super) fn start_reader<P: Peer>(
    host: &mut P,
    scene: &Arc<Scene>,
) -> Result<TcpStream, LabError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(socket_error)?;
    let address = listener.local_addr().map_err(socket_error)?;
    host.launch(Job {
        scene: Arc::clone(scene),
        part: Part::Read(address),
    })?;
    let (stream, _) = listener.accept().map_err(socket_error)?;
    stream.set_nodelay(true).map_err(socket_error)?;
    Ok(stream)
}

/// In a thread outside: writes to the socket and spawns a task in turn. Returns how often it has done each.
fn disturb<P: Peer>(
    host: &mut P,
    scene: &Arc<Scene>,
    mut stream: TcpStream,
    span: Duration,
) -> Result<[usize; 2], LabError> {
    // Its own wait for a CPU says nothing about a runtime.
    Want::Waker.ask();
    shortest_slack();
    let mut random = Random::seeded(SEED);
    let mut done = [0, 0];
    let began = Instant::now();
    while began.elapsed() < span {
        thread::sleep(pause(&mut random));
        scene.write(&mut stream).map_err(socket_error)?;
        done[0] += 1;
        if P::SPAWNS_FROM_OUTSIDE {
            thread::sleep(pause(&mut random));
            host.launch(Job {
                scene: Arc::clone(scene),
                part: Part::Run(Instant::now()),
            })?;
            done[1] += 1;
        }
    }
    Ok(done)
}
