//! What doorbell counts of its wakes.

use doorbell::Runtime;

/// The counts of all workers of a runtime, or what was added to them in a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WakeCounts {
    /// Wake syscalls.
    pub(super) rings: u64,
    /// Tasks that were left to a worker behind another task although that worker was chosen as idle.
    pub(super) stacked: u64,
    /// Tasks that went to another worker because another waker had won the one that seemed idle.
    pub(super) claims_lost: u64,
}

impl WakeCounts {
    /// The counts so far.
    pub(super) fn of(runtime: &Runtime) -> Self {
        let workers = runtime.metrics().workers;
        workers.iter().fold(Self::default(), |sum, worker| Self {
            rings: sum.rings + worker.counts.rings,
            stacked: sum.stacked + worker.counts.stacked,
            claims_lost: sum.claims_lost + worker.counts.claims_lost,
        })
    }

    /// What was added since `earlier`.
    fn since(self, earlier: Self) -> Self {
        Self {
            rings: self.rings - earlier.rings,
            stacked: self.stacked - earlier.stacked,
            claims_lost: self.claims_lost - earlier.claims_lost,
        }
    }

    /// The figures of what was added between two moments, in this many operations; none where nothing is counted.
    pub(super) fn figures_between(
        before: Option<Self>,
        after: Option<Self>,
        operations: u64,
    ) -> impl Iterator<Item = (&'static str, f64)> {
        let both = before.zip(after).into_iter();
        both.flat_map(move |(before, after)| after.since(before).figures(operations))
    }

    /// The figures of this many operations.
    fn figures(self, operations: u64) -> [(&'static str, f64); 3] {
        let per_op = |count: u64| count as f64 / operations.max(1) as f64;
        [
            ("rings_per_op", per_op(self.rings)),
            ("stacked_per_1k", 1_000.0 * per_op(self.stacked)),
            ("claims_lost_per_1k", 1_000.0 * per_op(self.claims_lost)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_what_was_added() {
        let before = WakeCounts {
            rings: 1,
            stacked: 2,
            claims_lost: 3,
        };
        let after = WakeCounts {
            rings: 11,
            stacked: 4,
            claims_lost: 3,
        };
        let expected = [
            ("rings_per_op", 2.5),
            ("stacked_per_1k", 500.0),
            ("claims_lost_per_1k", 0.0),
        ];
        assert_eq!(after.since(before).figures(4), expected);
    }
}
