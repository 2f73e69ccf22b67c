//! A lent wheel in the model checker: a worker that falls asleep and wakes, and a visitor.
//!
//! The worker looks at the gate without the light fence of `Gate::enter`: the checker takes that for a full fence,
//! which would stand in for the one that `Gate::take_back` makes.

// The models' own threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::gate::{Gate, Stands};
use super::{SharedGate, Wheel};
use crate::testing::model::{check, mutant};
use ::loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use ::loom::thread;
use doorbell_machine::{Line, Loom, Machine, Parker};
use std::sync::Arc;

fn parker() -> <Loom as Machine>::Parker {
    Parker::<Loom>::new()
}

/// The worker or its visitor uses the wheel.
fn touch(wheel: &Wheel<Loom, ()>) {
    // SAFETY: the models show that only one of the two does so at a time.
    unsafe { wheel.with_global(|_| ()) };
}

/// A worker uses its wheel, lends it, takes it back and uses it, while a visitor comes that enters only a lent wheel.
fn a_sleeper_that_wakes_against_a_visitor() {
    let gate: SharedGate<Loom, ()> = Arc::new(Line::new(Gate::default));
    let wheel = Wheel::new(0, Arc::clone(&gate));
    // SAFETY: the wheel stays here until it is closed.
    unsafe { wheel.begin() };
    let theirs = Arc::clone(&gate);
    let visitor = thread::spawn(move || {
        let visit = |wheel: &Wheel<Loom, ()>, stands| {
            if stands == Stands::Lent {
                touch(wheel);
            }
        };
        let _ = theirs.visit(&parker(), visit);
    });
    if !gate.is_visited() {
        touch(&wheel);
    }
    gate.lend();
    let announced = AtomicU32::new(0);
    gate.take_back(|| {
        announced.swap(1, Relaxed);
    });
    if !gate.is_visited() {
        touch(&wheel);
    }
    visitor.join().unwrap();
    wheel.close(&parker());
}

#[test]
fn a_lent_wheel_is_the_visitors_or_the_workers() {
    check(a_sleeper_that_wakes_against_a_visitor);
}

#[test]
fn mutant_take_back_no_fence() {
    mutant!(WheelTakeBackNoFence, a_sleeper_that_wakes_against_a_visitor);
}

#[test]
fn mutant_visit_no_fence() {
    mutant!(WheelVisitNoFence, a_sleeper_that_wakes_against_a_visitor);
}
