//! By share: how a worker that has met tasks of groups chooses its next task, charges polls, and takes from others. See
//! the README of [`group`](crate::group).

use crate::group::{DEFAULT, LOOKS_MAX, Table, members};
use crate::link::Node;
use crate::queue::{Chain, Greed, Loot, Queue, Ready, Share, is_shareable};
use crate::scheduler::Member;
use crate::task::queue_node::group_of;
use crate::worker::local::Ran;
use crate::worker::{Local, Worker};
use doorbell_machine::{Counter, Machine};
use std::ptr::NonNull;

impl<M: Machine> Local<M> {
    /// The group of the task under poll; the default group between polls.
    #[inline]
    pub(in crate::worker) fn group(&self) -> u8 {
        self.turns.groups.running()
    }

    #[inline]
    fn table(&self) -> Option<&Table<M>> {
        self.remote().scheduler().groups().table()
    }

    /// The pinned tasks of a group on this worker.
    fn pinned_of(&self, group: u8) -> Option<&Ready<M>> {
        let place = self.table()?.place(group, self.remote().worker())?;
        // SAFETY: a worker's place, on its thread.
        Some(unsafe { place.pinned() })
    }

    fn pinned_len(&self, group: u8) -> usize {
        self.pinned_of(group).map_or(0, Ready::len)
    }

    /// This worker's queue of a group's tasks that may run anywhere.
    fn queue_of(&self, group: u8) -> &Queue<M> {
        let queue = self.remote().queue_of(group);
        queue.expect("a group with a task is open")
    }

    /// This worker's queue for a task that may run anywhere: that of its group.
    ///
    /// # Safety
    /// The node is that of a task that is alive.
    #[inline(always)]
    pub(in crate::worker) unsafe fn queue_for(&self, node: NonNull<Node<M>>) -> &Queue<M> {
        // SAFETY: passed on.
        match unsafe { group_of(node) } {
            DEFAULT => self.remote().queue(),
            group => self.meet(group),
        }
    }

    #[cold]
    fn meet(&self, group: u8) -> &Queue<M> {
        self.turns.groups.meet(group);
        self.queue_of(group)
    }

    /// Appends a task to the queue of its group. Notifies no other worker: the caller does if needed.
    ///
    /// # Safety
    /// As for [`Queue::push`], on this worker's thread.
    pub(in crate::worker) unsafe fn keep(&self, node: NonNull<Node<M>>) {
        // SAFETY: passed on.
        unsafe { self.queue_for(node).push(node, Share::Surplus) };
        self.list();
    }

    /// As [`Local::keep`], for each task of a chain.
    #[cold]
    pub(super) fn push_chain_by_group(&self, chain: Chain<M>) {
        // SAFETY: the chain is of tasks that may run anywhere, and this is the worker's thread.
        chain.drain(|node| unsafe { self.keep(node) });
    }

    /// Appends a pinned task.
    ///
    /// # Safety
    /// As for [`Ready::push`].
    pub(in crate::worker) unsafe fn push_pinned(&self, node: NonNull<Node<M>>) {
        // SAFETY: the node of a task that is alive, says the caller.
        let group = unsafe { group_of(node) };
        if group == DEFAULT {
            // SAFETY: passed on.
            return unsafe { self.ready().push(node) };
        }
        let pinned = self.pinned_of(group);
        // SAFETY: passed on.
        unsafe { pinned.expect("a group with a task is open").push(node) };
        self.turns.groups.meet(group);
    }

    /// Whether this worker times its polls: tasks of groups are here, or ran lately in the scheduler.
    #[inline]
    pub(crate) fn times_polls(&self) -> bool {
        self.turns.groups.is_on()
    }

    /// Decides whether this worker times its polls: while tasks of groups are here, or ran lately in the scheduler.
    #[inline]
    pub(crate) fn look_at_groups(&self) {
        if let Some(table) = self.table() {
            self.look_at_table(table);
        }
    }

    #[cold]
    fn look_at_table(&self, table: &Table<M>) {
        let now_ns = match self.turns.groups.is_on() {
            true if self.turns.groups.any() => return,
            true => self.turns.groups.now_ns(),
            false => M::now_ns(),
        };
        // A stolen task may be of a group.
        let on = self.has_stolen() || table.is_lively(now_ns);
        self.turns.groups.set_on(on);
    }

    /// Runs the next task, and charges the poll's time to its group.
    #[cold]
    pub(super) fn run_next_by_share(&self) -> Ran {
        let Some(table) = self.table() else {
            unreachable!("tasks of groups have a table");
        };
        let from_ns = M::now_ns();
        self.turns.groups.set_now(from_ns);
        let Some(node) = self.next() else {
            return Ran::Nothing;
        };
        // SAFETY: only tasks are in the queues, and it is alive.
        let group = unsafe { group_of(node) };
        // The worker counts in the group until the poll is charged: this may be its last task.
        let counts_in = table.slot(group).filter(|_| group != DEFAULT);
        if let Some(slot) = counts_in {
            slot.join();
        }
        self.turns.groups.set_running(group);
        self.run_task(node);
        let now_ns = M::now_ns();
        self.turns.groups.set_now(now_ns);
        // SAFETY: this worker's account, on its own thread.
        unsafe { table.charge(group, self.remote().worker(), from_ns, now_ns) };
        if let Some(slot) = counts_in {
            slot.leave();
            self.note_grouped(now_ns.saturating_sub(from_ns));
        }
        // Last, because drops at the end of the task may spawn, and such a task belongs to the same group.
        self.turns.groups.set_running(DEFAULT);
        Ran::One
    }

    /// Takes out the next task of the group whose turn it is.
    #[cold]
    pub(super) fn next_by_share(&self) -> Option<NonNull<Node<M>>> {
        let (table, now_ns) = (self.table()?, self.turns.groups.now_ns());
        loop {
            let here = self.groups_here();
            let is_ready = !self.ready().is_empty() || !self.remote().queue().is_empty();
            let plain = is_ready || !self.is_deferred_empty();
            let default = plain.then_some(DEFAULT);
            let choice = table.choose(default.into_iter().chain(members(here)), now_ns)?;
            let node = if choice.group == DEFAULT {
                self.next_of_default()
            } else {
                self.next_of(choice.group)
            };
            // `None`: thieves have emptied the group's queue. The next round chooses among fewer groups.
            if node.is_some() {
                table.begin(choice);
                return node;
            }
        }
    }

    /// The groups that have tasks on this worker, as a set of bits. Never the default group.
    fn groups_here(&self) -> u64 {
        let has = |group| self.pinned_len(group) > 0 || !self.queue_of(group).is_empty();
        self.turns.groups.prune(has)
    }

    /// Takes out a group's next task: pinned and movable ones in rounds.
    fn next_of(&self, group: u8) -> Option<NonNull<Node<M>>> {
        let (queue, pinned) = (self.queue_of(group), self.pinned_of(group)?);
        // SAFETY: this worker owns its queues.
        let pop = || unsafe { queue.pop() };
        let next = self.turns.round.pop(pinned, || queue.len(), pop);
        next.map(|(node, _)| node)
    }

    /// Takes out any movable task of this worker, of the default group first.
    pub(in crate::worker) fn pop_movable(&self) -> Option<NonNull<Node<M>>> {
        // SAFETY: this worker owns its queues.
        let plain = unsafe { self.remote().queue().pop() };
        // SAFETY: as above.
        let plain = plain.or_else(|| unsafe { self.remote().deferred().pop() });
        plain.or_else(|| {
            // SAFETY: as above.
            let pop = |group| unsafe { self.queue_of(group).pop() };
            members(self.groups_here()).find_map(pop)
        })
    }

    /// About how many tasks other workers may take.
    #[inline]
    pub(in crate::worker) fn movable_len(&self) -> u64 {
        let grouped = if self.turns.groups.any() {
            self.movable_grouped_len()
        } else {
            0
        };
        self.remote().queue().len() + self.remote().deferred().len() + grouped
    }

    #[cold]
    fn movable_grouped_len(&self) -> u64 {
        let here = members(self.groups_here());
        here.map(|group| self.queue_of(group).len()).sum()
    }

    /// About how many tasks of groups are queued here, without the default group.
    #[inline]
    pub(in crate::worker) fn grouped_len(&self) -> usize {
        if self.turns.groups.any() {
            self.all_grouped_len()
        } else {
            0
        }
    }

    #[cold]
    fn all_grouped_len(&self) -> usize {
        let here = members(self.groups_here());
        here.map(|group| self.pinned_len(group) + self.queue_of(group).len() as usize)
            .sum()
    }

    /// Whether pinned tasks of groups are queued here, without the default group.
    pub(in crate::worker) fn has_pinned_of_groups(&self) -> bool {
        members(self.groups_here()).any(|group| self.pinned_len(group) > 0)
    }

    /// As [`Local::steal`], where the scheduler has groups: takes a part of each group's tasks.
    #[cold]
    pub(super) fn steal_by_share(
        &self,
        victim: &Member<M>,
        greed: Greed,
        inject: bool,
    ) -> Option<u64> {
        let table = self.table()?;
        // The first task that it steals runs next, so the groups are gone through in the order of their turns.
        let (groups, opened) = table.in_order();
        let groups = &groups[..opened];
        let has = |group: u8| victim.queue_of(group).map_or(0, Queue::len);
        let total: u64 = groups.iter().map(|group| has(*group)).sum();
        let mut count = 0;
        for group in groups {
            if greed == Greed::Single && count > 0 {
                break;
            }
            count += self.steal_of(*group, victim, greed).unwrap_or(0);
        }
        if count == 0 && greed == Greed::Half && is_shareable(total) {
            // No group alone has tasks to spare, but together they have work for one more worker.
            let one = |group: &u8| self.steal_of(*group, victim, Greed::Single);
            count = groups.iter().find_map(one).unwrap_or(0);
        }
        if count == 0
            && let Some(Loot {
                first,
                count: taken,
            }) = self.steal_deferred(victim, greed)
        {
            self.set_stolen(first);
            self.list();
            count = taken;
        }
        let inject = inject && count == 0;
        if let Some((chain, len)) = inject.then(|| victim.take_injected()).flatten() {
            count = len;
            self.push_chain_by_group(chain);
        }
        (count > 0).then_some(count)
    }

    /// Takes tasks of one group from another worker. The first one runs next, unless another stolen task waits.
    fn steal_of(&self, group: u8, victim: &Member<M>, greed: Greed) -> Option<u64> {
        let (queue, own) = (victim.queue_of(group)?, self.remote().queue_of(group)?);
        if queue.is_empty() {
            return None;
        }
        // SAFETY: this worker owns its own queue, and not the victim's.
        let Loot { first, count } = unsafe { queue.steal_into(own, greed) }?;
        self.turns.groups.meet(group);
        if self.has_stolen() {
            // SAFETY: taken out, so only this worker has it; it is alive until it has run.
            unsafe { own.push(first, Share::Surplus) };
        } else {
            self.set_stolen(first);
        }
        if !own.is_empty() {
            self.list();
        }
        Some(count)
    }

    /// Up to [`LOOKS_MAX`] groups that are behind the others and have no movable tasks here.
    fn lacking(&self) -> impl Iterator<Item = u8> {
        let table = self.table();
        let opened = table.map_or(0, Table::opened);
        let lacks = move |group: &u8| {
            let remote = self.remote();
            let none_here = remote.queue_of(*group).is_none_or(Queue::is_empty);
            none_here && table.is_some_and(|table| table.is_behind(*group))
        };
        self.turns.groups.walk(opened).filter(lacks).take(LOOKS_MAX)
    }

    /// Takes one task of a group from a worker that is inside a poll. Returns how many it took; `None` if none, also
    /// while a stolen task is waiting.
    fn pull(&self, group: u8, victim: &Member<M>) -> Option<u64> {
        if self.has_stolen() || !victim.is_inside() {
            return None;
        }
        self.steal_of(group, victim, Greed::Single)
    }
}

impl<M: Machine> Worker<M> {
    /// When the clock was read: decides whether this worker times its polls, and takes a task of a group that lacks some
    /// here, if it is time for that.
    #[inline]
    pub(in crate::worker) fn balance_groups(&self) {
        self.local.look_at_groups();
        if self.local.turns.groups.is_time_to_balance() && self.has_others() {
            self.balance_groups_now();
        }
    }

    /// Takes one such task from a worker that is inside a poll.
    #[cold]
    fn balance_groups_now(&self) {
        self.shared.tally.searches.add_owned(1);
        self.look_at_list();
        for group in self.local.lacking() {
            for other in self.listed() {
                if let Some(count) = self.local.pull(group, other) {
                    self.shared.tally.thefts.add_owned(1);
                    self.shared.tally.stolen.add_owned(count);
                    return;
                }
            }
        }
    }
}
