//! Tests that run async programs on simulated cores, by `#[doorbell::test(sim)]`. This is how a crate uses the feature
//! `sim` of doorbell: as a dependency of its tests.
