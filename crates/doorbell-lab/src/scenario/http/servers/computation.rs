//! The work of `/compute`.

use super::super::super::steps::compute;

/// An amount of work, in slices between which a handler yields.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Computation {
    slice_steps: u64,
    slices: u32,
}

impl Computation {
    /// This many steps in this many slices.
    pub(in super::super) fn new(steps: u64, slices: u32) -> Self {
        Self {
            slice_steps: steps / u64::from(slices),
            slices,
        }
    }

    /// Does it at once.
    pub(super) fn run(self) {
        compute(self.slice_steps * u64::from(self.slices));
    }

    /// Does it in a task, with a `yield_now` between two slices.
    pub(super) async fn run_in_slices<Y: Future>(self, yield_now: impl Fn() -> Y) {
        for slice in 0..self.slices {
            if slice > 0 {
                yield_now().await;
            }
            compute(self.slice_steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn it_yields_between_slices_and_not_at_the_ends() {
        for (slices, expected) in [(1, 0), (2, 1), (10, 9)] {
            let yields = Cell::new(0);
            let work = Computation::new(1_000, slices);
            let done = work.run_in_slices(|| {
                yields.set(yields.get() + 1);
                std::future::ready(())
            });
            assert_eq!(done.now_or_never(), Some(()));
            assert_eq!(yields.get(), expected, "{slices}");
        }
    }
}
