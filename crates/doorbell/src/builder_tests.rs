//! Which CPUs a runtime takes, and what cannot be built.

use super::{BuildError, Builder, Ground, neighbours};
use doorbell_machine::Topology;
use std::collections::BTreeSet;

/// What a builder chooses where these CPUs are allowed.
fn choose(
    builder: &Builder,
    cpus: &[usize],
    on_machine: usize,
) -> Result<Vec<Option<usize>>, BuildError> {
    choose_within(builder, cpus, on_machine, None)
}

fn choose_within(
    builder: &Builder,
    cpus: &[usize],
    on_machine: usize,
    quota: Option<usize>,
) -> Result<Vec<Option<usize>>, BuildError> {
    builder.choose_cpus(&Ground {
        topology: &Topology::flat(cpus.iter().copied(), "a test"),
        on_machine,
        quota,
        lot: 0,
    })
}

#[test]
fn the_default_is_one_core_per_allowed_cpu() {
    let cpus = choose(&Builder::new(), &[0, 1, 2], 3).unwrap();
    assert_eq!(cpus, [None, None, None]);
}

#[test]
fn the_default_is_no_more_than_the_quota() {
    let cores = |quota| {
        let cpus = choose_within(&Builder::new(), &[0, 1, 2, 3], 4, quota).unwrap();
        assert!(cpus.iter().all(Option::is_none));
        cpus.len()
    };
    assert_eq!(cores(None), 4);
    assert_eq!(cores(Some(1)), 1);
    assert_eq!(cores(Some(3)), 3);
    assert_eq!(cores(Some(64)), 4);
}

#[test]
fn what_is_asked_for_is_not_bound_by_a_quota() {
    let few = Some(1);
    let counted = choose_within(&Builder::new().cores(3), &[0, 1, 2, 3], 4, few).unwrap();
    assert_eq!(counted.len(), 3);
    let listed = Builder::new().core_list([2, 3]);
    let listed = choose_within(&listed, &[0, 1, 2, 3], 4, few).unwrap();
    assert_eq!(listed, [Some(2), Some(3)]);
}

#[test]
fn under_a_quota_a_mask_of_its_own_is_pinned_only_if_all_of_it_is_used() {
    let under = |quota| choose_within(&Builder::new(), &[4, 6], 8, Some(quota)).unwrap();
    assert_eq!(under(1), [None]);
    assert_eq!(under(2), [Some(4), Some(6)]);
    let asked = choose_within(&Builder::new().pin(true), &[4, 6], 8, Some(1)).unwrap();
    assert_eq!(asked, [Some(4)]);
}

#[test]
fn a_mask_of_its_own_or_a_list_is_pinned_unless_told_otherwise() {
    let masked = choose(&Builder::new(), &[4, 6], 8).unwrap();
    assert_eq!(masked, [Some(4), Some(6)]);
    let listed = choose(&Builder::new().core_list([1, 0]), &[0, 1], 2).unwrap();
    assert_eq!(listed, [Some(1), Some(0)]);
    let free = Builder::new().core_list([1, 0]).pin(false);
    assert_eq!(choose(&free, &[0, 1], 2).unwrap(), [None, None]);
    let pinned = Builder::new().cores(1).pin(true);
    assert_eq!(choose(&pinned, &[0, 1], 2).unwrap(), [Some(0)]);
}

#[test]
fn the_lot_moves_the_place_and_uses_every_cpu_in_the_end() {
    let cpus = [1, 2, 3, 5, 8];
    assert_eq!(neighbours(&cpus, 2, 0), [1, 2]);
    assert_eq!(neighbours(&cpus, 2, 1), [3, 5]);
    assert_eq!(neighbours(&cpus, 2, 2), [8, 1]);
    assert_eq!(neighbours(&cpus, 2, 3), [1, 2]);
    for count in 1..cpus.len() {
        let chosen: Vec<_> = (0..10).map(|lot| neighbours(&cpus, count, lot)).collect();
        let firsts: BTreeSet<_> = chosen.iter().map(|of| of[0]).collect();
        assert_eq!(firsts.len(), cpus.len().div_ceil(count), "{chosen:?}");
        let all: BTreeSet<_> = chosen.iter().flatten().collect();
        assert_eq!(all.len(), cpus.len(), "{chosen:?}");
        for of in &chosen {
            assert_eq!(of.iter().collect::<BTreeSet<_>>().len(), count, "{of:?}");
        }
    }
    for lot in [0, 1, u64::MAX] {
        assert_eq!(neighbours(&cpus, 5, lot), cpus, "all of them, in order");
        assert_eq!(neighbours(&cpus, 0, lot), []);
    }
}

#[test]
fn a_pinned_number_of_cores_follows_the_lot() {
    let pinned = |lot| {
        let builder = Builder::new().cores(1).pin(true);
        let chosen = builder.choose_cpus(&Ground {
            topology: &Topology::flat([4, 6, 7], "a test"),
            on_machine: 8,
            quota: None,
            lot,
        });
        chosen.unwrap()
    };
    assert_eq!(pinned(0), [Some(4)]);
    assert_eq!(pinned(1), [Some(6)]);
    assert_eq!(pinned(u64::MAX), [Some(4)]);
}

#[test]
fn numbers_and_names_that_cannot_be() {
    let many = Builder::new().cores(usize::MAX).build().unwrap_err();
    assert!(matches!(
        many,
        BuildError::TooManyCores { asked: usize::MAX }
    ));
    let name = Builder::new().cores(1).name("a\0b").build().unwrap_err();
    assert!(name.to_string().contains("NUL"), "{name}");
}

#[test]
fn a_number_of_cores_is_not_pinned_unless_told() {
    let some = Builder::new().cores(2);
    assert_eq!(choose(&some, &[0, 1, 2, 3], 8).unwrap(), [None, None]);
}

#[test]
fn bad_choices_say_what_to_do() {
    let none = choose(&Builder::new().cores(0), &[0], 1);
    assert!(matches!(none, Err(BuildError::NoCores)));
    let none = choose(&Builder::new().core_list([]), &[0], 1);
    assert!(matches!(none, Err(BuildError::NoCores)));
    let outside = Builder::new().core_list([0, 9]);
    let outside = choose(&outside, &[0, 2], 4).unwrap_err();
    assert!(
        outside.to_string().starts_with("CPU 9 is not among"),
        "{outside}"
    );
    assert!(outside.to_string().contains("(0, 2)"), "{outside}");
    let twice = choose(&Builder::new().core_list([0, 0]), &[0], 1);
    assert!(matches!(twice, Err(BuildError::CpuTwice { cpu: 0 })));
    let many = choose(&Builder::new().cores(3).pin(true), &[0, 1], 2);
    assert!(matches!(
        many,
        Err(BuildError::TooManyToPin { asked: 3, cpus: 2 })
    ));
}

#[test]
fn more_cores_than_cpus_run_unpinned() {
    let cpus = choose(&Builder::new().cores(3), &[0, 1], 2).unwrap();
    assert_eq!(cpus, [None, None, None]);
}
