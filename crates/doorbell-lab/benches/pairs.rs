//! What a program does one after another, on doorbell and on tokio: closures on blocking threads, and an echo over UDP.
//!
//! `cargo bench -p doorbell-lab --bench pairs`. Each run is a process of its own, because where the OS puts its threads
//! decides much. The two runtimes take turns, with two workers that are not bound.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::disallowed_methods, reason = "it is not run under valgrind")]

use std::env::{args, current_exe};
use std::error::Error;
use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

type Failed = Box<dyn Error + Send + Sync>;

const WHAT: [&str; 3] = ["closure", "file", "udp"];
const RUNS: usize = 5;
const WARM_UP: u32 = 500;
const ROUNDS: u32 = 20_000;
/// What a datagram of the echo has.
const BYTES: usize = 1_200;
const ANY_PORT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// A closure that reads a small file.
fn read() -> usize {
    fs::read("/proc/self/comm").map_or(0, |text| text.len())
}

/// Time and CPU time of the process, in µs for each of [`ROUNDS`] calls.
async fn timed<F: Future>(mut call: impl FnMut() -> F) -> [f64; 2] {
    for _ in 0..WARM_UP {
        call().await;
    }
    let cpu = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let (began, used) = (Instant::now(), cpu());
    for _ in 0..ROUNDS {
        call().await;
    }
    let each_us = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(ROUNDS);
    [
        each_us(began.elapsed()),
        each_us(cpu().saturating_sub(used)),
    ]
}

/// The measured program, in the words of a runtime. Its first task awaits what it measures.
macro_rules! measure {
    ($what:expr, $runtime:expr, $spawn:path, $blocking:path, $bind:expr) => {{
        let what = $what;
        let echo = async move {
            let (ours, theirs) = ($bind, $bind);
            ours.connect(theirs.local_addr()?).await?;
            theirs.connect(ours.local_addr()?).await?;
            drop($spawn(async move {
                let mut bytes = [0; BYTES];
                while let Ok(count) = theirs.recv(&mut bytes).await {
                    let Ok(_) = theirs.send(&bytes[..count]).await else {
                        return;
                    };
                }
            }));
            let (ours, lost) = (&ours, "a datagram was lost");
            let call = || async move {
                let mut bytes = [0; BYTES];
                ours.send(&bytes).await.expect(lost);
                assert_eq!(ours.recv(&mut bytes).await.expect(lost), BYTES);
            };
            Ok::<_, Failed>(timed(call).await)
        };
        $runtime.block_on(async move {
            let all = async move {
                match what {
                    "closure" => Ok(timed(|| $blocking(|| ())).await),
                    "file" => Ok(timed(|| $blocking(read)).await),
                    _ => echo.await,
                }
            };
            $spawn(all).await?
        })
    }};
}

fn on_doorbell(what: &'static str) -> Result<[f64; 2], Failed> {
    use doorbell::net::UdpSocket;
    let runtime = doorbell::Builder::new().cores(2).build()?;
    measure!(
        what,
        runtime,
        doorbell::spawn,
        doorbell::spawn_blocking,
        UdpSocket::bind(ANY_PORT)?
    )
}

fn on_tokio(what: &'static str) -> Result<[f64; 2], Failed> {
    use tokio::net::UdpSocket;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    measure!(
        what,
        runtime,
        tokio::spawn,
        tokio::task::spawn_blocking,
        UdpSocket::bind(ANY_PORT).await?
    )
}

/// What a run in a process of its own has measured.
fn run(who: &str, what: &str) -> Result<[f64; 2], Failed> {
    let said = Command::new(current_exe()?).args([who, what]).output()?;
    let said = String::from_utf8(said.stdout)?;
    let mut values = said.split_whitespace().map(str::parse);
    let mut next = || Ok::<_, Failed>(values.next().ok_or("a run has failed")??);
    Ok([next()?, next()?])
}

fn main() -> Result<(), Failed> {
    let given: Vec<String> = args().skip(1).collect();
    let known = WHAT
        .into_iter()
        .find(|what| given.get(1).is_some_and(|it| it == what));
    if let Some(what) = known {
        let [time, cpu] = match given[0].as_str() {
            "doorbell" => on_doorbell(what)?,
            _ => on_tokio(what)?,
        };
        println!("{time} {cpu}");
        return Ok(());
    }
    println!("what      run   doorbell us   tokio us   rate x tokio   CPU x tokio");
    for what in WHAT {
        let mut ratios = [const { Vec::new() }; 2];
        for number in 1..=RUNS {
            let (ours, theirs) = (run("doorbell", what)?, run("tokio", what)?);
            let (rate, cpu) = (theirs[0] / ours[0], ours[1] / theirs[1]);
            println!(
                "{what:8} {number:4} {:13.1} {:10.1} {rate:14.2} {cpu:13.2}",
                ours[0], theirs[0]
            );
            ratios[0].push(rate);
            ratios[1].push(cpu);
        }
        let [rate, cpu] = ratios.map(|mut all| {
            all.sort_by(f64::total_cmp);
            all[RUNS / 2]
        });
        println!("{what:8} median {rate:37.2} {cpu:13.2}");
    }
    Ok(())
}
