//! The idle set on one thread: every step from every small state.

use super::{
    Cores, Declined, IdleSet, Left, Search, Searchers, Searching, Seen, Watchdog, Wish, WorkSet,
};
use crate::class::Class;
use doorbell_machine::{Host, Machine};
use std::sync::Arc;

/// So many workers. Nothing is known of their cores.
pub(in crate::scheduler) fn cores_of<M: Machine>(workers: usize) -> Arc<Cores<M>> {
    Cores::of_one_class(workers, |_, _| 0)
}

/// These workers become idle.
fn all_enter<M: Machine>(set: &IdleSet<M>, workers: &[usize]) {
    for worker in workers {
        set.enter(*worker);
    }
}

/// Their idle set.
pub(in crate::scheduler) fn set_of<M: Machine>(workers: usize) -> IdleSet<M> {
    IdleSet::new(&cores_of(workers), Class::Fair)
}

fn anyone(_: usize) -> bool {
    true
}

#[test]
fn a_worker_is_in_the_work_set_until_it_idles_with_nothing() {
    let set = WorkSet::<Host>::new(&cores_of(130));
    let seen = Seen::new(&set);
    let look = || {
        set.look(&seen);
        (0..130).filter(|worker| set.held(&seen, *worker)).collect()
    };
    assert_eq!((look(), seen.any()), (Vec::new(), false));
    for worker in [70, 6, 129, 70] {
        set.add(worker);
    }
    assert_eq!((look(), seen.any()), (vec![6, 70, 129], true));
    set.remove(70, || true);
    set.remove(129, || false);
    set.remove(7, || unreachable!("it is not in the set"));
    assert_eq!(look(), [6, 70]);
}

#[test]
fn a_worker_that_nobody_claims_leaves_by_itself() {
    let set = set_of::<Host>(3);
    assert!(!set.any());
    set.enter(1);
    assert!(set.any() && !set.anyone_searches());
    assert_eq!(set.leave(1), Left::ByItself);
    assert!(!set.any());
}

#[test]
fn w2_a_claimed_worker_is_counted_by_its_waker_and_owes_the_end_of_its_search() {
    let set = set_of::<Host>(3);
    set.enter(2);
    assert_eq!(set.claim(Wish::of(0), anyone), Some(2));
    assert!(!set.any() && set.anyone_searches());
    assert_eq!(set.leave(2), Left::Claimed);
    assert!(set.anyone_searches(), "leaving does not end the search");
    assert_eq!(set.end_search(2), Searching::None);
    assert!(!set.anyone_searches());
}

#[test]
fn w1_a_worker_is_in_the_set_once_however_often_it_enters() {
    let set = set_of::<Host>(2);
    set.enter(0);
    set.enter(0);
    assert_eq!(set.claim(Wish::of(0), anyone), Some(0));
    assert_eq!(set.claim(Wish::of(0), anyone), None);
    assert_eq!(set.end_search(0), Searching::None);
}

#[test]
fn a_claim_in_vain_leaves_no_count() {
    let set = set_of::<Host>(2);
    assert_eq!(set.claim(Wish::of(0), anyone), None);
    assert_eq!(set.claim_as_first(Wish::of(0), anyone), None);
    assert!(!set.anyone_searches());
}

/// Workers on cores of two hardware threads, four cores to a cache: 0 and 1 are one core, 0 to 7 one cache.
fn smt<M: Machine>(workers: usize) -> Arc<Cores<M>> {
    Cores::new(workers, |one, other| {
        u32::from(one / 2 != other / 2) + u32::from(one / 8 != other / 8)
    })
}

/// The idle set of each class on these cores. All workers have begun.
fn classes(cores: &Arc<Cores<Host>>, workers: usize) -> [IdleSet<Host>; 3] {
    [Class::Batch, Class::Fair, Class::Rt].map(|class| {
        let set = IdleSet::new(cores, class);
        (0..workers).for_each(|worker| set.start(worker));
        set
    })
}

/// The order in which a caller with these wishes takes workers of the set.
fn order(set: &IdleSet<Host>, wish: Wish) -> Vec<usize> {
    let mut order = Vec::new();
    let note = |worker| {
        order.push(worker);
        false
    };
    assert_eq!(set.each_idle(wish, note), None);
    order.dedup();
    let mut seen = Vec::new();
    order.retain(|worker| {
        !seen.contains(worker) && {
            seen.push(*worker);
            true
        }
    });
    order
}

#[test]
fn a_core_with_nothing_running_comes_first_then_a_sibling_then_another_cache() {
    let cores = smt(16);
    let [batch, fair, rt] = classes(&cores, 16);
    for set in [&batch, &rt] {
        (0..16).for_each(|worker| set.enter(worker));
    }
    // Core 0 is half busy; so is core 3, by its other thread. The other cache is idle.
    all_enter(&fair, &[1, 4, 5, 6, 8, 9]);
    assert_eq!(
        order(&fair, Wish { near: 2, spread: 0 }),
        [4, 5, 1, 6, 8, 9]
    );
    assert_eq!(
        order(&fair, Wish { near: 6, spread: 0 }),
        [6, 4, 5, 1, 8, 9],
        "the preferred one"
    );
    assert_eq!(
        order(
            &fair,
            Wish {
                near: 12,
                spread: 0
            }
        ),
        [8, 9, 4, 5, 1, 6]
    );
}

#[test]
fn a_core_with_only_batch_is_taken_last_but_for_one_with_a_class_above() {
    let cores = Cores::new(4, |one, other| u32::from(one != other));
    let [batch, fair, rt] = classes(&cores, 4);
    (0..4).for_each(|worker| fair.enter(worker));
    all_enter(&batch, &[0, 1, 3]);
    all_enter(&rt, &[1, 2, 3]);
    // On core 0 the Rt worker runs, on core 2 the Batch worker.
    let near = |near| Wish { near, spread: 1 };
    assert_eq!(order(&fair, near(0)), [3, 1, 2, 0]);
    assert_eq!(order(&fair, near(3)), [3, 1, 2, 0]);
    let has_core = |worker| fair.sight(worker).has_core;
    assert!(has_core(1) && !has_core(0) && !has_core(2));
    // An Rt worker takes the core of a running Fair one last.
    assert_eq!(
        (fair.leave(1), fair.leave(3)),
        (Left::ByItself, Left::ByItself)
    );
    assert_eq!(order(&rt, near(1))[0], 2);
}

#[test]
fn callers_that_choose_at_once_begin_at_different_workers() {
    let set = set_of::<Host>(16);
    all_enter(&set, &[2, 5, 7, 11]);
    let found = [0, 1, 2, 3, 4].map(|spread| set.find(Wish { near: 0, spread }, anyone));
    assert_eq!(found, [2, 5, 7, 11, 2].map(Some));
}

#[test]
fn a_worker_that_does_not_fit_is_not_found() {
    let set = set_of::<Host>(16);
    (1..8).for_each(|worker| set.enter(worker));
    assert_eq!(set.find(Wish::of(1), |worker| worker == 7), Some(7));
    assert_eq!(set.find(Wish::of(1), |_| false), None);
}

#[test]
fn a_worker_is_taken_once_and_owes_nothing() {
    let set = set_of::<Host>(3);
    assert!(!set.take(1), "it is not idle");
    set.enter(1);
    assert!(set.take(1) && !set.take(1) && !set.anyone_searches());
    assert_eq!(set.leave(1), Left::Settled);
    set.enter(1);
    assert_eq!(set.begin_search(1), Search::Begun);
    assert_eq!(set.claim(Wish::of(0), anyone), None);
    assert!(set.take(1), "it may search");
    assert_eq!(set.leave(1), Left::Claimed);
    assert_eq!(set.end_search(1), Searching::None);
}

#[test]
fn only_one_worker_is_claimed_while_it_searches() {
    let set = set_of::<Host>(4);
    set.enter(0);
    set.enter(1);
    assert_eq!(set.claim_as_first(Wish::of(0), anyone), Some(0));
    assert_eq!(
        set.claim_as_first(Wish::of(0), anyone),
        None,
        "one searches"
    );
    assert_eq!(set.end_search(0), Searching::None);
    assert_eq!(set.claim_as_first(Wish::of(0), anyone), Some(1));
}

#[test]
fn half_of_the_workers_search_at_most() {
    for (workers, most) in [(1, 1), (2, 1), (3, 2), (8, 4)] {
        let set = set_of::<Host>(workers);
        for worker in 0..most {
            assert_eq!(set.begin_search(worker), Search::Begun);
        }
        assert_eq!(set.begin_search(most), Search::Enough, "{workers} workers");
        for left in (0..most).rev() {
            let end = set.end_search(left);
            assert_eq!(end == Searching::None, left == 0);
        }
    }
}

#[test]
fn the_nearest_idle_worker_is_found_and_not_claimed() {
    let set = IdleSet::<Host>::new(&smt(32), Class::Fair);
    assert_eq!(set.find(Wish::of(7), anyone), None);
    all_enter(&set, &[3, 20, 31]);
    for (near, found) in [
        (0, 3),
        (3, 3),
        (7, 3),
        (16, 20),
        (23, 20),
        (24, 31),
        (31, 31),
    ] {
        assert_eq!(set.find(Wish::of(near), anyone), Some(found), "from {near}");
    }
    assert_eq!(set.leave(31), Left::ByItself);
    assert_eq!(
        set.find(Wish::of(31), anyone),
        Some(3),
        "the next cache from there on"
    );
}

#[test]
fn a_worker_beside_a_busy_thread_gives_way_to_the_nearest_with_a_core_to_itself() {
    let set = IdleSet::<Host>::new(&smt(32), Class::Fair);
    let found = |near, spread| set.beside_nobody(Wish { near, spread });
    all_enter(&set, &[0, 3, 30, 31]);
    assert_eq!(found(30, 0), 30, "its own core is idle");
    assert_eq!([found(0, 0), found(0, 1)], [30, 31], "of a far cache");
    all_enter(&set, &[4, 5]);
    assert_eq!(found(0, 0), 4, "of its own cache");
    for worker in [4, 5, 30] {
        assert_eq!(set.leave(worker), Left::ByItself);
    }
    assert_eq!(found(0, 0), 0, "each core has a busy thread");
}

#[test]
fn a_worker_that_searches_is_not_claimed_and_counts_once() {
    let set = set_of::<Host>(4);
    set.enter(1);
    assert_eq!(set.begin_search(1), Search::Begun);
    assert!(!set.any() && set.holds(1));
    assert_eq!(
        (
            set.claim(Wish::of(0), anyone),
            set.find(Wish::of(0), anyone)
        ),
        (None, None)
    );
    assert_eq!(set.end_search(1), Searching::None);
    assert_eq!(set.claim(Wish::of(0), anyone), Some(1));
    assert_eq!(set.begin_search(1), Search::Begun, "as it was claimed for");
    assert_eq!(set.end_search(1), Searching::None);
    assert_eq!(set.leave(1), Left::Settled);
    assert!(!set.anyone_searches());
}

#[test]
fn a_claim_lapses_once_and_its_worker_comes_back_when_it_runs() {
    let set = set_of::<Host>(40);
    set.enter(33);
    set.enter(34);
    assert_eq!(set.claim_as_first(Wish::of(33), anyone), Some(33));
    let seen = Searchers::new(40);
    assert_eq!(set.lapse_since(&seen, 0), Searching::Others, "a first look");
    assert_eq!(set.lapse_since(&seen, 33), Searching::Others, "its own");
    assert_eq!(set.lapse_since(&seen, 0), Searching::None);
    assert_eq!(set.lapse(33), None, "nothing is left of it");
    assert_eq!(
        set.claim_as_first(Wish::of(33), anyone),
        Some(34),
        "another is claimed"
    );
    // It gets its CPU at last.
    assert_eq!(set.leave(33), Left::Settled);
    assert_eq!(set.end_search(33), Searching::Others);
    set.enter(33);
    assert!(set.any());
    assert_eq!(set.leave(34), Left::Claimed);
    assert_eq!(set.end_search(34), Searching::None);
}

#[test]
fn a_search_of_a_worker_by_itself_lapses_and_it_cannot_be_claimed_meanwhile() {
    let set = set_of::<Host>(4);
    set.enter(0);
    set.enter(1);
    assert_eq!(set.begin_search(0), Search::Begun);
    assert_eq!(set.begin_search(1), Search::Begun);
    assert_eq!(set.lapse(0), Some(Searching::Others));
    assert!(!set.holds(0) && set.holds(1));
    assert_eq!(set.end_search(0), Searching::Others);
    assert_eq!(set.end_search(1), Searching::None);
    assert!(!set.anyone_searches());
}

#[test]
fn two_workers_of_three_and_more_are_watchdogs() {
    for (workers, most) in [(1, 1), (2, 1), (3, 2), (130, 2)] {
        let set = set_of::<Host>(workers);
        (0..workers).for_each(|worker| set.enter(worker));
        for begun in 0..most {
            assert!(set.lacks_watchdog(), "{begun} of {workers}");
            assert_eq!(set.begin_watchdog(), Watchdog::Begun);
        }
        assert!(!set.lacks_watchdog());
        assert_eq!(set.begin_watchdog(), Watchdog::Taken);
        assert_eq!(set.want_watchdog(Wish::of(0), anyone), None);
        set.end_watchdog();
        assert!(set.lacks_watchdog());
        assert_eq!(set.want_watchdog(Wish::of(0), anyone), Some(0));
        assert!(set.wants_watchdog() && !set.lacks_watchdog());
        assert_eq!(set.decline_watchdog(), Declined::Yes);
        assert_eq!(set.decline_watchdog(), Declined::Nobody);
    }
}

#[test]
fn each_worker_that_becomes_a_watchdog_takes_one_wish_for_one_back() {
    let set = set_of::<Host>(3);
    (0..3).for_each(|worker| set.enter(worker));
    assert_eq!(set.want_watchdog(Wish::of(0), anyone), Some(0));
    assert_eq!(set.want_watchdog(Wish::of(0), anyone), Some(1));
    for is_wanted in [true, false] {
        assert_eq!(set.begin_watchdog(), Watchdog::Begun);
        assert_eq!(set.wants_watchdog(), is_wanted);
    }
    assert_eq!(set.decline_watchdog(), Declined::Nobody);
    set.end_watchdog();
    assert!(set.lacks_watchdog(), "more are counted than there are");
}
