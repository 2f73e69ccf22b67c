//! What it costs to look after lanes that are inside long polls, while there are some and while there are none.
//!
//! `cargo bench -p doorbell --bench sentinel`: of each thread of a runtime of two cores per cent of a CPU, and how often
//! it went to sleep in a second; median and extremes over spans of 200 ms. With `DOORBELL_WATCHDOG=1` the runtime has a
//! watchdog, thread `watchd`, in the place of sentinels. `-- --json` prints the same for programs.

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
const SHORT: Duration = Duration::from_micros(2);
const SLEEPERS: usize = 64;
/// Due long after the end of the bench: nobody can be of use.
const FAR: Duration = Duration::from_hours(1);

/// What core 0 has besides its long polls.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    /// Not even those.
    Nothing,
    /// Not even those, and a timer each 20 ms.
    Ticks,
    LongPolls,
    LongPollsAndTimers,
    /// Short polls on both cores, some of which push a task behind themselves.
    ShortPolls,
}

const LOADS: [(&str, Load); 5] = [
    ("at rest", Load::Nothing),
    ("a timer each 20 ms", Load::Ticks),
    ("short polls", Load::ShortPolls),
    ("long polls", Load::LongPolls),
    ("long polls and timers", Load::LongPollsAndTimers),
];

/// The threads of the runtime, by what their names end with.
fn threads() -> Vec<(String, PathBuf)> {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    let paths = threads.flatten().map(|thread| thread.path());
    let named = paths.filter_map(|path| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let name = name.trim_end().strip_prefix("sentinel-")?.to_owned();
        Some((name, path))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

/// For how long it ran, in ns, and how often it went to sleep.
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

/// Puts the load on core 0.
fn begin(runtime: &Runtime, load: Load, end: &Arc<AtomicBool>) {
    if load == Load::ShortPolls {
        for _ in 0..SLEEPERS {
            let end = Arc::clone(end);
            drop(runtime.spawn(async move {
                while !end.load(Relaxed) {
                    let start = Instant::now();
                    while start.elapsed() < SHORT {
                        std::hint::spin_loop();
                    }
                    drop(doorbell::spawn(async {}));
                    yield_now().await;
                }
            }));
        }
        return;
    }
    let end = Arc::clone(end);
    let task = runtime.task().on(0);
    drop(task.spawn(async move {
        if load == Load::LongPollsAndTimers {
            for _ in 0..SLEEPERS {
                drop(doorbell::spawn(sleep(FAR)));
            }
            sleep(Duration::from_millis(20)).await;
        }
        if load == Load::Ticks {
            drop(doorbell::spawn(async {
                loop {
                    sleep(Duration::from_millis(20)).await;
                }
            }));
            return;
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

/// Of each thread per cent of a CPU and sleeps a second, of each span.
fn spans(load: Load) -> Vec<(String, Vec<(f64, f64)>)> {
    let built = Builder::new().cores(2).name("sentinel").build();
    let runtime = built.expect("two cores are there");
    let end = Arc::new(AtomicBool::new(false));
    begin(&runtime, load, &end);
    std::thread::sleep(SPAN);
    let mut all: Vec<_> = threads()
        .into_iter()
        .map(|(name, path)| (name, Vec::new(), used(&path), path))
        .collect();
    for _ in 0..SPANS {
        let start = Instant::now();
        std::thread::sleep(SPAN);
        for (_, figures, before, path) in &mut all {
            let (now, s) = (used(path), start.elapsed().as_secs_f64());
            figures.push((
                (now.0 - before.0) as f64 / s / 1e7,
                (now.1 - before.1) as f64 / s,
            ));
            *before = now;
        }
    }
    end.store(true, Relaxed);
    all.into_iter()
        .map(|(name, figures, ..)| (name, figures))
        .collect()
}

fn main() {
    let json = std::env::args().any(|arg| arg == "--json");
    if !json {
        println!(
            "load                    thread     CPU %  min..max       sleeps/s   ({SPANS} spans of 200 ms)"
        );
    }
    for (load_name, load) in LOADS {
        for (thread, spans) in spans(load) {
            let (mut cpu, mut sleeps): (Vec<f64>, Vec<f64>) = spans.into_iter().unzip();
            cpu.sort_by(f64::total_cmp);
            sleeps.sort_by(f64::total_cmp);
            let (median, min, max) = (cpu[SPANS / 2], cpu[0], cpu[SPANS - 1]);
            let sleeps = sleeps[SPANS / 2];
            if json {
                println!(
                    "{{\"load\":\"{load_name}\",\"thread\":\"{thread}\",\"cpu\":{median:.3},\"min\":{min:.3},\"max\":{max:.3},\"sleeps\":{sleeps:.0}}}"
                );
            } else {
                println!(
                    "{load_name:<23} {thread:<8} {median:>7.2}  {min:.2}..{max:.2}  {sleeps:>12.1}"
                );
            }
        }
    }
}
