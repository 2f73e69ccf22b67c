//! A server ends at a random moment, in every possible way, under load. Nothing hangs, no client takes half
//! an answer for a complete one, and all resources are given back.
//!
//! A test binary of its own: it counts the resources of the whole process, so its only test runs alone.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::cast_possible_wrap,
    reason = "tests play the outside world"
)]

#[path = "../../doorbell/tests/counting/mod.rs"]
#[allow(dead_code, reason = "others ask for more")]
mod counting;
mod plain;

use plain::site::{CHUNK, CHUNKS, SIZED, Site, is_whole};
use plain::{Client, Has, Lost};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 200;
const CLIENTS: usize = 4;

/// How long anything may take; a round takes milliseconds.
const HANGS: Duration = Duration::from_secs(30);

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    DropRuntime,
    Signal,
    DropServer,
}

/// A simple random generator: xorshift.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What a client has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    whole: u64,
    /// Connections that ended before the answer began.
    unbegun: u64,
    /// Connections that ended in the middle of it.
    truncated: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.whole += other.whole;
        self.unbegun += other.unbegun;
        self.truncated += other.truncated;
    }
}

/// Makes one request after another, on a few connections, until it is over.
fn load(address: SocketAddr, over: &AtomicBool, seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut dice = Dice(seed);
    while !over.load(SeqCst) {
        let Ok(mut client) = Client::try_to(address) else {
            // The address refuses connections.
            tally.unbegun += 1;
            return tally;
        };
        for _ in 0..=dice.below(20) {
            let (path, length) = match dice.below(4) {
                0 => ("/sized", SIZED),
                1 => ("/chunks", CHUNKS * CHUNK),
                2 => ("/late", 11),
                _ => ("/", 12),
            };
            match client.ask(path) {
                Ok(answer) => {
                    let is_right = match path {
                        "/" => answer.body == b"hello, world",
                        "/late" => answer.body == b"hello, late",
                        _ => is_whole(&answer.body, length),
                    };
                    assert!(
                        answer.status == 200 && is_right,
                        "{path}: {:?}",
                        answer.body.len()
                    );
                    tally.whole += 1;
                }
                Err(Lost::Unbegun(_)) => {
                    tally.unbegun += 1;
                    break;
                }
                Err(Lost::Truncated(_)) => {
                    tally.truncated += 1;
                    break;
                }
            }
        }
    }
    tally
}

/// Ends the process if no round ends for a long time.
fn watch(round: &AtomicU64, seed: u64) {
    let mut seen = (0, Instant::now());
    loop {
        thread::sleep(Duration::from_millis(20));
        let now = round.load(SeqCst);
        if now > ROUNDS {
            return;
        }
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        if seen.1.elapsed() > HANGS {
            eprintln!("round {now} of seed {seed} hangs");
            std::process::abort();
        }
    }
}

fn play(end: End, dice: &mut Dice) -> Tally {
    let site = Site::start(|server| server);
    let (address, over) = (site.address, AtomicBool::new(false));
    let wait = Duration::from_micros(dice.below(6_000));
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let over = &over;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let seed = 1 + dice.below(u64::MAX - 1);
                scope.spawn(move || load(address, over, seed))
            })
            .collect();
        thread::sleep(wait);
        let cut = match end {
            End::DropRuntime => {
                let Site { runtime, task, .. } = site;
                drop(runtime);
                assert!(task.is_finished());
                None
            }
            End::DropServer => {
                let Site { runtime, task, .. } = site;
                task.abort();
                let _ = runtime.block_on(task);
                // The server's resources are freed without the end of the runtime, which stays until the
                // clients have seen the server end.
                over.store(true, SeqCst);
                for client in clients {
                    tally.add(client.join().unwrap());
                }
                return drop(runtime);
            }
            End::Signal => Some(site.end().cut),
        };
        over.store(true, SeqCst);
        for client in clients {
            tally.add(client.join().unwrap());
        }
        if let Some(cut) = cut {
            assert_eq!((cut, tally.truncated), (0, 0), "an orderly end");
        }
    });
    tally
}

#[test]
fn it_ends_at_any_moment_under_load() {
    let seed = std::env::var("DOORBELL_TEST_SEED").map_or_else(
        |_| Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id()) << 20 | 1,
        |seed| seed.parse().unwrap(),
    );
    println!("DOORBELL_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let start = Instant::now();
    // What is created once, by the first of all, stays.
    for end in [End::Signal, End::DropRuntime, End::DropServer] {
        play(end, &mut dice);
    }
    thread::sleep(Duration::from_millis(50));
    let round = AtomicU64::new(0);
    let mut tallies: BTreeMap<End, Tally> = BTreeMap::new();
    thread::scope(|scope| {
        /// Also when a round fails.
        struct EndWatch<'a>(&'a AtomicU64);
        impl Drop for EndWatch<'_> {
            fn drop(&mut self) {
                self.0.store(u64::MAX, SeqCst);
            }
        }
        scope.spawn(|| watch(&round, seed));
        let _ends = EndWatch(&round);
        let before = Has::now();
        let (blocks, bytes) = counting::live();
        for at in 1..=ROUNDS {
            round.store(at, SeqCst);
            let end = [End::DropRuntime, End::Signal, End::DropServer][dice.below(3) as usize];
            tallies.entry(end).or_default().add(play(end, &mut dice));
            let now = Has::wait_for(|now| *now == before, "after a round");
            assert_eq!(now, before, "round {at}");
        }
        let (blocks, bytes) = {
            let (blocks_now, bytes_now) = counting::live();
            (blocks_now - blocks, bytes_now - bytes)
        };
        // Far less than one block per round, and less than a buffer per round.
        let most = ROUNDS as i64 / 4;
        assert!(blocks.abs() <= most, "{blocks} blocks, {bytes} bytes");
        assert!(
            bytes.abs() <= 1_000 * most,
            "{blocks} blocks, {bytes} bytes"
        );
    });
    println!("{tallies:#?}, {:?}", start.elapsed());
    // Each way occurred, had requests, and cut some.
    for (end, tally) in &tallies {
        assert!(tally.whole > 0 && tally.unbegun > 0, "{end:?}: {tally:?}");
    }
    assert_eq!(tallies.len(), 3);
}
