//! What posters count at the remote half of a worker.

/// Counts that posters write; each comes with a syscall or is rare, so sharing it is cheap.
#[derive(Debug, Default)]
pub struct RemoteCounts<C> {
    /// Wake syscalls to this worker.
    pub rings: C,
    /// Of those, the ones to a worker that did not need it: spinning, running, or parked and rung
    /// already (only the switches `always_ring` and `base` make them).
    pub rings_awake: C,
    /// Of all, those in place of a thread of a lower class, which has told the worker and was about to
    /// ring it: at most two for each of its.
    pub rings_helped: C,
    /// Posts that found the mailbox non-empty, the worker parked and nobody having told it: the
    /// poster in front was between push and bell, and this one rang in its place.
    pub rings_for_stalled: C,
    /// Closures that nobody waited for and that panicked on this worker, which counts them.
    pub posts_panicked: C,
}
