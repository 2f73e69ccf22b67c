//! Counts of a runtime at one moment.

use crate::{BlockingMetrics, CoreId, LaneCounts, LaneState};

/// The counts of all lanes at one moment. Counts only grow; take two and subtract with
/// [`LaneCounts::since`] to see what happened between.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// One entry per core, in the order of their numbers.
    pub lanes: Vec<LaneMetrics>,
    blocking: BlockingMetrics,
}

/// One lane at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneMetrics {
    /// Its core.
    pub core: CoreId,
    /// What it did.
    pub state: LaneState,
    /// What it and its posters had counted.
    pub counts: LaneCounts,
}

impl Metrics {
    pub(crate) fn new(lanes: impl Iterator<Item = LaneMetrics>, blocking: BlockingMetrics) -> Self {
        Metrics {
            lanes: lanes.collect(),
            blocking,
        }
    }

    /// The threads for [`spawn_blocking`](crate::spawn_blocking()), and what waits for them.
    ///
    /// ```
    /// let runtime = doorbell::Builder::new().cores(1).build()?;
    /// assert_eq!(runtime.metrics().blocking().threads, 0);
    /// # Ok::<(), doorbell::BuildError>(())
    /// ```
    pub fn blocking(&self) -> BlockingMetrics {
        self.blocking
    }
}

impl LaneMetrics {
    pub(crate) fn new(core: CoreId, state: LaneState, counts: LaneCounts) -> Self {
        LaneMetrics {
            core,
            state,
            counts,
        }
    }
}
