//! What must hold of a scheduler while no thread of its runtime makes a step any more. For oracles.

use super::{Member, Scheduler};
use crate::bell::WorkerState;
use doorbell_machine::Machine;

/// Why no thread makes a step any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Each waits, and nothing will wake one.
    Asleep {
        /// Whether the clock runs. The timers of a paused one may wait.
        clock_runs: bool,
    },
    /// All workers have ended.
    Ended,
}

impl<M: Machine> Scheduler<M> {
    /// Checks that its workers have forgotten nothing, and hold nothing on which others rely. A worker that sleeps and is
    /// not parked waits inside a poll: what it alone may do waits with it. Not seen: pinned tasks that a worker has
    /// queued, and mail of which it was not told, since a cancelled timer, say, may lie there.
    ///
    /// # Errors
    /// What was forgotten or is held.
    pub fn check_at_rest(&self, rest: Rest) -> Result<(), String> {
        let ended = rest == Rest::Ended;
        let timers_count = rest == Rest::Asleep { clock_runs: true };
        let rests = |it: &Member<M>| ended || it.state() == WorkerState::Parked;
        let mut workers = self.remotes().iter();
        let all_rest = workers.clone().all(rests);
        let idles = workers.any(|it| rests(it) && !it.is_off());
        let searches = self.idle.anyone_searches();
        for it in self.remotes() {
            let (worker, rests, has_work) = (it.worker(), rests(it), it.has_work());
            let is_told = !ended && it.bell().signalled();
            let has_timer = timers_count && it.next_global_ns() != u64::MAX;
            let is_awake = self.tree().is_some_and(|tree| tree.is_active(worker));
            let is_listed = ended && self.idle.holds(worker);
            let wrong = [
                (rests && has_work, "a task waits at a worker that rests"),
                (idles && has_work, "a task waits while a worker idles"),
                (idles && !self.common.is_empty(), "common mail waits"),
                (rests && is_told, "a worker that was told sleeps"),
                (rests && has_timer, "no thread wakes for a timer"),
                (rests && is_awake, "it rests and has timers of others"),
                (rests && is_listed, "it has ended and counts as idle"),
                (all_rest && searches, "a search goes on at rest"),
                (
                    all_rest && self.push_is_under_way(),
                    "the push token is held",
                ),
            ];
            if let Some((_, what)) = wrong.iter().find(|(is_so, _)| *is_so) {
                return Err(format!("{what} (worker {worker}, {:?})", self.class));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Rest;
    use crate::bell::Announced;
    use crate::mailbox::{Posted, Pushed};
    use crate::scheduler::RemoteRef;
    use crate::scheduler::idle::Search;
    use crate::scheduler::offline::TakenOff;
    use crate::scheduler::push::Told;
    use crate::switches::RtPush;
    use crate::testing::{Item, Log, by_rank, post, spawn};
    use crate::worker::Local;
    use doorbell_machine::Host;

    type Remotes = [RemoteRef<Host>];

    const ASLEEP: Rest = Rest::Asleep { clock_runs: true };

    /// Of two workers the second is parked, and so is the first unless it is inside a poll.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum First {
        Parked,
        InsideAPoll,
    }

    /// Makes a state by hand, and returns what the check finds in it; nothing if that is nothing.
    fn found(rest: Rest, first: First, plant: impl FnOnce(&Remotes)) -> String {
        let remotes = by_rank::<Host>(2, RtPush::On);
        let parks = remotes
            .iter()
            .skip(usize::from(first == First::InsideAPoll));
        for remote in parks {
            assert_eq!(remote.bell().announce_spin(), Announced::Yes);
            assert_eq!(remote.bell().announce_park(), Announced::Yes);
        }
        let check = || remotes[0].scheduler().check_at_rest(rest);
        assert_eq!(check(), Ok(()), "nothing is planted yet");
        plant(&remotes);
        let found = check();
        for remote in &remotes {
            let _ = remote.bell().end_idle();
            let local = Local::new(remote.clone());
            local.enter(|| local.close());
        }
        found.err().unwrap_or_default()
    }

    #[track_caller]
    fn assert_found(found: &str, what: &str) {
        assert!(found.starts_with(what), "{found:?}");
    }

    fn posts(remotes: &Remotes) {
        assert_eq!(post(&remotes[0], 1, &Log::default()), Posted::Yes);
    }

    fn spawns(remotes: &Remotes) {
        drop(spawn(&remotes[0], async {}));
    }

    #[test]
    fn a_task_of_a_worker_that_rests() {
        let what = "a task waits at a worker that rests (worker 0";
        assert_found(&found(ASLEEP, First::Parked, spawns), what);
        assert_found(&found(Rest::Ended, First::Parked, spawns), what);
    }

    #[test]
    fn what_waits_behind_a_poll_and_what_of_it_another_worker_may_do() {
        assert_eq!(found(ASLEEP, First::InsideAPoll, posts), "");
        let behind = found(ASLEEP, First::InsideAPoll, spawns);
        assert_found(&behind, "a task waits while a worker idles (worker 0");
        let to_nobody = |remotes: &Remotes| {
            assert_eq!(remotes[0].scheduler().take_off(1), TakenOff::Now);
            let _ = remotes[1].bell().end_idle();
            assert_eq!(remotes[1].bell().announce_spin(), Announced::Yes);
            assert_eq!(remotes[1].bell().announce_park(), Announced::Yes);
            spawns(remotes);
        };
        assert_eq!(found(ASLEEP, First::InsideAPoll, to_nobody), "");
    }

    #[test]
    fn what_any_worker_may_deliver() {
        let posts = |remotes: &Remotes| {
            let item = Item::<Host>::boxed(1, &Log::default());
            // SAFETY: the item stays in place until delivered, and its delivery frees it.
            let pushed = unsafe { remotes[0].scheduler().common().push(item) };
            assert_eq!(pushed, Pushed::First);
        };
        let found = found(ASLEEP, First::InsideAPoll, posts);
        assert_found(&found, "common mail waits");
    }

    #[test]
    fn a_worker_that_was_told_and_sleeps() {
        let tells = |remotes: &Remotes| remotes[1].request_pass();
        let told = found(ASLEEP, First::Parked, tells);
        assert_found(&told, "a worker that was told sleeps (worker 1");
        assert_eq!(found(Rest::Ended, First::Parked, tells), "");
        let call = found(ASLEEP, First::Parked, posts);
        assert_found(&call, "a worker that was told sleeps (worker 0");
    }

    #[test]
    fn mail_of_which_a_worker_was_not_told_may_wait() {
        let posts = |remotes: &Remotes| {
            let item = Item::<Host>::boxed(1, &Log::default());
            // SAFETY: the item stays in place until delivered, and its delivery frees it.
            assert_eq!(unsafe { remotes[0].post_quietly(item) }, Posted::Yes);
        };
        assert_eq!(found(ASLEEP, First::Parked, posts), "");
    }

    #[test]
    fn a_timer_for_which_no_thread_wakes() {
        let arms = |remotes: &Remotes| remotes[1].publish_next_global(7);
        let timer = found(ASLEEP, First::Parked, arms);
        assert_found(&timer, "no thread wakes for a timer (worker 1");
        let paused = Rest::Asleep { clock_runs: false };
        assert_eq!(found(paused, First::Parked, arms), "");
    }

    #[test]
    fn a_worker_that_stays_awake_in_the_timer_tree() {
        let stays = |remotes: &Remotes| {
            remotes[0]
                .scheduler()
                .tree()
                .expect("two workers of class Fair")
                .activate(0);
        };
        let what = "it rests and has timers of others (worker 0";
        assert_found(&found(ASLEEP, First::Parked, stays), what);
        assert_found(&found(Rest::Ended, First::Parked, stays), what);
        assert_eq!(found(ASLEEP, First::InsideAPoll, stays), "");
    }

    #[test]
    fn an_idle_bit_and_a_search_that_nobody_ends() {
        let enters = |remotes: &Remotes| remotes[1].scheduler().idle().enter(1);
        assert_eq!(found(ASLEEP, First::Parked, enters), "");
        let idles = found(Rest::Ended, First::Parked, enters);
        assert_found(&idles, "it has ended and counts as idle (worker 1");
        let searches = |remotes: &Remotes| {
            assert_eq!(remotes[0].scheduler().idle().begin_search(0), Search::Begun);
        };
        let search = found(ASLEEP, First::Parked, searches);
        assert_found(&search, "a search goes on at rest");
        assert_eq!(found(ASLEEP, First::InsideAPoll, searches), "");
    }

    #[test]
    fn a_push_token_that_nobody_gives_back() {
        let holds = |remotes: &Remotes| {
            let push = remotes[0].scheduler().push().expect("they run by rank");
            assert_eq!(push.token.tell(), Told::Holder);
        };
        let what = "the push token is held";
        assert_found(&found(ASLEEP, First::Parked, holds), what);
        assert_found(&found(Rest::Ended, First::Parked, holds), what);
        assert_eq!(found(ASLEEP, First::InsideAPoll, holds), "");
    }
}
