//! Runtimes come and go; afterwards threads, descriptors and memory are as before.
//!
//! A test binary of its own: it counts the resources of the whole process, so its only test runs alone.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::cast_possible_wrap,
    reason = "tests play the outside world"
)]

mod counting;

use doorbell::{Builder, Class, Runtime, SpawnError};
use std::time::{Duration, Instant};

/// Fewer under the sanitizer, which makes every step much slower.
const IN_A_ROW: usize = if cfg!(doorbell_tsan) { 50 } else { 1_000 };

/// How many runtimes at once, and how often.
const AT_ONCE: usize = 16;
const TIMES: usize = 10;

/// The resources of the process.
#[derive(Clone, Copy, Debug)]
struct Has {
    threads: usize,
    descriptors: usize,
    blocks: i64,
    bytes: i64,
}

impl Has {
    fn now() -> Has {
        let entries = |path| std::fs::read_dir(path).unwrap().count();
        let (blocks, bytes) = counting::live();
        Has {
            threads: entries("/proc/self/task"),
            descriptors: entries("/proc/self/fd"),
            blocks,
            bytes,
        }
    }
}

/// Waits until the process has what it had: a joined thread leaves /proc a moment later, with its
/// resources. The bound only keeps a leak from hanging the test.
fn wait_for(before: Has) {
    let start = Instant::now();
    loop {
        let now = Has::now();
        let same = now.threads == before.threads
            && now.descriptors == before.descriptors
            // What std and the test harness keep may grow a little, once. A leak of one block per runtime
            // is far more, and so is a double free.
            && (now.blocks - before.blocks).abs() <= 8
            && (now.bytes - before.bytes).abs() <= 4_096;
        if same {
            return;
        }
        let waited = start.elapsed();
        assert!(waited.as_secs() < 60, "{before:?} before, {now:?} after");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn build() -> Runtime {
    let builder = Builder::new().cores(2).name("leaks");
    builder.spin(Duration::ZERO).build().unwrap()
}

/// Uses everything a little. What is unfinished when the runtime ends is cancelled.
fn use_it(rt: &Runtime) {
    rt.block_on(async {
        doorbell::time::sleep(Duration::from_micros(10)).await;
        doorbell::spawn(async { doorbell::yield_now().await })
            .await
            .unwrap();
        doorbell::call_on(1, || ()).await.unwrap();
        doorbell::call_all(doorbell::CoreId::index).await.unwrap();
    });
    rt.call_blocking(0, || ()).unwrap();
    rt.post_on(1, || ()).unwrap();
    drop(rt.spawn(std::future::pending::<()>()));
    drop(rt.spawn(doorbell::time::sleep(Duration::from_secs(3_600))));
    drop(rt.task().on(0).spawn(async {
        loop {
            doorbell::yield_now().await;
        }
    }));
}

/// Another thread opens all that it can while the runtime ends, and once more after that.
fn open_at_the_end() {
    let rt = build();
    let handle = rt.handle().clone();
    let opens = move || {
        // Each may come too late.
        let _ = (
            handle.open_class(Class::rt(1)),
            handle.open_class(Class::BATCH),
        );
        handle
    };
    let opener = std::thread::spawn(opens);
    drop(rt);
    let handle = opener.join().unwrap();
    assert_eq!(
        handle.open_class(Class::rt(1)),
        Err(SpawnError::RuntimeGone)
    );
}

#[test]
fn a_thousand_runtimes_leave_nothing() {
    // What is created once, by the first of all, stays.
    for _ in 0..3 {
        use_it(&build());
    }
    let warm: Vec<_> = (0..AT_ONCE).map(|_| build()).collect();
    drop(warm);
    std::thread::sleep(Duration::from_millis(50));
    let before = Has::now();
    let allocated = counting::allocations();

    for _ in 0..IN_A_ROW {
        use_it(&build());
    }
    wait_for(before);
    // Checks the counts themselves: each runtime allocates.
    let allocated = counting::allocations() - allocated;
    let each = allocated / IN_A_ROW as u64;
    assert!((10..100_000).contains(&each), "{each} for each");

    for _ in 0..IN_A_ROW / 5 {
        open_at_the_end();
    }
    wait_for(before);

    for _ in 0..TIMES {
        let many: Vec<_> = (0..AT_ONCE).map(|_| build()).collect();
        many.iter().for_each(use_it);
        let during = Has::now();
        // Two workers each. Threads of earlier runtimes may still be ending.
        let workers = before.threads + 2 * AT_ONCE;
        assert!(
            (workers..=3 * workers).contains(&during.threads),
            "{during:?}"
        );
        assert!(during.blocks > before.blocks + AT_ONCE as i64, "{during:?}");
        drop(many);
    }
    wait_for(before);
}
