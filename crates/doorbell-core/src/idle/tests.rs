//! The idle set on one thread: every step from every small state.

use super::{IdleSet, Left, Search, Searching, Seen, WorkSet};
use doorbell_machine::Host;

fn anyone(_: usize) -> bool {
    true
}

#[test]
fn a_lane_is_in_the_work_set_until_it_idles_with_nothing() {
    let set = WorkSet::<Host>::new(130);
    let seen = Seen::new(130);
    let look = || {
        set.look(&seen);
        (0..130).filter(|lane| seen.holds(*lane)).collect()
    };
    assert_eq!((look(), seen.any()), (Vec::new(), false));
    for lane in [70, 6, 129, 70] {
        set.add(lane);
    }
    assert_eq!((look(), seen.any()), (vec![6, 70, 129], true));
    set.remove(70, || true);
    set.remove(129, || false);
    set.remove(7, || unreachable!("it is not in the set"));
    assert_eq!(look(), [6, 70]);
}

#[test]
fn a_lane_that_nobody_claims_leaves_by_itself() {
    let set = IdleSet::<Host>::new(3);
    assert!(!set.any());
    set.enter(1);
    assert!(set.any() && !set.anyone_searches());
    assert_eq!(set.leave(1), Left::ByItself);
    assert!(!set.any());
}

#[test]
fn w2_a_claimed_lane_is_counted_by_its_waker_and_owes_the_end_of_its_search() {
    let set = IdleSet::<Host>::new(3);
    set.enter(2);
    assert_eq!(set.claim(0, anyone), Some(2));
    assert!(!set.any() && set.anyone_searches());
    assert_eq!(set.leave(2), Left::Claimed);
    assert!(set.anyone_searches(), "leaving does not end the search");
    assert_eq!(set.end_search(), Searching::None);
    assert!(!set.anyone_searches());
}

#[test]
fn w1_a_lane_is_in_the_set_once_however_often_it_enters() {
    let set = IdleSet::<Host>::new(2);
    set.enter(0);
    set.enter(0);
    assert_eq!(set.claim(0, anyone), Some(0));
    assert_eq!(set.claim(0, anyone), None);
    assert_eq!(set.end_search(), Searching::None);
}

#[test]
fn a_claim_in_vain_leaves_no_count() {
    let set = IdleSet::<Host>::new(2);
    assert_eq!(set.claim(0, anyone), None);
    assert_eq!(set.claim_as_first(0, anyone), None);
    assert!(!set.anyone_searches());
}

#[test]
fn the_preferred_lane_is_claimed_first_then_the_next_one() {
    let set = IdleSet::<Host>::new(130);
    for lane in [0, 3, 70, 129] {
        set.enter(lane);
    }
    assert_eq!(set.claim(1, |lane| lane == 129), Some(129));
    assert_eq!(set.claim(1, |_| false), Some(3), "the next from 1 on");
    assert_eq!(set.claim(1, anyone), Some(0), "the same word comes first");
    assert_eq!(set.claim(1, anyone), Some(70));
    assert_eq!(set.claim(1, anyone), None);
}

#[test]
fn only_one_lane_is_claimed_while_it_searches() {
    let set = IdleSet::<Host>::new(4);
    set.enter(0);
    set.enter(1);
    assert_eq!(set.claim_as_first(0, anyone), Some(0));
    assert_eq!(set.claim_as_first(0, anyone), None, "one searches");
    assert_eq!(set.end_search(), Searching::None);
    assert_eq!(set.claim_as_first(0, anyone), Some(1));
}

#[test]
fn half_of_the_lanes_search_at_most() {
    for (lanes, most) in [(1, 1), (2, 1), (3, 2), (8, 4)] {
        let set = IdleSet::<Host>::new(lanes);
        for _ in 0..most {
            assert_eq!(set.begin_search(), Search::Begun);
        }
        assert_eq!(set.begin_search(), Search::Enough, "{lanes} lanes");
        for left in (0..most).rev() {
            let end = set.end_search();
            assert_eq!(end == Searching::None, left == 0);
        }
    }
}

#[test]
fn the_next_idle_lane_is_found_and_not_claimed() {
    let set = IdleSet::<Host>::new(130);
    assert_eq!(set.find(7), None);
    for lane in [3, 64, 129] {
        set.enter(lane);
    }
    for (near, found) in [
        (0, 3),
        (3, 3),
        (4, 64),
        (64, 64),
        (65, 129),
        (129, 129),
        (128, 129),
    ] {
        assert_eq!(set.find(near), Some(found), "from {near}");
    }
    let _ = set.leave(129);
    assert_eq!((set.find(129), set.find(65)), (Some(3), Some(3)));
    assert_eq!(
        (set.leave(3), set.leave(64)),
        (Left::ByItself, Left::ByItself)
    );
}
