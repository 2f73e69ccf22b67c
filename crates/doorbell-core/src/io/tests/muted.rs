//! A registration that is muted, and heard again.

use super::{Count, Here, look, pair};
use crate::io::Direction;
use std::io::Write as _;
use std::task::Context;

#[test]
fn what_is_muted_is_no_source_and_is_heard_again_of_what_came_meanwhile() {
    let place = Here::default();
    let mut it = pair(&place);
    it.registration.mute(true).unwrap();
    it.registration.mute(true).unwrap();
    assert!(!place.driver.has_sources(), "the worker parks for it");
    it.theirs.write_all(b"x").unwrap();
    let (count, waker) = Count::waker();
    assert!(
        it.registration
            .poll_ready(&Context::from_waker(&waker), Direction::Read)
            .is_pending()
    );
    assert_eq!(look(&place), 0);
    it.registration.mute(false).unwrap();
    assert!(place.driver.has_sources());
    assert_eq!((look(&place), count.get()), (1, 1));
    // Each of the two ways to end leaves a count of zero.
    let mut other = pair(&place);
    other.registration.mute(true).unwrap();
    drop(other.registration);
    assert!(place.driver.has_sources());
    drop(it.registration);
    assert!(!place.driver.has_sources());
}
