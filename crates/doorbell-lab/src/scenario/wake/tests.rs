//! Every wake leads to one run. No test here asserts how soon.

use super::super::common::{assert_fits, try_each};
use super::*;

#[test]
fn every_wake_is_counted_and_done() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    try_each(contestants(stage), |one, name| {
        let outcome = one.run(1).expect(name);
        let workers = if one.variant().starts_with("light") {
            32
        } else {
            128
        };
        // On a busy machine a worker may still be busy with the last wake.
        let skipped = outcome.figures["skipped_count"] as u64;
        assert_eq!(outcome.operations + skipped, 25 * workers, "{name}");
        assert!(outcome.operations >= workers, "{name}");
        assert_eq!(outcome.late.len() as u64, outcome.operations, "{name}");
        let counts_stacked = outcome.figures.contains_key("stacked_per_1k");
        assert_eq!(counts_stacked, one.name() == "doorbell", "{name}");
    });
}

#[test]
fn every_variant_has_everybody_and_is_compared_with_tokio() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    let all = contestants(stage);
    for variant in VARIANTS {
        let group: Vec<_> = all
            .iter()
            .filter(|one| one.group() == variant.name)
            .collect();
        let names: Vec<_> = group.iter().map(|one| one.name()).collect();
        let expected = ["tokio", "doorbell", "smol", "OS threads", "spinning pool"];
        let count = match variant.messengers {
            Messengers::Alike => 5,
            Messengers::Threads => 3,
        };
        let settings = settings(variant).len();
        let expected = [&expected[..count], &vec!["doorbell"; settings]].concat();
        assert_eq!(names, expected);
        let baselines: Vec<_> = group.iter().map(|one| one.is_baseline()).collect();
        assert!(baselines[0] && !baselines[1..].contains(&true));
    }
}

#[test]
fn each_setting_of_the_switch_has_a_row_of_its_name() {
    let name_of = |setting| match setting {
        IdleClaim::On => "on",
        IdleClaim::Off => "off",
        IdleClaim::Mark => "mark",
        IdleClaim::Base => "base",
    };
    let of = |variant: Variant| settings(variant).into_iter();
    let all: Vec<_> = VARIANTS.into_iter().flat_map(of).collect();
    assert_eq!(all.len(), 8);
    for (setting, name) in &all {
        let end = format!(", idle_claim={}", name_of(*setting));
        assert!(name.ends_with(&end), "{name}");
        assert_eq!(all.iter().filter(|(_, other)| other == name).count(), 1);
    }
}

#[test]
fn the_table_fits() {
    if let Some(stage) = Stage::for_tests() {
        let kept = [
            "p50 us",
            "p99 us",
            "p99.5 us",
            "max us",
            "x tokio",
            "skipped",
            "stacked/1k",
        ];
        assert_fits(&contestants(stage), &columns::columns(), &kept);
    }
}
