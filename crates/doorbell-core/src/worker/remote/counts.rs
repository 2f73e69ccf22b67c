//! The counts that posters keep at the remote half of a worker.

/// Counts that posters write. Each comes with a syscall or is rare, so sharing the line is cheap.
#[derive(Debug, Default)]
pub struct RemoteCounts<C> {
    /// Wake syscalls to this worker.
    pub rings: C,
    /// Rings, counted in `rings` too, to a worker that did not need them: spinning, running, or parked and
    /// rung already. Only the switches `always_ring` and `base` make them.
    pub rings_awake: C,
    /// Rings, counted in `rings` too, in place of a notifier of a lower class that has told the worker and not
    /// yet rung it: at most two for each of that notifier's own.
    pub rings_helped: C,
    /// Posts that found the mailbox not empty and the worker parked and untold: the poster in front was
    /// between push and bell, and this one rang in its place.
    pub rings_for_stalled: C,
    /// Tasks that were left to this worker although it was chosen as idle: another task lay there already, or it had
    /// begun to run something else.
    pub stacked: C,
    /// How often the callers of tasks that came to this worker had tried another one before, which seemed idle, and
    /// lost it to a third caller.
    pub claims_lost: C,
    /// Tasks whose timers this worker fired for another one that slept or was set aside, and that it sent to an idle worker
    /// because another task waited here. The worker counts them itself.
    pub pulls_placed: C,
    /// Closures of parcels that panicked on this worker. The worker counts them itself.
    pub posts_panicked: C,
}
