//! A parker with the word on which its thread parks.

use super::{run, spawn};
use crate::sim::{self, Config, Outcome, Sim, work};
use crate::{Machine, Ordering, ParkEnd, Parker, ThreadHandle, Word};
use std::iter::StepBy;
use std::ops::Range;
use std::sync::Arc;

pub(super) type U32 = <Sim as Machine>::U32;
pub(super) type Place = (U32, sim::SimParker);

pub(super) fn place() -> Arc<Place> {
    Arc::new((U32::new(0), <sim::SimParker as Parker<Sim>>::new()))
}

pub(super) fn park(place: &Place, seen: u32, until_ns: Option<u64>) -> ParkEnd {
    Parker::<Sim>::park(&place.1, &place.0, seen, until_ns)
}

pub(super) fn ring(place: &Place) {
    Parker::<Sim>::ring(&place.1, &place.0);
}

/// Every moment around the falling asleep of [`ring_at`].
pub(super) fn ring_moments_ns() -> StepBy<Range<u64>> {
    (20_000..24_000).step_by(20)
}

/// A thread parks until the word has changed. At `at_ns` another thread changes the word and rings.
pub(super) fn ring_at(config: Config, at_ns: u64) -> Outcome {
    run(config, move || {
        let place = place();
        let sleeper = Arc::clone(&place);
        let thread = spawn(1, move || {
            while sleeper.0.load(Ordering::Acquire) == 0 {
                let _ = park(&sleeper, 0, None);
            }
        });
        work(at_ns - sim::time_ns());
        place.0.store(1, Ordering::Release);
        ring(&place);
        thread.join().unwrap();
    })
}
