//! Which servers take part in which parts. The servers themselves are tested from outside, as processes.

use super::*;

#[test]
fn every_part_has_one_baseline_and_names_are_unique() {
    let all = contestants(false);
    for act in ACTS {
        let group: Vec<_> = all.iter().filter(|one| one.group() == act.name).collect();
        assert!(group.len() >= 3, "{}", act.name);
        assert_eq!(group.iter().filter(|one| one.is_baseline()).count(), 1);
        let mut names: Vec<_> = group.iter().map(|one| one.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), group.len(), "{}", act.name);
    }
}

#[test]
fn who_was_not_set_up_says_so() {
    for mut one in contestants(false) {
        assert!(matches!(one.run(0), Err(LabError::NotSetUp)));
        one.teardown().expect("there is nothing to end");
    }
}

#[test]
fn fewer_connections_come_with_a_remedy() {
    assert_eq!(fewer(acts::idle_connections_wanted()), None);
    let note = fewer(512).expect("it is told");
    assert!(note.contains("512") && note.contains("ulimit"), "{note}");
}
