//! The shares that groups of weights 100, 200 and 700 get of two cores, in spans of 100 ms.
//!
//! In `cargo bench -p doorbell --bench shares` each group has more computing tasks than there are cores. It
//! prints the median and extremes of the shares over all spans, in per cent of the time that all groups
//! got. `-- --json` prints the same as JSON.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a program of its own"
)]

use doorbell::{Builder, Group, Runtime, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const CORES: usize = 2;
const WEIGHTS: [u32; 3] = [100, 200, 700];
const TASKS_EACH: usize = 6;
const POLL: Duration = Duration::from_micros(50);
const SPAN: Duration = Duration::from_millis(100);
const SPANS: usize = 30;

/// Computes in polls of fixed length, and adds up their time.
async fn compute(worked_ns: Arc<AtomicU64>, end: Arc<AtomicBool>) {
    while !end.load(Relaxed) {
        let start = Instant::now();
        while start.elapsed() < POLL {
            std::hint::spin_loop();
        }
        worked_ns.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
        yield_now().await;
    }
}

/// The shares of each span, in per cent.
fn spans(runtime: &Runtime) -> Vec<[f64; WEIGHTS.len()]> {
    let end = Arc::new(AtomicBool::new(false));
    let worked: [Arc<AtomicU64>; WEIGHTS.len()] = Default::default();
    let mut tasks = Vec::new();
    for (weight, worked) in WEIGHTS.iter().zip(&worked) {
        let group = Group::new(*weight);
        for _ in 0..TASKS_EACH {
            let work = compute(Arc::clone(worked), Arc::clone(&end));
            tasks.push(runtime.task().group(&group).spawn(work));
        }
    }
    let read = || worked.each_ref().map(|worked| worked.load(Relaxed));
    std::thread::sleep(SPAN);
    let mut before = read();
    let parts = (0..SPANS).map(|_| {
        std::thread::sleep(SPAN);
        let now = read();
        let took: [u64; WEIGHTS.len()] = std::array::from_fn(|at| now[at] - before[at]);
        before = now;
        let all: u64 = took.iter().sum();
        took.map(|took| took as f64 * 100.0 / all.max(1) as f64)
    });
    let parts = parts.collect();
    end.store(true, Relaxed);
    for task in tasks {
        runtime.block_on(task).expect("it ends");
    }
    parts
}

fn main() {
    let json = std::env::args().any(|arg| arg == "--json");
    let built = Builder::new().cores(CORES).build();
    let spans = spans(&built.expect("two cores are there"));
    let all: u32 = WEIGHTS.iter().sum();
    if !json {
        println!(
            "weight  due %  median %  min %  max %   ({CORES} cores, {SPANS} spans of 100 ms)"
        );
    }
    for (at, weight) in WEIGHTS.iter().enumerate() {
        let mut parts: Vec<f64> = spans.iter().map(|parts| parts[at]).collect();
        parts.sort_by(f64::total_cmp);
        let due = f64::from(*weight) * 100.0 / f64::from(all);
        let (median, min, max) = (parts[SPANS / 2], parts[0], parts[SPANS - 1]);
        if json {
            println!(
                "{{\"weight\":{weight},\"due\":{due},\"median\":{median:.2},\"min\":{min:.2},\"max\":{max:.2}}}"
            );
        } else {
            println!("{weight:>6}  {due:>5.1}  {median:>8.2}  {min:>5.2}  {max:>5.2}");
        }
    }
}
