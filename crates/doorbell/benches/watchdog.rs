//! What it costs a sleeping worker to look after one that is inside long polls.
//!
//! In `cargo bench -p doorbell --bench watchdog` core 0 ticks every 20 ms, or computes in polls of 10 ms,
//! and core 1 is idle. It prints how many per cent of a CPU core 1's thread used, and how often the threads
//! of both cores went to sleep per second: median and extremes over spans of 200 ms. The ticking tasks may
//! have moved to core 1. `-- --json` prints the same as JSON.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a program of its own"
)]

use doorbell::{Builder, Runtime, time::sleep, yield_now};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SPAN: Duration = Duration::from_millis(200);
const SPANS: usize = 25;
const POLL: Duration = Duration::from_millis(10);
const TICK: Duration = Duration::from_millis(20);
const SLEEPERS: usize = 64;
/// Due long after the end of the benchmark, so no worker can help with it.
const FAR: Duration = Duration::from_secs(3_600);

/// The load of core 0 besides its long polls.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    /// No load, and no long polls either.
    Nothing,
    /// This many ticking tasks, and nothing else.
    Ticks(u32),
    LongPolls,
    LongPollsAndTimers,
}

const LOADS: [(&str, Load); 5] = [
    ("at rest", Load::Nothing),
    ("a tick each 20 ms", Load::Ticks(1)),
    ("two, 10 ms apart", Load::Ticks(2)),
    ("long polls", Load::LongPolls),
    ("long polls and timers", Load::LongPollsAndTimers),
];

/// The thread of a core, as listed by the OS.
fn thread_of(core: usize) -> PathBuf {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    let mut paths = threads.flatten().map(|thread| thread.path());
    let is_it = |path: &PathBuf| {
        let name = std::fs::read_to_string(path.join("comm"));
        name.is_ok_and(|name| name.trim_end() == format!("watchdog-{core}"))
    };
    paths.find(is_it).expect("a worker has a thread")
}

/// How long it ran, in ns, and how often it went to sleep.
fn used(thread: &Path) -> (u64, u64) {
    let read = |file| std::fs::read_to_string(thread.join(file)).expect("it lives");
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).expect("a number");
    let ran_ns = number(read("schedstat").split_whitespace().next());
    let status = read("status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    (ran_ns, number(line.map(str::trim)))
}

/// Ticks forever, first after `first`.
async fn ticks(first: Duration) {
    sleep(first).await;
    loop {
        sleep(TICK).await;
    }
}

/// Puts the load on core 0.
fn begin(runtime: &Runtime, load: Load, end: &Arc<AtomicBool>) {
    let end = Arc::clone(end);
    let task = runtime.task().on(0);
    drop(task.spawn(async move {
        if let Load::Ticks(tasks) = load {
            for at in 0..tasks {
                drop(doorbell::spawn(ticks(TICK / tasks * at)));
            }
            return;
        }
        if load == Load::LongPollsAndTimers {
            for _ in 0..SLEEPERS {
                drop(doorbell::spawn(sleep(FAR)));
            }
            sleep(Duration::from_millis(20)).await;
        }
        while load != Load::Nothing && !end.load(Relaxed) {
            let start = Instant::now();
            while start.elapsed() < POLL {
                std::hint::spin_loop();
            }
            yield_now().await;
        }
    }));
}

/// Per cent of a CPU and sleeps per second, for each span.
fn spans(load: Load) -> Vec<(f64, f64)> {
    let built = Builder::new().cores(2).name("watchdog").build();
    let runtime = built.expect("two cores are there");
    let end = Arc::new(AtomicBool::new(false));
    begin(&runtime, load, &end);
    std::thread::sleep(SPAN);
    let threads = [0, 1].map(thread_of);
    let used_by_both = || {
        let [(_, theirs), (ran_ns, sleeps)] = threads.each_ref().map(|thread| used(thread));
        (ran_ns, theirs + sleeps)
    };
    let mut before = used_by_both();
    let figures = (0..SPANS).map(|_| {
        let start = Instant::now();
        std::thread::sleep(SPAN);
        let (now, s) = (used_by_both(), start.elapsed().as_secs_f64());
        let figures = (
            (now.0 - before.0) as f64 / s / 1e7,
            (now.1 - before.1) as f64 / s,
        );
        before = now;
        figures
    });
    let figures = figures.collect();
    end.store(true, Relaxed);
    figures
}

fn main() {
    let json = std::env::args().any(|arg| arg == "--json");
    if !json {
        println!(
            "core 0                 CPU %  min..max       sleeps/s   ({SPANS} spans of 200 ms)"
        );
    }
    for (name, load) in LOADS {
        let (mut cpu, mut sleeps): (Vec<f64>, Vec<f64>) = spans(load).into_iter().unzip();
        cpu.sort_by(f64::total_cmp);
        sleeps.sort_by(f64::total_cmp);
        let (median, min, max) = (cpu[SPANS / 2], cpu[0], cpu[SPANS - 1]);
        let sleeps = sleeps[SPANS / 2];
        if json {
            println!(
                "{{\"load\":\"{name}\",\"cpu\":{median:.3},\"min\":{min:.3},\"max\":{max:.3},\"sleeps\":{sleeps:.0}}}"
            );
        } else {
            println!("{name:<22} {median:>5.2}  {min:.2}..{max:.2}  {sleeps:>12.0}");
        }
    }
}
