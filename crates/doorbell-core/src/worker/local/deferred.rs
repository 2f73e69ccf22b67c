//! The deferred queue: tasks that can wait for what is ready. Those are tasks that yielded, which means that their own
//! poll woke them, and tasks whose last polls were [long](PollLength). There is none where tasks run by rank. Of the
//! groups, only the default group has one.
//!
//! They run when nothing else is ready, after a pass if the last one is old ([`Pace::is_old`]). While other tasks are
//! always ready, they get half of the worker's time (less if their polls take more than 10 ms), in slices. The next slice
//! comes when the others have run as long as the last slice took, and at least [`SLICE_NS`]. Of a poll that is first found
//! long, an eighth counts. Polls of other groups do not count. A slice lasts `SLICE_NS`, or one poll if that is longer.

use super::Local;
use crate::link::Node;
use crate::queue::{Ready, Round, Share};
use crate::task::length::PollLength;
use crate::task::queue_node::own_of;
use crate::worker::pace::{LOOK_NS, Pace, Passed, READING_NS, SLICE_NS};
use crate::worker::watch::{LONG_NS, WATCHED_NS};
use doorbell_machine::{Bug, Machine};
use std::cell::Cell;
use std::ptr::NonNull;

/// A slice counts for at most this long: the process may have been stopped meanwhile.
const SLICE_MAX_NS: u64 = 10_000_000;

/// A divisor: a poll that takes less than an eighth of what long polls took lately is not long.
const SHORTER: u64 = 8;

/// A divisor: of a poll that is first found long only an eighth counts as time of ready tasks. So where many new tasks compute,
/// most run once before those that are known for it get half of the time. If none of it counted, new tasks without end
/// would keep deferred ones waiting for ever.
const COUNTED: u64 = 8;

/// The part of the queue that only the worker touches. Movable tasks are in a queue of the remote half.
#[derive(Debug)]
pub(super) struct Deferred<M: Machine> {
    pinned: Ready<M>,
    round: Round,
    /// Length of the last slice. While nothing else is ready: length of the last deferred poll, or 0 if that took at most
    /// [`READING_NS`].
    slice_ns: Cell<u64>,
    /// Length of the last slice, or of a longer poll since that was long. It shrinks by an eighth with each poll that is
    /// short only beside it.
    lately_ns: Cell<u64>,
    /// Start of the present slice. Without a slice: when the queue began to wait for one.
    since_ns: Cell<u64>,
    /// The queue has a slice, whatever else is ready.
    has_slice: Cell<bool>,
    /// A deferred task has run since the clock was read last.
    has_run: Cell<bool>,
    /// Since the clock was read last, a task that was not known for it made a long poll.
    turned_out_long: Cell<bool>,
    /// After the last poll that was long by the clock: the time, and the worker's CPU time.
    ran: Cell<Option<(u64, u64)>>,
}

impl<M: Machine> Default for Deferred<M> {
    fn default() -> Self {
        Deferred {
            pinned: Ready::default(),
            round: Round::default(),
            slice_ns: Cell::new(0),
            lately_ns: Cell::new(0),
            since_ns: Cell::new(0),
            has_slice: Cell::new(false),
            has_run: Cell::new(false),
            turned_out_long: Cell::new(false),
            ran: Cell::new(None),
        }
    }
}

impl<M: Machine> Deferred<M> {
    /// The clock was read.
    fn note_time(&self, now_ns: u64, passed: Passed, is_empty: bool) {
        let has_run = self.has_run.replace(false);
        if self.turned_out_long.replace(false) && !self.has_slice.get() {
            let left_out_ns = passed.ns - passed.ns / COUNTED;
            self.since_ns.set(self.since_ns.get() + left_out_ns);
        }
        let since_ns = self.since_ns.get();
        match (self.has_slice.get(), has_run) {
            // The slice ends only after a deferred task has run: a stolen task goes before it.
            (true, true) if is_empty || Pace::is_over(since_ns, now_ns, SLICE_NS) => {
                self.note_slice(now_ns.saturating_sub(since_ns), now_ns);
            }
            (false, true) => {
                // Several polls between two readings are short ones.
                let is_one = passed.polls == 1 && passed.ns > READING_NS;
                self.note_slice(if is_one { passed.ns } else { 0 }, now_ns);
            }
            (false, false)
                if Pace::is_over(since_ns, now_ns, self.slice_ns.get().max(SLICE_NS)) =>
            {
                self.since_ns.set(now_ns);
                self.has_slice.set(true);
            }
            _ => {}
        }
        if is_empty {
            self.has_slice.set(false);
            self.since_ns.set(now_ns);
        }
    }

    /// A slice has ended that took so long.
    fn note_slice(&self, took_ns: u64, now_ns: u64) {
        self.slice_ns.set(took_ns.min(SLICE_MAX_NS));
        self.lately_ns.set(self.slice_ns.get());
        self.since_ns.set(now_ns);
        self.has_slice.set(false);
    }

    /// A poll of another group took so long: that is time neither of what is ready in the default group nor of what is
    /// deferred.
    fn leave_out(&self, took_ns: u64) {
        self.turned_out_long.set(false);
        self.since_ns.set(self.since_ns.get() + took_ns);
    }

    /// Whether a poll with this CPU time is long. Beside deferred tasks that compute for milliseconds, one that reads a
    /// request and wakes a handler is short, also where the system makes that dear.
    fn is_long(&self, ran_ns: u64) -> bool {
        let lately_ns = self.lately_ns.get();
        let is_long = ran_ns >= LONG_NS.max(lately_ns / SHORTER);
        if is_long {
            // Before the first deferred task has run: many new tasks may compute at once.
            self.lately_ns.set(lately_ns.max(ran_ns.min(SLICE_MAX_NS)));
        } else if ran_ns >= LONG_NS {
            // What was deferred may have ended long ago: then such a poll is long again after a few of them.
            self.lately_ns.set(lately_ns - lately_ns / SHORTER);
        }
        is_long
    }

    /// Notes the worker's CPU time. Returns how long it ran at least since `began_ns`: between the last reading and then it
    /// may have run all the time. 0 if that is not known.
    fn ran_since(&self, began_ns: u64, now_ns: u64, cpu_ns: Option<u64>) -> u64 {
        let before = self.ran.replace(cpu_ns.map(|cpu_ns| (now_ns, cpu_ns)));
        let ran = before.zip(cpu_ns).map(|((read_ns, before_ns), cpu_ns)| {
            let ran_ns = cpu_ns.saturating_sub(before_ns);
            ran_ns.saturating_sub(began_ns.saturating_sub(read_ns))
        });
        ran.unwrap_or(0)
    }

    /// The worker was idle: it had nothing to run.
    fn note_idle(&self) {
        self.slice_ns.set(0);
        self.lately_ns.set(0);
        self.has_slice.set(false);
    }
}

impl<M: Machine> Local<M> {
    /// When the worker reads the clock, and makes a pass.
    #[inline(always)]
    pub(in crate::worker) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// The worker was idle.
    pub(in crate::worker) fn note_idle(&self) {
        self.pace.note_idle();
        self.deferred.note_idle();
    }

    /// Notes what the clock shows between two polls.
    pub(in crate::worker) fn note_time(&self, now_ns: u64) {
        let passed = self.pace.read(now_ns);
        if passed.ns >= LONG_NS {
            // One round at least: the task that was long may be far behind.
            self.pace.time_polls(2 * self.queued() as u64);
        }
        self.deferred
            .note_time(now_ns, passed, self.is_deferred_empty());
    }

    /// A poll of a task of another group than the default one took so long.
    pub(in crate::worker) fn note_grouped(&self, took_ns: u64) {
        self.deferred.leave_out(took_ns);
    }

    /// Whether the queue has no task.
    #[inline]
    pub(in crate::worker) fn is_deferred_empty(&self) -> bool {
        self.deferred.pinned.is_empty() && self.remote.deferred().is_empty()
    }

    /// How many deferred tasks are pinned.
    pub(super) fn pinned_deferred(&self) -> usize {
        self.deferred.pinned.len()
    }

    /// Whether a deferred task goes before what is ready.
    #[inline]
    pub(in crate::worker) fn has_slice(&self) -> bool {
        self.deferred.has_slice.get()
            && !self.is_deferred_empty()
            && !M::breaks(Bug::DeferredStarves)
    }

    /// Whether a deferred task must wait for a pass.
    pub(in crate::worker) fn needs_pass_first(&self) -> bool {
        self.pace.is_old(self.deferred.slice_ns.get())
    }

    /// The next deferred task.
    pub(in crate::worker) fn next_deferred(&self) -> Option<NonNull<Node<M>>> {
        let (pinned, queue) = (&self.deferred.pinned, self.remote.deferred());
        // SAFETY: this worker owns its remote half's queues.
        let pop = || unsafe { self.pop_own(queue) };
        let (next, _) = self.deferred.round.pop(pinned, || queue.len(), pop)?;
        self.deferred.has_run.set(true);
        if self.deferred.has_slice.get() || self.deferred.slice_ns.get() > 0 {
            // A slice ends by time. Without one the next poll may be as long as the last: tiny polls of ready tasks,
            // after which the clock is read seldom, say nothing of it.
            self.pace.hasten();
        }
        Some(next)
    }

    /// Defers a task. No poll is under way.
    ///
    /// # Safety
    /// As for [`Local::push`], or for [`Ready::push`] if it is pinned.
    pub(in crate::worker) unsafe fn defer(&self, node: NonNull<Node<M>>, is_pinned: bool) {
        if is_pinned {
            // SAFETY: passed on.
            return unsafe { self.deferred.pinned.push(node) };
        }
        // SAFETY: passed on; this worker owns its remote half's queues.
        let len = unsafe { self.remote.deferred().push(node, Share::Surplus) };
        self.list();
        self.leave_between_polls(self.remote.deferred(), len);
    }

    /// Puts a task that was taken from a queue into the deferred queue if its polls are long. Returns whether it did.
    #[inline]
    pub(in crate::worker) fn defers(&self, node: NonNull<Node<M>>, is_pinned: bool) -> bool {
        // SAFETY: only nodes of tasks are in the queues, and it is alive.
        let own = unsafe { own_of(node) };
        let is_long = own.is_some_and(|task| task.length().is_long());
        if is_long {
            // SAFETY: taken out of a queue of that kind, on this worker's thread.
            unsafe { self.defer(node, is_pinned) };
        }
        is_long
    }

    /// Calls `poll`, which polls a task that this worker took by its own node, and returns what it made of the task's
    /// `length`.
    #[inline(always)]
    pub(in crate::worker) fn measured<R>(
        &self,
        length: PollLength,
        poll: impl FnOnce() -> R,
    ) -> (R, PollLength) {
        if length.is_measured() {
            return self.measured_by_cpu(length, poll);
        }
        let result = poll();
        let Some(began_ns) = self.pace.began_ns() else {
            return (result, length);
        };
        let took_ns = M::now_ns_unordered().saturating_sub(began_ns);
        if took_ns < LONG_NS {
            return (result, length);
        }
        (result, self.judged(length, began_ns, took_ns))
    }

    /// After a poll that was long by the clock, of a task that was not known for it. While others compute, the CPU time that
    /// was read after one of their polls tells whether this one computed too.
    #[cold]
    fn judged(&self, length: PollLength, began_ns: u64, took_ns: u64) -> PollLength {
        let (now_ns, cpu_ns) = (began_ns + took_ns, self.remote.cpu_time_ns());
        let ran_ns = self.deferred.ran_since(began_ns, now_ns, cpu_ns);
        let length = if self.deferred.is_long(ran_ns) {
            self.deferred.turned_out_long.set(true);
            PollLength::long()
        } else {
            length.suspected()
        };
        length.watched(took_ns >= WATCHED_NS)
    }

    #[cold]
    fn measured_by_cpu<R>(&self, length: PollLength, poll: impl FnOnce() -> R) -> (R, PollLength) {
        if length.is_watched() {
            self.begin_long_poll();
        }
        let from_ns = M::now_ns_unordered();
        let ran_before_ns = self.remote.cpu_time_ns();
        let result = poll();
        self.remote.set_expects_long(false);
        let took_ns = M::now_ns_unordered().saturating_sub(from_ns);
        if took_ns < LONG_NS {
            return (result, length.short());
        }
        let ran_after_ns = self.remote.cpu_time_ns();
        let now_ns = from_ns.saturating_add(took_ns);
        let _ = self.deferred.ran_since(from_ns, now_ns, ran_after_ns);
        let ran_ns = ran_after_ns
            .zip(ran_before_ns)
            .map(|(after_ns, before_ns)| after_ns.saturating_sub(before_ns));
        let is_long = ran_ns.is_none_or(|ran_ns| self.deferred.is_long(ran_ns));
        let length = if is_long {
            PollLength::long()
        } else {
            length.short()
        };
        (result, length.watched(took_ns >= WATCHED_NS))
    }
}

const _: () = assert!(LONG_NS >= LOOK_NS && SLICE_NS <= LOOK_NS);

#[cfg(test)]
mod tests {
    use super::{Deferred, LONG_NS, Passed, READING_NS, SLICE_MAX_NS, SLICE_NS};
    use doorbell_machine::Host;

    /// A connection beside tasks that compute for 10 ms: its polls are short only beside theirs.
    #[test]
    fn w35_polls_that_are_short_beside_a_slice_do_not_bring_the_next_slice_sooner() {
        let deferred = Deferred::<Host>::default();
        deferred.note_slice(SLICE_MAX_NS, 0);
        let short = (0..64).take_while(|_| !deferred.is_long(LONG_NS)).count();
        assert!((8..64).contains(&short), "{short}");
        let polls = SLICE_MAX_NS / LONG_NS;
        for now_ns in (1..=polls).map(|poll| poll * LONG_NS) {
            assert!(!deferred.has_slice.get(), "{now_ns}");
            let (ns, polls) = (LONG_NS, 1);
            deferred.note_time(now_ns, Passed { ns, polls }, false);
        }
        assert!(deferred.has_slice.get());
    }

    /// Many new tasks compute, and none has been deferred yet. A connection beside them whose first poll is not tiny.
    #[test]
    fn w44_a_poll_is_short_beside_long_ones_of_new_tasks() {
        let deferred = Deferred::<Host>::default();
        assert!(deferred.is_long(SLICE_MAX_NS / 2));
        assert!(!deferred.is_long(2 * LONG_NS));
    }

    /// Many new tasks compute, and one that is known for it waits for a slice.
    #[test]
    fn w46_new_tasks_that_compute_go_before_what_is_deferred_eight_times() {
        let deferred = Deferred::<Host>::default();
        let (ns, polls) = (5 * LONG_NS, 1);
        deferred.note_slice(ns, 0);
        let mut ran = 0;
        while !deferred.has_slice.get() {
            ran += 1;
            deferred.turned_out_long.set(true);
            deferred.note_time(ran * ns, Passed { ns, polls }, false);
        }
        assert_eq!(ran, 8);
    }

    /// A stolen task goes before it, and may take longer.
    #[test]
    fn a_slice_does_not_end_before_a_deferred_task_has_run() {
        let deferred = Deferred::<Host>::default();
        deferred.has_slice.set(true);
        let (ns, polls) = (2 * SLICE_NS, 1);
        deferred.note_time(ns, Passed { ns, polls }, false);
        assert!(deferred.has_slice.get());
        deferred.has_run.set(true);
        deferred.note_time(ns + 1, Passed { ns: 1, polls }, false);
        assert!(!deferred.has_slice.get());
    }

    /// A poll of another group computes, and is first found long.
    #[test]
    fn polls_of_other_groups_count_for_neither_side() {
        let deferred = Deferred::<Host>::default();
        let (ns, polls) = (5 * LONG_NS, 1);
        deferred.note_slice(ns, 0);
        for poll in 1..=10 {
            deferred.turned_out_long.set(true);
            deferred.leave_out(ns);
            deferred.note_time(poll * ns, Passed { ns, polls }, false);
            assert_eq!(deferred.since_ns.get(), poll * ns);
        }
        assert!(!deferred.has_slice.get());
    }

    /// In its slice a deferred task computes that was not known for it: it yielded.
    #[test]
    fn a_slice_counts_whole_also_if_its_poll_turns_out_to_be_long() {
        let deferred = Deferred::<Host>::default();
        deferred.has_slice.set(true);
        deferred.has_run.set(true);
        deferred.turned_out_long.set(true);
        let (ns, polls) = (5 * LONG_NS, 1);
        deferred.note_time(ns, Passed { ns, polls }, false);
        assert_eq!(deferred.slice_ns.get(), ns);
    }

    /// Nothing else is ready. A task that comes after many tiny deferred polls waits for no slice as long as all of them.
    #[test]
    fn several_deferred_polls_between_two_readings_are_short_ones() {
        for (polls, slice_ns) in [(1, 2 * READING_NS), (8, 0)] {
            let deferred = Deferred::<Host>::default();
            deferred.has_run.set(true);
            let ns = 2 * READING_NS;
            deferred.note_time(ns, Passed { ns, polls }, false);
            assert_eq!(deferred.slice_ns.get(), slice_ns, "{polls}");
        }
    }

    /// A task yields now and then beside others that are always ready, long after a deferred one computed.
    #[test]
    fn w40_a_short_slice_that_leaves_nothing_deferred_is_followed_soon() {
        let deferred = Deferred::<Host>::default();
        deferred.note_slice(SLICE_MAX_NS, 0);
        let mut now_ns = 0;
        let mut waits = |deferred: &Deferred<Host>| {
            let (from_ns, step) = (
                now_ns,
                Passed {
                    ns: READING_NS,
                    polls: 1,
                },
            );
            while !deferred.has_slice.get() {
                now_ns += READING_NS;
                deferred.note_time(now_ns, step, false);
            }
            let waited_ns = now_ns - from_ns;
            now_ns += READING_NS;
            deferred.has_run.set(true);
            deferred.note_time(now_ns, step, true);
            waited_ns
        };
        assert!(
            waits(&deferred) >= SLICE_MAX_NS,
            "the last slice was that long"
        );
        let waited_ns = waits(&deferred);
        assert!(waited_ns <= SLICE_NS + READING_NS, "{waited_ns}");
        deferred.note_idle();
        assert!(deferred.is_long(LONG_NS), "nothing is known any more");
    }
}
