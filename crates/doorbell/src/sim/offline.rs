//! The fault [`Offline`](super::Fault::Offline): cores are taken off and put back.

use crate::Handle;
use crate::time::sleep;
use doorbell_machine::sim::random;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::time::Duration;

/// How often a core is taken off, at most. With an end, a program that waits for ever is found.
const TIMES: usize = 20;

/// How long a core is off, and how long all are on between: microseconds.
const PAUSE_US: std::ops::Range<u64> = 100..2_000;

/// Runs the program, and takes cores off meanwhile.
pub(super) async fn with_cores_off<T>(runtime: Handle, program: impl Future<Output = T>) -> T {
    match select(pin!(program), pin!(switch_cores(runtime))).await {
        Either::Left((output, _)) => output,
        Either::Right(((), program)) => program.await,
    }
}

async fn switch_cores(runtime: Handle) {
    for _ in 0..TIMES {
        pause().await;
        let core = (random() % runtime.cores() as u64) as usize;
        // It fails where the core is the last one that is on: the only one, or the program has taken others off.
        if runtime.core_offline(core).await.is_ok() {
            pause().await;
            let _ = runtime.core_online(core).await;
        }
    }
}

async fn pause() {
    let more_us = random() % (PAUSE_US.end - PAUSE_US.start);
    sleep(Duration::from_micros(PAUSE_US.start + more_us)).await;
}
