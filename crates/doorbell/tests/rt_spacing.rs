//! How often urgent lanes look at their descriptors under a flood.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::net::UnixStream;
use doorbell::{BuildError, Builder, Class, ClassKind, Policy, Runtime};
use std::io::Write;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// What came of a flood.
struct Came {
    /// Bytes that urgent tasks have read, each an event.
    read: u64,
    looks_put_off: u64,
    /// Of those, the ones that came sooner.
    looks_ushered: u64,
    took: Duration,
}

impl Came {
    fn until_some_are_put_off(&self) -> bool {
        assert!(self.took < Duration::from_mins(1), "none is put off");
        self.looks_put_off >= 20
    }

    fn until_one_is_ushered(&self) -> bool {
        assert!(self.took < Duration::from_mins(1), "none is ushered");
        self.looks_ushered > 0
    }
}

/// Whether the urgent lanes go before all other threads here.
fn goes_first(runtime: &Runtime) -> bool {
    let policies = runtime.policies();
    let urgent = policies.iter().find(|lane| lane.class() == ClassKind::Rt);
    matches!(urgent.unwrap().got(), Some(Policy::Fifo { .. }))
}

/// Floods an urgent lane until this holds; `None` where that is an ordinary thread.
fn flood(builder: Builder, is_enough: impl Fn(&Came) -> bool) -> Option<Came> {
    const SOCKETS: usize = 16;
    let began = Instant::now();
    let runtime = builder.cores(1).build().unwrap();
    // What a lane has obtained is known once it has begun.
    let begun = runtime.task().class(Class::rt(50)).on(0).spawn(async {});
    runtime.block_on(begun).unwrap();
    let read = Arc::new(AtomicU64::new(0));
    let mut writers = Vec::new();
    let mut readers = Vec::new();
    for _ in 0..SOCKETS {
        let (ours, theirs) = StdStream::pair().unwrap();
        writers.push(theirs);
        let read = Arc::clone(&read);
        readers.push(runtime.task().class(Class::rt(50)).on(0).spawn(async move {
            let ours = UnixStream::from_std(ours).unwrap();
            while ours.read(&mut [0]).await.unwrap() > 0 {
                read.fetch_add(1, SeqCst);
            }
        }));
    }
    let came = || {
        let lanes = runtime.metrics().lanes;
        let urgent = lanes.iter().find(|lane| lane.class == ClassKind::Rt);
        let counts = urgent.unwrap().counts;
        Came {
            read: read.load(SeqCst),
            looks_put_off: counts.looks_put_off,
            looks_ushered: counts.looks_ushered,
            took: began.elapsed(),
        }
    };
    let first = goes_first(&runtime);
    // An ordinary thread is flooded for a while, and puts nothing off.
    let is_over = |came: &Came| {
        if first {
            is_enough(came)
        } else {
            came.read >= 20_000
        }
    };
    let mut last = came();
    while !is_over(&last) {
        // Each in its turn, so that every byte is an event.
        for writer in &mut writers {
            writer.write_all(&[1]).unwrap();
        }
        last = came();
    }
    drop(writers);
    for reader in readers {
        runtime.block_on(reader).unwrap();
    }
    if first {
        return Some(last);
    }
    assert_eq!(last.looks_put_off, 0, "the OS shares the CPU");
    println!("nothing more is tested: it takes the privilege of SCHED_FIFO");
    None
}

#[test]
fn with_a_spacing_of_zero_an_urgent_lane_puts_no_look_off() {
    let Some(unless_told) = flood(Builder::new(), Came::until_some_are_put_off) else {
        return;
    };
    let enough = 4 * unless_told.read.max(5_000);
    let off = Builder::new().rt_spacing(Duration::ZERO);
    let came = flood(off, |came| came.read >= enough).expect("as before");
    assert_eq!(came.looks_put_off, 0, "of {} events", came.read);
}

#[test]
fn looks_that_are_put_off_are_as_far_apart_as_was_asked_for() {
    let spacing = Duration::from_millis(3);
    let told = Builder::new().rt_spacing(spacing);
    let Some(came) = flood(told, Came::until_some_are_put_off) else {
        return;
    };
    // The others are as near as nobody else wants the CPU.
    let looks = u32::try_from(came.looks_put_off.saturating_sub(came.looks_ushered)).unwrap();
    assert!(spacing * looks <= came.took + spacing, "{looks} looks");
}

#[test]
fn a_spacing_that_is_too_long_is_refused() {
    for asked in [Duration::from_micros(10_001), Duration::from_secs(10)] {
        let refused = Builder::new().cores(1).rt_spacing(asked).build();
        let error = refused.expect_err("it is too long");
        assert!(matches!(error, BuildError::RtSpacing { asked: it } if it == asked));
    }
    let most = Duration::from_millis(10);
    drop(Builder::new().cores(1).rt_spacing(most).build().unwrap());
}

#[test]
fn a_look_is_not_put_off_while_nobody_else_wants_the_cpu() {
    let told = Builder::new().rt_spacing(Duration::from_millis(10));
    // It fails by its own limit of time.
    let _ = flood(told, Came::until_one_is_ushered);
}
