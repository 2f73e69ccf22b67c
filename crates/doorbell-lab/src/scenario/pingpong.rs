//! `doorbell lab pingpong`: tasks that wake each other in turn, many pairs at once, and frames of short tasks.
//!
//! The shapes are those by which the kernel's race for an idle CPU was measured: two wakers that choose the same
//! idle worker leave another one idle, and the second task waits behind the first.
//!
//! - *Pairs*, as uperf's ping-pong: 1 to 128 pairs exchange messages of 8 KiB. Both sides are tasks of one
//!   runtime, and the messages stay in memory.
//! - *Frames*, as Jackbench's: 60 times a second a thread outside begins a frame of 8 tasks, each of which
//!   computes for 200 µs. In a *chain* each task wakes the next one; in a *burst* the thread wakes all of them.
//!   A frame takes the time from its first wake to the end of its last task. Between two frames everything is
//!   idle.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::error::TASK_LOST;
use crate::frame::{Contestant, Outcome, Plan, Work};
use crate::measure::{Process, Samples, allowed_cpus};
use crate::peers::{Doorbell, Peer, Smol, Threads, Tokio, Workers, sleep_until};
use crate::tools::{Crew, End, Slot, compute, counted, counted_noun, locked, steps_for};
use anyhow::{Result, bail};

const SPAN_MS: [u32; 2] = [500, 50];
/// In 10 ms of a pass of pairs there are 3 frames.
const MS_FOR_FRAMES: [u32; 2] = [10, 3];
/// A task of a frame.
const WORK: Duration = Duration::from_micros(200);
const MESSAGE: usize = 8 * 1024;
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);
const FRAMES_BEGIN_IN: Duration = Duration::from_millis(10);
/// A frame that is not over by then has lost a task.
const LOST: Duration = Duration::from_secs(5);
const TASKS: usize = 8;
const PAIRS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const CHAIN: &str = "60/s, chain of 8";
const BURST: &str = "60/s, burst of 8";

pub(super) const PLAN: Plan = Plan {
    scenario: "pingpong",
    work: |options| Work::of(options.full_or_quick(SPAN_MS), 10, 20),
    contestants: |_| contestants(),
    compared: "op_us",
    ..Plan::NEW
};

fn pairs(count: usize) -> String {
    counted_noun(count, "pair")
}

fn frames_in(amount_ms: u32) -> u32 {
    let [ms, frames] = MS_FOR_FRAMES;
    (amount_ms * frames / ms).max(1)
}

fn contestants() -> Result<Vec<Contestant>> {
    let workers = Workers::Free(allowed_cpus()?.len());
    let frames = [CHAIN, BURST].map(|name| (name.to_owned(), None));
    let all = PAIRS.map(|count| (pairs(count), Some(count)));
    let each_peer = |(variant, pairs): (String, Option<usize>)| {
        [
            one::<Tokio>(&workers, &variant, pairs).baseline(),
            one::<Doorbell>(&workers, &variant, pairs),
            one::<Smol>(&workers, &variant, pairs),
            one::<Threads>(&workers, &variant, pairs),
        ]
    };
    Ok(all.into_iter().chain(frames).flat_map(each_peer).collect())
}

/// So many pairs, or frames.
fn one<P: Peer>(workers: &Workers, variant: &str, pairs: Option<usize>) -> Contestant {
    let (workers, is_chain) = (workers.clone(), variant == CHAIN);
    let run = move |peer: &mut P, amount_ms: u32| {
        let before = Process::own().cpu()?;
        let outcome = counted(peer, |peer| match pairs {
            Some(count) => exchange(peer, count, Duration::from_millis(amount_ms.into())),
            None => show(peer, is_chain, frames_in(amount_ms)),
        })?;
        let cpu_us = Process::own().cpu()?.saturating_sub(before).as_secs_f64() * 1e6;
        let per_op = cpu_us / outcome.operations.max(1) as f64;
        Ok(outcome.and([("cpu_us_per_op", per_op)]))
    };
    Contestant::of(variant, move || P::start(&workers), run)
}

type Message = Box<[u8; MESSAGE]>;

/// A pair, whose one message goes there and back.
#[derive(Debug, Default)]
struct Pair {
    client: Slot<Message>,
    server: Slot<Message>,
}

/// What a client found.
#[derive(Debug)]
struct Client {
    exchanges: u64,
    round_trips: Samples,
    is_right: bool,
}

/// A side's own copy of the message.
#[derive(Debug)]
struct Memory(Message);

impl Memory {
    fn new() -> Self {
        Self(Box::new([0; MESSAGE]))
    }

    /// The number of a message, which has it at both ends.
    fn read(&mut self, message: &Message) -> Option<u64> {
        self.0.copy_from_slice(&message[..]);
        black_box(&mut self.0);
        let [first, .., last] = self.0.as_chunks::<8>().0 else {
            return None;
        };
        (first == last).then(|| u64::from_le_bytes(*first))
    }

    fn write(&mut self, number: u64, message: &mut Message) {
        let bytes = number.to_le_bytes();
        self.0[..bytes.len()].copy_from_slice(&bytes);
        self.0[MESSAGE - bytes.len()..].copy_from_slice(&bytes);
        message.copy_from_slice(&self.0[..]);
        black_box(message);
    }
}

impl Pair {
    async fn serve(&self) {
        let mut memory = Memory::new();
        while let Some(mut message) = self.server.take().await {
            // The client notices a wrong number.
            let number = memory.read(&message).unwrap_or_default();
            memory.write(number + 1, &mut message);
            self.client.put(message);
        }
    }

    async fn ask(&self, end: &End) -> Client {
        let mut memory = Memory::new();
        let mut round_trips = Samples::default();
        let (mut exchanges, mut is_right) = (0, true);
        let mut sent: Option<Instant> = None;
        while let Some(mut message) = self.client.take().await {
            let answer = memory.read(&message);
            if let Some(sent) = sent {
                exchanges += 1;
                round_trips.record(sent.elapsed().as_nanos() as u64);
                is_right &= answer == Some(2 * exchanges);
            }
            if sent.is_some() && end.is_asked() {
                break;
            }
            sent = Some(Instant::now());
            memory.write(2 * exchanges + 1, &mut message);
            self.server.put(message);
        }
        self.server.close();
        Client {
            exchanges,
            round_trips,
            is_right,
        }
    }
}

fn exchange<P: Peer>(peer: &mut P, count: usize, span: Duration) -> Result<Outcome> {
    let end = Arc::new(End::default());
    let pairs: Vec<_> = (0..count).map(|_| Arc::new(Pair::default())).collect();
    let mut crew = Crew::new();
    for pair in &pairs {
        let (server, client) = (Arc::clone(pair), Arc::clone(pair));
        peer.spawn(async move { server.serve().await })?;
        let end = Arc::clone(&end);
        let ask = async move { client.ask(&end).await };
        peer.spawn(crew.member(ask))?;
    }
    let began = Instant::now();
    for pair in &pairs {
        pair.client.put(Box::new([0; MESSAGE]));
    }
    std::thread::sleep(span);
    end.ask();
    let clients = crew.gather()?;
    let seconds = began.elapsed().as_secs_f64();
    if clients.iter().any(|client| !client.is_right) {
        bail!("a message came back with another number than its client expected");
    }
    let operations = clients.iter().map(|client| client.exchanges).sum::<u64>();
    let late = Samples::of_all(clients.iter().map(|client| &client.round_trips));
    let exchanges = operations.max(1) as f64;
    let (per_s, us) = (exchanges / seconds, 1e6 * seconds / exchanges);
    let figures = [("exchanges_per_s", per_s), ("op_us", us)];
    Ok(Outcome::of(operations, figures).late(late))
}

/// Every 1/60 s a thread outside wakes short tasks, as a display does that asks for the next picture.
#[derive(Debug)]
struct Frames {
    is_chain: bool,
    reference: Instant,
    began_ns: AtomicU64,
    left: AtomicU32,
    slots: [Slot<()>; TASKS],
    took: Mutex<Samples>,
}

impl Frames {
    fn now_ns(&self) -> u64 {
        self.reference.elapsed().as_nanos() as u64
    }

    fn is_over(&self) -> bool {
        // ORDER: Acquire pairs with the AcqRel of `one_computed`: the tasks of the last frame are done.
        self.left.load(Ordering::Acquire) == 0
    }

    fn begin(&self) {
        // ORDER: Relaxed, here and below; the tasks are woken through their slots, which publish both.
        self.left.store(TASKS as u32, Ordering::Relaxed);
        self.began_ns.store(self.now_ns(), Ordering::Relaxed);
        let woken = if self.is_chain { 1 } else { TASKS };
        for slot in &self.slots[..woken] {
            slot.put(());
        }
    }

    fn one_computed(&self) {
        let mut took = locked(&self.took);
        let took_ns = self.now_ns() - self.began_ns.load(Ordering::Relaxed);
        // ORDER: AcqRel pairs with the Acquire of `is_over`.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            took.record(took_ns);
        }
    }

    async fn run(&self, place: usize) -> u32 {
        let mut runs = 0;
        while self.slots[place].take().await.is_some() {
            compute(steps_for(WORK));
            runs += 1;
            if let Some(next) = self.slots.get(place + 1).filter(|_| self.is_chain) {
                next.put(());
            }
            self.one_computed();
        }
        runs
    }

    /// Begins those frames that are due when the last one is over. How many.
    fn begin_all(&self, frames: u32) -> Result<u32> {
        let (first, mut begun) = (Instant::now() + FRAMES_BEGIN_IN, 0);
        for frame in 0..frames {
            sleep_until(first + FRAME * frame);
            if self.is_over() {
                self.begin();
                begun += 1;
            }
        }
        let last = Instant::now();
        while !self.is_over() {
            if last.elapsed() > LOST {
                bail!(TASK_LOST);
            }
            sleep_until(Instant::now() + FRAME / 16);
        }
        Ok(begun)
    }
}

fn show<P: Peer>(peer: &mut P, is_chain: bool, frames: u32) -> Result<Outcome> {
    let all = Arc::new(Frames {
        is_chain,
        reference: Instant::now(),
        began_ns: AtomicU64::new(0),
        left: AtomicU32::new(0),
        slots: Default::default(),
        took: Mutex::default(),
    });
    let mut crew = Crew::new();
    for place in 0..TASKS {
        let theirs = Arc::clone(&all);
        peer.spawn(crew.member(async move { theirs.run(place).await }))?;
    }
    let begun = all.begin_all(frames);
    all.slots.iter().for_each(Slot::close);
    let (runs, begun) = (crew.gather()?, begun?);
    let took = std::mem::take(&mut *locked(&all.took));
    if runs.iter().any(|runs| *runs != begun) || took.len() != begun as usize {
        bail!(TASK_LOST);
    }
    let mean_us = took.mean_ns().unwrap_or_default() / 1_000.0;
    let skipped = f64::from(frames - begun);
    let figures = [("op_us", mean_us), ("skipped_count", skipped)];
    Ok(Outcome::of(took.len() as u64, figures).late(took))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{assert_plan, contestants, outcome, try_each};
    use crate::scenario::Options;

    #[test]
    fn every_shape_runs_on_all_contestants() {
        try_each(contestants(&PLAN, &Options::default()), |one, run| {
            let outcome = outcome(one, run, 10);
            assert!(outcome.figures["op_us"] > 0.0, "{one:?}");
            if one.variant.ends_with("of 8") {
                // On a busy machine a frame may not be over when the next one is due.
                let skipped = outcome.figures["skipped_count"] as u64;
                assert_eq!(outcome.operations + skipped, 3, "{one:?}");
            } else {
                assert!(
                    outcome.operations > 0 && !outcome.late.is_empty(),
                    "{one:?}"
                );
            }
            let counts_rings = outcome.figures.contains_key("rings_per_op");
            assert_eq!(counts_rings, one.name == "doorbell", "{one:?}");
        });
    }

    #[test]
    fn a_pass_of_frames_has_some_however_short() {
        assert_eq!((frames_in(SPAN_MS[0]), frames_in(1)), (150, 1));
    }

    #[test]
    fn the_plan_fits() {
        let kept = [
            "exchanges/s",
            "us each",
            "x tokio",
            "p50 us",
            "p99 us",
            "skipped",
            "CPU us/op",
        ];
        assert_plan(&PLAN, &Options::default(), &kept);
    }
}
