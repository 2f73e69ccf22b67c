//! What a program pays for doorbell: the same rows on this computer and on a simulated machine.

use doorbell::sim::{self, Config, Failed};
use doorbell::time::{Duration, Instant, sleep};
use doorbell::{BuildError, Builder, Class, call_on, spawn, spawn_local_on, task, yield_now};
use futures::StreamExt;
use futures::channel::mpsc;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

/// Batches of operations that take less than a microsecond; the median of their means counts.
const BATCHES: u64 = 20;

/// How many operations are made, each timed alone.
const SINGLE: u64 = 60;

/// How long a core is left alone until it sleeps.
const REST: Duration = Duration::from_millis(3);

/// A row: what was timed, and its median in ns.
type Row = (&'static str, u64);

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// This computer's runtime cannot be built.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// The simulation failed.
    #[error("{0}")]
    Simulation(#[from] Failed),
}

/// The rows on this computer and on the machine of a profile, which is a name or a file, as a table with both medians and
/// their ratio; and the median error and the worst ratio.
///
/// # Errors
/// [`CostsError`]
///
/// # Panics
/// If an operation fails.
pub fn page(profile: &str) -> Result<String, CostsError> {
    let runtime = Builder::new().cores(2).build()?;
    let host = runtime.block_on(rows(3_000));
    drop(runtime);
    let measured = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&measured);
    let config = Config::new().cores(2).seeds(0..1).profile(profile);
    let program = move || {
        let measured = Arc::clone(&theirs);
        async move {
            let rows = rows(500).await;
            *measured.lock().expect("no panic") = rows;
        }
    };
    sim::run(config, program)?;
    let simulated = measured.lock().expect("no panic");
    let mut ratios = Vec::new();
    let mut text = String::from("| row, p50 ns | host | simulated | ratio |\n|---|--:|--:|--:|\n");
    for ((name, host), (_, simulated)) in host.iter().zip(simulated.iter()) {
        let ratio = *simulated as f64 / (*host).max(1) as f64;
        ratios.push(ratio);
        let _ = writeln!(text, "| {name} | {host} | {simulated} | {ratio:.2} |");
    }
    let mut errors: Vec<f64> = ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let factors = ratios.iter().map(|ratio| ratio.max(1.0 / ratio));
    let worst = factors.fold(1.0, f64::max);
    let median = 100.0 * errors[errors.len() / 2];
    let _ = writeln!(
        text,
        "\nMedian error {median:.0} %, worst ratio {worst:.1}."
    );
    Ok(text)
}

fn ns_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// The median of so many batches, each the mean of so many operations.
async fn batches(count: u64, mut operation: impl AsyncFnMut()) -> u64 {
    let mut means = Vec::new();
    for _ in 0..BATCHES {
        let begun = Instant::now();
        for _ in 0..count {
            operation().await;
        }
        means.push(ns_since(begun) / count.max(1));
    }
    median(means)
}

/// The median of operations that are timed by themselves, each after a rest of the other core.
async fn after_rests(mut operation: impl AsyncFnMut() -> u64) -> u64 {
    let mut times = Vec::new();
    for _ in 0..SINGLE {
        sleep(REST).await;
        times.push(operation().await);
    }
    median(times)
}

/// All rows, from a task on core 0 of a runtime with two cores.
async fn rows(count: u64) -> Vec<Row> {
    let all = spawn_local_on(0, move || async move {
        let mut rows = short_rows(count).await;
        rows.extend(rows_of_sleepers().await);
        rows
    });
    all.await.expect("it does not fail")
}

async fn short_rows(count: u64) -> Vec<Row> {
    let called = batches(count, async || call_on(1, || ()).await.expect("it is on")).await;
    let own = async || task().on(0).spawn(async {}).await.expect("it runs");
    let own = batches(count, own).await;
    let other = async || task().on(1).spawn(async {}).await.expect("it runs");
    let other = batches(count, other).await;
    let yields = batches(count, yield_now).await;
    let armed = batches(count, async || {
        let mut timer = std::pin::pin!(sleep(Duration::from_secs(100)));
        let _ = futures::poll!(&mut timer);
    });
    let armed = armed.await;
    let (to, mut from) = mpsc::unbounded::<()>();
    let (back, mut came) = mpsc::unbounded::<()>();
    let echo = task().on(1).spawn(async move {
        while from.next().await.is_some() {
            back.unbounded_send(()).expect("it is heard");
        }
    });
    let trips = batches(count, async || {
        to.unbounded_send(()).expect("it is heard");
        came.next().await.expect("it comes back");
    });
    let trips = trips.await;
    drop(to);
    echo.await.expect("it ends");
    let many = batches(1, async || {
        let tasks: Vec<_> = (0..1_000).map(|_| spawn(async {})).collect();
        for task in tasks {
            task.await.expect("it runs");
        }
    });
    let many = many.await / 1_000;
    vec![
        ("call_on to a spinning core", called),
        ("spawn and join on the own core", own),
        ("spawn and join on the other core", other),
        ("yield_now", yields),
        ("sleep, armed and dropped", armed),
        ("channel, to the other core and back", trips),
        ("spawn 1,000 movable tasks and join them, each", many),
    ]
}

async fn rows_of_sleepers() -> Vec<Row> {
    let called = after_rests(async || {
        let begun = Instant::now();
        call_on(1, || ()).await.expect("it is on");
        ns_since(begun)
    });
    let called = called.await;
    let late = after_rests(async || {
        let begun = Instant::now();
        sleep(Duration::from_millis(2)).await;
        ns_since(begun).saturating_sub(2_000_000)
    });
    let late = late.await;
    let until_it_runs = async |urgent: bool| {
        let begun = Instant::now();
        let task = if urgent {
            task().class(Class::rt(50))
        } else {
            task().on(1)
        };
        let ran = task.spawn(async { Instant::now() }).await;
        let after = ran.expect("it runs").duration_since(begun);
        u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)
    };
    let spawned = after_rests(async || until_it_runs(false).await).await;
    let urgent = after_rests(async || until_it_runs(true).await).await;
    vec![
        ("call_on to a sleeping core", called),
        ("sleep of 2 ms, lateness", late),
        ("spawn on a sleeping core, until it runs", spawned),
        ("spawn of class Rt, until it runs", urgent),
    ]
}
