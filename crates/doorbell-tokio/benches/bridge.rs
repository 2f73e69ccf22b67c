//! What the bridge costs: `cargo bench -p doorbell-tokio`.
//!
//! * Plain spawn and poll, with the bridge installed and without it.
//! * reqwest against a server in another process, beside the same tasks on tokio:
//!   `bridged`: tasks of doorbell over the bridge; `one`: the same with one worker, so that with the helper as many
//!   threads poll as on tokio; `two`: two runtimes of tokio, one for the tasks and one for what `tokio::spawn` takes;
//!   `whole`: all on the helper.
//!
//! Contestants take turns; each line shows medians over the rounds and the least and greatest ratio of a round.
//! `-- spawn plain` and `-- spawn bridged` run one contestant alone, for a counter of instructions. So does `-- reqwest
//! NAME URL`, for a profile: NAME is `tokio` or one of the above, and `-- serve` prints the URL of a server.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a bench plays the outside world"
)]

use doorbell::Builder;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_util::context::TokioContext;

const SPAWNS: u32 = 200_000;
const ROUNDS: usize = 9;
const CLIENTS: usize = 32;
const REQUESTS: usize = 300;
const CORES: usize = 2;

/// Spawns tasks that wait once, each from the one before, and awaits them.
async fn spawns(count: u32) {
    for _ in 0..count {
        doorbell::spawn(doorbell::yield_now())
            .await
            .expect("it ends");
    }
}

fn plain() -> doorbell::Runtime {
    Builder::new().cores(1).build().expect("it starts")
}

fn bridged(cores: usize) -> doorbell::Runtime {
    doorbell_tokio::builder()
        .cores(cores)
        .build()
        .expect("it starts")
}

/// Nanoseconds for each of the tasks.
fn spawn_ns(runtime: &doorbell::Runtime) -> f64 {
    let started = Instant::now();
    let task = runtime.spawn(spawns(SPAWNS));
    runtime.block_on(task).expect("it ends");
    started.elapsed().as_nanos() as f64 / f64::from(SPAWNS)
}

async fn requests(client: reqwest::Client, url: String) {
    for _ in 0..REQUESTS {
        let answer = client.get(&url).send().await.expect("the server answers");
        answer.bytes().await.expect("it is whole");
    }
}

/// CPU time of this process.
fn cpu() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the struct that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Requests a second, and CPU time in microseconds of a request.
fn rate(run: impl FnOnce()) -> (f64, f64) {
    let (started, before) = (Instant::now(), cpu());
    run();
    let all = (CLIENTS * REQUESTS) as f64;
    let used = cpu().saturating_sub(before);
    (
        all / started.elapsed().as_secs_f64(),
        used.as_secs_f64() * 1e6 / all,
    )
}

/// One contest of reqwest: the future of each client.
type Load = fn(reqwest::Client, String) -> doorbell::JoinHandle<()>;

/// Each request in a task of doorbell; the connections on the helper.
fn in_tasks(client: reqwest::Client, url: String) -> doorbell::JoinHandle<()> {
    doorbell::spawn(requests(client, url))
}

/// All on the helper.
fn on_the_helper(client: reqwest::Client, url: String) -> doorbell::JoinHandle<()> {
    doorbell::spawn(async {
        let all = doorbell_tokio::run(requests(client, url));
        all.await.expect("it ends");
    })
}

fn on_doorbell(url: &str, cores: usize, load: Load) -> (f64, f64) {
    let runtime = bridged(cores);
    rate(|| {
        runtime.block_on(async {
            let client = reqwest::Client::new();
            let tasks = (0..CLIENTS).map(|_| load(client.clone(), url.to_owned()));
            for task in tasks.collect::<Vec<_>>() {
                task.await.expect("it ends");
            }
        });
    })
}

fn tokio_of(workers: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .expect("it starts")
}

fn on_tokio(url: &str) -> (f64, f64) {
    let runtime = tokio_of(CORES);
    rate(|| {
        runtime.block_on(async {
            let client = reqwest::Client::new();
            let tasks = (0..CLIENTS).map(|_| requests(client.clone(), url.to_owned()));
            let tasks: Vec<_> = tasks.map(tokio::spawn).collect();
            for task in tasks {
                task.await.expect("it ends");
            }
        });
    })
}

/// The bridge's shape without doorbell: what the hand-over between two runtimes costs by itself.
fn on_two_of_tokio(url: &str) -> (f64, f64) {
    let (runtime, helper) = (tokio_of(CORES), tokio_of(1));
    rate(|| {
        runtime.block_on(async {
            let client = reqwest::Client::new();
            let task = |_| {
                let all = requests(client.clone(), url.to_owned());
                tokio::spawn(TokioContext::new(all, helper.handle().clone()))
            };
            for task in (0..CLIENTS).map(task).collect::<Vec<_>>() {
                task.await.expect("it ends");
            }
        });
    })
}

fn contestant(name: &str, url: &str) -> (f64, f64) {
    match name {
        "bridged" => on_doorbell(url, CORES, in_tasks),
        "one" => on_doorbell(url, 1, in_tasks),
        "whole" => on_doorbell(url, CORES, on_the_helper),
        "two" => on_two_of_tokio(url),
        _ => on_tokio(url),
    }
}

/// The server, in a process of its own: prints its address, and ends with its input.
fn serve() {
    let runtime = tokio::runtime::Runtime::new().expect("it starts");
    runtime.block_on(async {
        let app = axum::Router::new().route("/", axum::routing::get(|| async { "hello" }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        println!("http://{}/", listener.local_addr().expect("an address"));
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_line(&mut String::new());
            std::process::exit(0);
        });
        axum::serve(listener, app).await.expect("it serves");
    });
}

fn server() -> (Child, String) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut url = String::new();
    let out = child.stdout.take().expect("piped");
    BufReader::new(out)
        .read_line(&mut url)
        .expect("it prints its address");
    (child, url.trim().to_owned())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of both, and the median, least and greatest of their ratios.
fn show(what: &str, pairs: &[(f64, f64)]) {
    let ratios = || pairs.iter().map(|(one, other)| one / other);
    println!(
        "{what:<44} {:>9.1} {:>9.1}   {:.3} ({:.3}-{:.3})",
        median(pairs.iter().map(|pair| pair.0)),
        median(pairs.iter().map(|pair| pair.1)),
        median(ratios()),
        ratios().fold(f64::INFINITY, f64::min),
        ratios().fold(0.0, f64::max),
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", ..] => return serve(),
        ["spawn", which, ..] => {
            let runtime = if which == "plain" {
                plain()
            } else {
                bridged(1)
            };
            let _ = spawn_ns(&runtime);
            return;
        }
        ["reqwest", which, url, ..] => {
            for _ in 0..ROUNDS {
                let (rate, cpu_us) = contestant(which, url);
                println!("{which}: {rate:.0} requests/s, {cpu_us:.1} us of CPU time each");
            }
            return;
        }
        _ => {}
    }
    spawns_compared();
    requests_compared();
}

fn spawns_compared() {
    let mut spawned = Vec::new();
    for round in 0..ROUNDS {
        let (with, without) = (bridged(1), plain());
        let pair = if round % 2 == 0 {
            let without = spawn_ns(&without);
            (spawn_ns(&with), without)
        } else {
            (spawn_ns(&with), spawn_ns(&without))
        };
        spawned.push(pair);
    }
    show("spawn and poll, ns: with the bridge, without", &spawned);
}

/// Each contestant beside tokio, which runs before it in one round and after it in the next.
fn requests_compared() {
    let (_server, url) = server();
    for name in ["bridged", "one", "two", "whole"] {
        let pair = |round: usize| {
            let before = round.is_multiple_of(2).then(|| contestant("tokio", &url));
            let own = contestant(name, &url);
            (own, before.unwrap_or_else(|| contestant("tokio", &url)))
        };
        let pairs: Vec<_> = (0..ROUNDS).map(pair).collect();
        let of = |part: fn((f64, f64)) -> f64| -> Vec<(f64, f64)> {
            let pairs = pairs.iter();
            pairs.map(|pair| (part(pair.0), part(pair.1))).collect()
        };
        show(
            &format!("reqwest, requests/s: {name}, tokio"),
            &of(|it| it.0),
        );
        show(
            &format!("reqwest, CPU us a request: {name}, tokio"),
            &of(|it| it.1),
        );
    }
}
