//! Real threads against the real runtime, modelled on the kernel's scftorture: calls that are awaited,
//! block, post again from inside, or are withdrawn; tasks; wakes from outside; switches turned meanwhile;
//! runtimes that come and go. At the end every count must balance.
//!
//! Limited by work, not by time: a loaded machine takes longer and passes.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests play the outside world"
)]

use doorbell::{
    Builder, CallError, CoreId, Handle, current_core,
    switches::{CallCoalesce, IdleClaim, IdleNotify, RtPush, Switches, TimerPull},
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const CORES: usize = 3;

/// Fewer under the sanitizer, which makes every step much slower.
const STEPS: u64 = if cfg!(doorbell_tsan) { 300 } else { 3_000 };

/// What was requested and what ran; equal at the end.
#[derive(Default)]
struct Counts {
    asked: AtomicU64,
    ran: AtomicU64,
    withdrawn_at_most: AtomicU64,
    wrong_core: AtomicU64,
}

impl Counts {
    fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }
    /// The body of every call: counts itself and checks its core.
    fn run(&self, core: usize) -> u64 {
        if current_core() != Some(CoreId::new(core)) {
            self.wrong_core.fetch_add(1, Ordering::Relaxed);
        }
        self.ran.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A small random generator, so that a seed repeats a failing run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// One foreign thread: a random mix of everything.
fn outside(handle: &Handle, counts: &Arc<Counts>, seed: u64) {
    let mut dice = Dice(seed | 1);
    for _ in 0..STEPS {
        let core = dice.roll(CORES as u64) as usize;
        let inside = Arc::clone(counts);
        match dice.roll(6) {
            0 | 1 => {
                counts.ask();
                // The caller sees what the callee wrote, without further ordering.
                let mut written = 0;
                handle
                    .call_blocking(core, || {
                        written = 7;
                        inside.run(core)
                    })
                    .unwrap();
                assert_eq!(written, 7);
            }
            2 => {
                counts.ask();
                let call = handle.call_on(core, move || inside.run(core));
                assert!(handle.try_block_on(call).unwrap().unwrap() > 0);
            }
            3 => {
                // From inside a call another call, which a task awaits.
                let next = (core + 1) % CORES;
                let (inner, inner_handle) = (Arc::clone(counts), handle.clone());
                counts.ask();
                counts.ask();
                let task = handle.task().on(core).spawn(async move {
                    let again = doorbell::call_on(next, move || {
                        inside.run(next);
                        inner_handle.call_on(core, move || inner.run(core))
                    });
                    again.await.unwrap().await.unwrap()
                });
                assert!(handle.try_block_on(task).unwrap().unwrap() > 0);
            }
            4 => {
                counts.withdrawn_at_most.fetch_add(1, Ordering::Relaxed);
                drop(handle.call_on(core, move || inside.run(core)));
            }
            _ => {
                let switches = Switches {
                    idle_notify: [IdleNotify::On, IdleNotify::Off, IdleNotify::AlwaysRing]
                        [dice.roll(3) as usize],
                    call_coalesce: [CallCoalesce::On, CallCoalesce::Base][dice.roll(2) as usize],
                    timer_pull: TimerPull::ALL[dice.roll(3) as usize],
                    idle_claim: IdleClaim::ALL[dice.roll(4) as usize],
                    rt_push: RtPush::ALL[dice.roll(3) as usize],
                };
                handle.set_switches(switches);
            }
        }
    }
}

fn torture(spin: Duration, seed: u64) {
    let rt = Builder::new().cores(CORES).spin(spin).build().unwrap();
    let counts = Arc::new(Counts::default());
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let (handle, counts) = (rt.handle().clone(), Arc::clone(&counts));
            std::thread::spawn(move || outside(&handle, &counts, seed + thread))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // Calls that were withdrawn too late have run or been dropped before these.
    for core in 0..CORES {
        rt.call_blocking(core, || ()).unwrap();
    }
    let (asked, ran) = (
        counts.asked.load(Ordering::Relaxed),
        counts.ran.load(Ordering::Relaxed),
    );
    let withdrawn = counts.withdrawn_at_most.load(Ordering::Relaxed);
    assert!(
        ran >= asked,
        "seed {seed}: {asked} calls were asked for, {ran} ran"
    );
    assert!(
        ran <= asked + withdrawn,
        "seed {seed}: {ran} ran of {asked}, {withdrawn} withdrawn"
    );
    assert_eq!(counts.wrong_core.load(Ordering::Relaxed), 0, "seed {seed}");
    for worker in &rt.metrics().workers {
        let c = &worker.raw();
        let ended = c.unparks_rung + c.unparks_last_test;
        assert!(
            ended <= c.parks && c.parks <= ended + 1,
            "seed {seed}: {c:?}"
        );
        // A worker that is rung between its announcement and its last look does not park at all.
        assert!(
            c.rings - c.rings_awake - c.rings_helped <= c.parks + c.parks_avoided,
            "seed {seed}: {c:?}"
        );
    }
}

#[test]
fn workers_that_spin() {
    torture(Duration::from_millis(1), 1);
}

#[test]
fn workers_that_park_at_once() {
    torture(Duration::ZERO, 100);
}

#[test]
fn workers_that_spin_as_long_as_a_wake_takes() {
    torture(Duration::from_micros(10), 1_000);
}

#[test]
fn runtimes_that_come_and_go_under_fire() {
    let rounds = if cfg!(doorbell_tsan) { 20 } else { 200 };
    for round in 0..rounds {
        let rt = Builder::new()
            .cores(2)
            .spin(Duration::ZERO)
            .build()
            .unwrap();
        let handle = rt.handle().clone();
        let caller = std::thread::spawn(move || {
            let mut done = 0u64;
            loop {
                match handle.call_blocking((done % 2) as usize, || 1) {
                    Ok(one) => done += one,
                    Err(CallError::RuntimeGone) => return,
                    Err(other) => panic!("{other}"),
                }
            }
        });
        // Ends it at a different moment in each round.
        for _ in 0..round % 7 {
            rt.call_blocking(0, || ()).unwrap();
        }
        drop(rt);
        caller.join().unwrap();
    }
}
