//! The service with and without its faults. Each fault is found by seeds, on few cores and on many.

use doorbell::sim::{self, Config, Failed, Report};
use doorbell::time::Duration;
use doorbell_simulated::{Planted, day};

fn days(planted: Planted, cores: usize, seeds: u64) -> Result<Report, Failed> {
    let config = Config::new().cores(cores).seeds(0..seeds);
    let config = config.shrink_within(Duration::ZERO);
    sim::run(config, move || day(planted, 100))
}

#[test]
fn what_64_cores_find_is_shown_on_few() {
    let config = Config::new().cores(64).seeds(0..200);
    let failed = sim::run(config, || day(Planted::LostUpdate, 100)).expect_err("a fault");
    let first = failed.first.clone().expect("a smaller run");
    assert!(first.cores == 64 && failed.cores <= 4, "{failed}");
    assert!(
        failed.to_string().contains("a request was not counted"),
        "{failed}"
    );
}

/// Some seed finds the fault on each of these numbers of cores, and the failure says this.
fn finds(planted: Planted, says: &str) {
    for cores in [2, 8, 16] {
        let failed = days(planted, cores, 200).expect_err("a fault");
        assert!(failed.to_string().contains(says), "{failed}");
    }
}

#[doorbell::test(sim, cores = 8, seeds = 0..20)]
async fn the_service_is_right() {
    day(Planted::Nothing, 100).await;
}

#[doorbell::test(
    sim,
    cores = 4,
    faults(deschedule, slow_core, offline, clock_jump, late_wakes)
)]
async fn the_service_is_right_on_a_bad_day() {
    day(Planted::Nothing, 100).await;
}

#[test]
fn an_update_that_is_lost() {
    finds(Planted::LostUpdate, "a request was not counted");
}

#[test]
fn two_locks_in_two_orders() {
    finds(Planted::TwoOrders, "every task waits");
}

#[test]
fn a_waker_that_is_registered_behind_the_look() {
    finds(Planted::LateWaker, "every task waits");
}

#[test]
fn a_timeout_that_drops_a_change_half_done() {
    finds(Planted::HalfDone, "money came or went");
}
