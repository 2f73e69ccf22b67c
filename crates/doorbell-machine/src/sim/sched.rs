//! The simulated OS's scheduler: which thread a CPU runs.

use super::config::EventKind;
use super::faults::Mask;
use super::lines::NOBODY;
use super::queue::{Due, What};
use super::thread::{Doing, Wait, Why};
use super::world::World;
use crate::Policy;

/// The weight of a thread at nice 0.
const WEIGHT: u64 = 1_024;

impl Policy {
    /// Orders the policies: `Fifo` above `Other` above `Idle`.
    fn rank(self) -> u16 {
        match self {
            Policy::Fifo { priority } => 2 + u16::from(priority),
            Policy::Other { .. } => 1,
            Policy::Idle => 0,
        }
    }

    fn is_fifo(self) -> bool {
        matches!(self, Policy::Fifo { .. })
    }

    /// The weight in the sharing of CPU time. Each step of nice changes it by a quarter. `Idle` has Linux's
    /// weight.
    fn weight(self) -> u64 {
        match self {
            Policy::Fifo { .. } => WEIGHT,
            Policy::Other { nice, .. } if nice < 0 => {
                (0..-nice).fold(WEIGHT, |weight, _| weight * 5 / 4)
            }
            Policy::Other { nice, .. } => (0..nice).fold(WEIGHT, |weight, _| weight * 4 / 5),
            Policy::Idle => 3,
        }
    }

    fn slice_ns(self, machine_ns: u64) -> u64 {
        match self {
            Policy::Other {
                slice_ns: Some(slice_ns),
                ..
            } => slice_ns.max(1),
            _ => machine_ns,
        }
    }
}

/// How much CPU time a thread has had, weighed: in ns of a thread at nice 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    had_ns: u64,
    /// The weighed time by which it should have had its next slice.
    due_ns: u64,
}

/// One CPU.
#[derive(Debug)]
pub(super) struct Cpu {
    /// Its thread; `NOBODY` while it idles.
    pub(super) current: u32,
    /// The thread that it ran last.
    last: u32,
    /// When its thread goes on; `u64::MAX` while it idles.
    pub(super) resume_ns: u64,
    /// Until when it switches to its thread.
    switches_until_ns: u64,
    /// When it began to idle.
    idle_from_ns: u64,
    /// Incremented to make the scheduled `What::Cpu` void.
    pub(super) turn: u32,
    /// Incremented by each dispatch, so that the end of an older slice is void.
    slice_turn: u32,
    slice_from_ns: u64,
    slice_armed: bool,
    /// Until when the time of its thread is accounted.
    accounted_ns: u64,
    ready: Vec<u32>,
    least_ns: u64,
    /// How long everything takes here in per cent, by a fault.
    pub(super) slow_percent: u64,
    /// The same with the effect of busy SMT siblings.
    pub(super) percent: u64,
    /// It runs a thread that does not spin on a line.
    pub(super) is_busy: bool,
    pub(super) mask: Mask,
    /// How many threads are assigned to it.
    pub(super) threads: u32,
}

impl Default for Cpu {
    fn default() -> Self {
        Cpu {
            current: NOBODY,
            last: NOBODY,
            resume_ns: u64::MAX,
            switches_until_ns: 0,
            idle_from_ns: 0,
            turn: 0,
            slice_turn: 0,
            slice_from_ns: 0,
            slice_armed: false,
            accounted_ns: 0,
            ready: Vec::new(),
            least_ns: 0,
            slow_percent: 100,
            percent: 100,
            is_busy: false,
            mask: Mask::default(),
            threads: 0,
        }
    }
}

impl World {
    fn weighed(&self, thread: u32, ns: u64) -> u64 {
        let weight = self.threads[thread as usize].policy.weight();
        (u128::from(ns) * u128::from(WEIGHT) / u128::from(weight)) as u64
    }

    fn slice_ns(&self, thread: u32) -> u64 {
        let policy = self.threads[thread as usize].policy;
        policy.slice_ns(self.config.machine.slice_ns)
    }

    fn renew_due(&mut self, thread: u32) {
        let slice = self.weighed(thread, self.slice_ns(thread));
        let share = &mut self.threads[thread as usize].share;
        share.due_ns = share.had_ns.saturating_add(slice);
    }

    /// Accounts for the time that a CPU's thread has run until now.
    fn account(&mut self, cpu: u32, now_ns: u64) {
        let state = &mut self.cpus[cpu as usize];
        let (current, from_ns) = (state.current, state.accounted_ns);
        state.accounted_ns = now_ns;
        if current != NOBODY {
            let ran_ns = now_ns.saturating_sub(from_ns);
            let had_ns = self.weighed(current, ran_ns);
            let it = &mut self.threads[current as usize];
            it.share.had_ns = it.share.had_ns.saturating_add(had_ns);
            it.ran_ns = it.ran_ns.saturating_add(ran_ns);
        }
    }

    /// The CPU time that a thread has used until now; `None` if there is no such thread.
    pub(super) fn ran_ns(&self, thread: u32) -> Option<u64> {
        let it = self.threads.get(thread as usize)?;
        let cpu = &self.cpus[it.cpu as usize];
        let since_ns = if cpu.current == thread {
            self.now_ns.saturating_sub(cpu.accounted_ns)
        } else {
            0
        };
        Some(it.ran_ns.saturating_add(since_ns))
    }

    /// Makes a thread that waited ready. The caller must reschedule its CPU.
    pub(super) fn join_ready(&mut self, due: Due) {
        let thread = due.of;
        let cpu = self.threads[thread as usize].cpu;
        let least_ns = self.cpus[cpu as usize].least_ns;
        let it = &mut self.threads[thread as usize];
        match due.what {
            What::Deadline => it.why = Why::Deadline,
            What::Spurious => it.why = Why::Nothing,
            _ => {}
        }
        it.turn = it.turn.wrapping_add(1);
        it.doing = Doing::Ready;
        it.until_clock_ns = None;
        it.share.had_ns = it.share.had_ns.max(least_ns);
        self.renew_due(thread);
        self.cpus[cpu as usize].ready.push(thread);
    }

    /// Gives a CPU to the thread that should have it, after its ready threads have changed.
    pub(super) fn reschedule(&mut self, cpu: u32, now_ns: u64) {
        let current = self.cpus[cpu as usize].current;
        if current == NOBODY {
            return self.dispatch(cpu, now_ns);
        }
        let Some(at) = self.best(cpu) else { return };
        let candidate = self.cpus[cpu as usize].ready[at];
        self.account(cpu, now_ns);
        if self.beats(candidate, current) {
            self.preempt(cpu, now_ns);
            self.dispatch(cpu, now_ns);
        } else {
            self.arm_slice(cpu, now_ns);
        }
    }

    /// Whether a ready thread takes the CPU from the one that runs.
    fn beats(&self, candidate: u32, current: u32) -> bool {
        let (new, old) = (
            &self.threads[candidate as usize],
            &self.threads[current as usize],
        );
        if new.policy.rank() != old.policy.rank() || new.policy.is_fifo() {
            return new.policy.rank() > old.policy.rank();
        }
        new.share.due_ns < old.share.due_ns
    }

    /// The index of the ready thread that is next.
    fn best(&self, cpu: u32) -> Option<usize> {
        let ready = &self.cpus[cpu as usize].ready;
        let rank = |at: usize| self.threads[ready[at] as usize].policy.rank();
        let highest = (0..ready.len()).map(rank).max()?;
        let mut of_rank = (0..ready.len()).filter(|at| rank(*at) == highest);
        if highest > 1 {
            return of_rank.next();
        }
        of_rank.min_by_key(|at| self.threads[ready[*at] as usize].share.due_ns)
    }

    /// Takes a CPU from its thread, which stays ready.
    fn preempt(&mut self, cpu: u32, now_ns: u64) {
        let state = &mut self.cpus[cpu as usize];
        let current = std::mem::replace(&mut state.current, NOBODY);
        // A switch that is not over is no part of the step: the next one begins anew.
        let from_ns = now_ns.max(state.switches_until_ns);
        let left_ns = state.resume_ns.saturating_sub(from_ns);
        state.turn = state.turn.wrapping_add(1);
        self.record(now_ns, cpu, current, EventKind::Preempt, 0);
        self.flush_of(current);
        if self.threads[current as usize].doing == Doing::Spins {
            self.end_spinner(current);
        } else {
            // The rest of the step that the thread is in.
            let left_ns = self.off_cpu(cpu, left_ns);
            self.threads[current as usize].left_ns = left_ns;
        }
        let it = &mut self.threads[current as usize];
        it.turn = it.turn.wrapping_add(1);
        it.doing = Doing::Ready;
        let ready = &mut self.cpus[cpu as usize].ready;
        if it.policy.is_fifo() {
            ready.insert(0, current);
        } else {
            ready.push(current);
        }
    }

    /// Gives a CPU without a thread to the ready thread that is next.
    fn dispatch(&mut self, cpu: u32, now_ns: u64) {
        let Some(at) = self.best(cpu) else { return };
        let idled = self.cpus[cpu as usize].resume_ns == u64::MAX;
        let thread = self.cpus[cpu as usize].ready.remove(at);
        let costs = &self.config.machine.costs;
        let idled_ns = now_ns.saturating_sub(self.cpus[cpu as usize].idle_from_ns);
        let mut cost = if idled {
            costs.idle_exit_after(idled_ns)
        } else {
            0
        };
        if self.cpus[cpu as usize].last != thread {
            cost += costs.context_switch_ns;
        }
        let it = &mut self.threads[thread as usize];
        it.doing = Doing::Runs;
        let left_ns = std::mem::take(&mut it.left_ns);
        let had_ns = it.share.had_ns;
        let state = &mut self.cpus[cpu as usize];
        state.current = thread;
        state.last = thread;
        state.least_ns = state.least_ns.max(had_ns);
        state.slice_turn = state.slice_turn.wrapping_add(1);
        (state.slice_from_ns, state.accounted_ns) = (now_ns, now_ns);
        state.slice_armed = false;
        self.record(now_ns, cpu, thread, EventKind::Dispatch, 0);
        self.set_busy(cpu, true, now_ns);
        let switched_ns = now_ns.saturating_add(self.on_cpu(cpu, cost));
        self.cpus[cpu as usize].switches_until_ns = switched_ns;
        let all_ns = self.on_cpu(cpu, cost.saturating_add(left_ns));
        self.resume_at(cpu, now_ns.saturating_add(all_ns));
        if !self.cpus[cpu as usize].ready.is_empty() {
            self.arm_slice(cpu, now_ns);
        }
    }

    /// Schedules when the thread of a CPU goes on.
    pub(super) fn resume_at(&mut self, cpu: u32, time_ns: u64) {
        let state = &mut self.cpus[cpu as usize];
        state.resume_ns = time_ns;
        let turn = state.turn;
        self.schedule(time_ns, What::Cpu, cpu, turn);
    }

    /// Schedules the end of the running thread's slice, because other threads are ready.
    fn arm_slice(&mut self, cpu: u32, now_ns: u64) {
        let state = &self.cpus[cpu as usize];
        if state.slice_armed || self.threads[state.current as usize].policy.is_fifo() {
            return;
        }
        let end_ns = state.slice_from_ns + self.slice_ns(state.current);
        let turn = state.slice_turn;
        self.cpus[cpu as usize].slice_armed = true;
        self.schedule(end_ns.max(now_ns), What::Slice, cpu, turn);
    }

    /// Ends the slice of a CPU's thread.
    pub(super) fn end_slice(&mut self, cpu: u32, turn: u32, now_ns: u64) {
        let state = &mut self.cpus[cpu as usize];
        if state.slice_turn != turn || state.current == NOBODY {
            return;
        }
        state.slice_armed = false;
        state.slice_from_ns = now_ns;
        let current = state.current;
        self.account(cpu, now_ns);
        self.renew_due(current);
        self.reschedule(cpu, now_ns);
    }

    /// Makes the running thread wait. Its CPU goes to another thread.
    pub(super) fn block(&mut self, wait: Wait) {
        let (thread, cpu, now_ns) = (self.current, self.cpu, self.now_ns);
        self.account(cpu, now_ns);
        self.threads[thread as usize].doing = Doing::Waits(wait);
        self.leave_cpu(cpu, now_ns);
    }

    pub(super) fn leave_cpu(&mut self, cpu: u32, now_ns: u64) {
        let state = &mut self.cpus[cpu as usize];
        state.current = NOBODY;
        state.turn = state.turn.wrapping_add(1);
        if state.ready.is_empty() {
            // The CPU idles from here on.
            (state.resume_ns, state.idle_from_ns) = (u64::MAX, now_ns);
            self.set_busy(cpu, false, now_ns);
        } else {
            state.resume_ns = now_ns;
            self.dispatch(cpu, now_ns);
        }
    }

    /// Changes the policy of the running thread.
    pub(super) fn change_policy(&mut self, policy: Policy) {
        let (thread, cpu) = (self.current, self.cpu);
        self.account(cpu, self.now_ns);
        self.threads[thread as usize].policy = policy;
        self.renew_due(thread);
        // The scheduler looks at once, but from the queue: a thread gives way only between two steps.
        let state = &mut self.cpus[cpu as usize];
        state.slice_armed = true;
        let turn = state.slice_turn;
        self.schedule(self.now_ns, What::Slice, cpu, turn);
    }
}
