//! What the oracles of timers notice.

use super::{one_scheduler, result_of};
use crate::fuzz::machine_for;
use crate::scenario::scheduler::Workers;
use crate::scenario::timer::Sleep;
use doorbell_core::task::Kind;
use doorbell_machine::sim::{self, Config};
use doorbell_machine::{Machine, Sim};
use std::sync::Arc;

/// A timer of a worker that ends although other programs still run.
fn unfired() {
    Sim::<0>::bind_thread(&[2]).unwrap();
    let (workers, threads) = Workers::<0>::start(one_scheduler(2), Arc::default()).unwrap();
    let its = Arc::clone(&workers);
    let ends = workers.launch(1, Kind::Pinned, async move {
        Sleep::new(&its, 1, 2_000_000).await;
        its.ask_to_end(0);
    });
    // The other worker sleeps by then, so that this one's timer is armed on worker 0.
    sim::sleep(1_000_000);
    workers.wait_for(Sleep::new(&workers, 0, 5_000_000), 0);
    drop(ends);
    workers.close(threads);
}

#[test]
fn a_timer_that_ends_unfired_is_noticed() {
    let config = Config {
        machine: machine_for(3, None),
        ..Config::default()
    };
    let ended = result_of(config, unfired);
    assert_eq!(ended, Err("lost: a timer ended unfired".to_owned()));
}
