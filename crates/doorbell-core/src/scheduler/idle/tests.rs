//! The idle set on one thread: every step from every small state.

use super::{Cost, Declined, IdleSet, Left, Search, Searchers, Searching, Seen, Watchdog, WorkSet};
use doorbell_machine::Host;

fn anyone(_: usize) -> Cost {
    Cost::Store
}

#[test]
fn a_worker_is_in_the_work_set_until_it_idles_with_nothing() {
    let set = WorkSet::<Host>::new(130);
    let seen = Seen::new(130);
    let look = || {
        set.look(&seen);
        (0..130).filter(|worker| seen.holds(*worker)).collect()
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
    let set = IdleSet::<Host>::new(3);
    assert!(!set.any());
    set.enter(1);
    assert!(set.any() && !set.anyone_searches());
    assert_eq!(set.leave(1), Left::ByItself);
    assert!(!set.any());
}

#[test]
fn w2_a_claimed_worker_is_counted_by_its_waker_and_owes_the_end_of_its_search() {
    let set = IdleSet::<Host>::new(3);
    set.enter(2);
    assert_eq!(set.claim(0, anyone), Some(2));
    assert!(!set.any() && set.anyone_searches());
    assert_eq!(set.leave(2), Left::Claimed);
    assert!(set.anyone_searches(), "leaving does not end the search");
    assert_eq!(set.end_search(2), Searching::None);
    assert!(!set.anyone_searches());
}

#[test]
fn w1_a_worker_is_in_the_set_once_however_often_it_enters() {
    let set = IdleSet::<Host>::new(2);
    set.enter(0);
    set.enter(0);
    assert_eq!(set.claim(0, anyone), Some(0));
    assert_eq!(set.claim(0, anyone), None);
    assert_eq!(set.end_search(0), Searching::None);
}

#[test]
fn a_claim_in_vain_leaves_no_count() {
    let set = IdleSet::<Host>::new(2);
    assert_eq!(set.claim(0, anyone), None);
    assert_eq!(set.claim_as_first(0, anyone), None);
    assert!(!set.anyone_searches());
}

#[test]
fn the_preferred_worker_is_claimed_first_then_the_next_one() {
    let set = IdleSet::<Host>::new(130);
    for worker in [0, 3, 70, 129] {
        set.enter(worker);
    }
    let by_store = |worker| {
        if worker == 129 {
            Cost::Store
        } else {
            Cost::Ring
        }
    };
    assert_eq!(set.claim(1, by_store), Some(129));
    let outranked = |worker| {
        if worker == 3 {
            Cost::Ring
        } else {
            Cost::Outranked
        }
    };
    assert_eq!(set.claim(70, outranked), Some(3), "its core is free");
    assert_eq!(set.claim(1, anyone), Some(0), "the same word comes first");
    assert_eq!(set.claim(1, anyone), Some(70));
    assert_eq!(set.claim(1, anyone), None);
}

#[test]
fn only_one_worker_is_claimed_while_it_searches() {
    let set = IdleSet::<Host>::new(4);
    set.enter(0);
    set.enter(1);
    assert_eq!(set.claim_as_first(0, anyone), Some(0));
    assert_eq!(set.claim_as_first(0, anyone), None, "one searches");
    assert_eq!(set.end_search(0), Searching::None);
    assert_eq!(set.claim_as_first(0, anyone), Some(1));
}

#[test]
fn half_of_the_workers_search_at_most() {
    for (workers, most) in [(1, 1), (2, 1), (3, 2), (8, 4)] {
        let set = IdleSet::<Host>::new(workers);
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
fn the_next_idle_worker_is_found_and_not_claimed() {
    let set = IdleSet::<Host>::new(130);
    assert_eq!(set.find(7, anyone), None);
    for worker in [3, 64, 129] {
        set.enter(worker);
    }
    for (near, found) in [
        (0, 3),
        (3, 3),
        (4, 3),
        (32, 64),
        (64, 64),
        (65, 64),
        (96, 129),
        (129, 129),
        (128, 129),
    ] {
        assert_eq!(set.find(near, anyone), Some(found), "from {near}");
    }
    let _ = set.leave(129);
    assert_eq!(
        (set.find(129, anyone), set.find(65, anyone)),
        (Some(3), Some(64))
    );
    assert_eq!(
        (set.leave(3), set.leave(64)),
        (Left::ByItself, Left::ByItself)
    );
}

#[test]
fn the_cheapest_idle_worker_is_found() {
    let set = IdleSet::<Host>::new(4);
    (0..4).for_each(|worker| set.enter(worker));
    let cost = |worker: usize| [Cost::Outranked, Cost::Never, Cost::Ring, Cost::Outranked][worker];
    assert_eq!(set.find(0, cost), Some(2));
    assert_eq!(set.leave(2), Left::ByItself);
    assert_eq!(set.find(0, cost), Some(0), "better than none");
    assert_eq!(set.find(1, |_| Cost::Never), None);
}

#[test]
fn a_worker_that_searches_is_not_claimed_and_counts_once() {
    let set = IdleSet::<Host>::new(4);
    set.enter(1);
    assert_eq!(set.begin_search(1), Search::Begun);
    assert!(!set.any() && set.holds(1));
    assert_eq!((set.claim(0, anyone), set.find(0, anyone)), (None, None));
    assert_eq!(set.end_search(1), Searching::None);
    assert_eq!(set.claim(0, anyone), Some(1));
    assert_eq!(set.begin_search(1), Search::Begun, "as it was claimed for");
    assert_eq!(set.end_search(1), Searching::None);
    assert_eq!(set.leave(1), Left::Settled);
    assert!(!set.anyone_searches());
}

#[test]
fn a_claim_lapses_once_and_its_worker_comes_back_when_it_runs() {
    let set = IdleSet::<Host>::new(40);
    set.enter(33);
    set.enter(34);
    assert_eq!(set.claim_as_first(33, anyone), Some(33));
    let seen = Searchers::new(40);
    assert_eq!(set.lapse_since(&seen, 0), Searching::Others, "a first look");
    assert_eq!(set.lapse_since(&seen, 33), Searching::Others, "its own");
    assert_eq!(set.lapse_since(&seen, 0), Searching::None);
    assert_eq!(set.lapse(33), None, "nothing is left of it");
    assert_eq!(
        set.claim_as_first(33, anyone),
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
    let set = IdleSet::<Host>::new(4);
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
        let set = IdleSet::<Host>::new(workers);
        (0..workers).for_each(|worker| set.enter(worker));
        for begun in 0..most {
            assert!(set.lacks_watchdog(), "{begun} of {workers}");
            assert_eq!(set.begin_watchdog(), Watchdog::Begun);
        }
        assert!(!set.lacks_watchdog());
        assert_eq!(set.begin_watchdog(), Watchdog::Taken);
        assert_eq!(set.want_watchdog(0, anyone), None);
        set.end_watchdog();
        assert!(set.lacks_watchdog());
        assert_eq!(set.want_watchdog(0, anyone), Some(0));
        assert!(set.wants_watchdog() && !set.lacks_watchdog());
        assert_eq!(set.decline_watchdog(), Declined::Yes);
        assert_eq!(set.decline_watchdog(), Declined::Nobody);
    }
}

#[test]
fn each_worker_that_becomes_a_watchdog_takes_one_wish_for_one_back() {
    let set = IdleSet::<Host>::new(3);
    (0..3).for_each(|worker| set.enter(worker));
    assert_eq!(set.want_watchdog(0, anyone), Some(0));
    assert_eq!(set.want_watchdog(0, anyone), Some(1));
    for is_wanted in [true, false] {
        assert_eq!(set.begin_watchdog(), Watchdog::Begun);
        assert_eq!(set.wants_watchdog(), is_wanted);
    }
    assert_eq!(set.decline_watchdog(), Declined::Nobody);
    set.end_watchdog();
    assert!(set.lacks_watchdog(), "more are counted than there are");
}
