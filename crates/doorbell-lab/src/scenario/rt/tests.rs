//! Every tick comes or is missed, and every wake leads to a run. No test here asserts how soon.

use super::super::common::{assert_fits, try_each};
use super::*;

fn cpus() -> Vec<usize> {
    allowed_cpus().expect("the mask can be read")
}

#[test]
fn everybody_ticks_and_the_extra_ones_run() {
    let cpus = cpus();
    try_each(contestants(&cpus, PERIOD), |one, name| {
        let outcome = one.run(30).expect(name);
        let figures = &outcome.figures;
        let ticks = outcome.operations + figures["missed_count"] as u64;
        assert_eq!(ticks, 30 * cpus.len() as u64, "{name}");
        assert_eq!(outcome.late.len() as u64, outcome.operations, "{name}");
        assert_eq!(figures.get("early_count"), Some(&0.0), "{name}");
        let has_extras = one.variant() != "no extra";
        assert_eq!(figures.contains_key("wait_max_us"), has_extras, "{name}");
        assert_eq!(figures.contains_key("skipped_count"), has_extras, "{name}");
        let counts_rings = figures.contains_key("rings_per_op");
        assert_eq!(counts_rings, one.name() == "doorbell", "{name}");
    });
}

#[test]
fn tokio_has_no_shorter_ticks_and_each_variant_has_one_baseline() {
    let short = Duration::from_micros(100);
    for (period, others) in [(PERIOD, &["doorbell", "tokio"][..]), (short, &["doorbell"])] {
        let all = contestants(&cpus(), period);
        for (variant, _) in VARIANTS {
            let group: Vec<_> = all.iter().filter(|one| one.group() == variant).collect();
            let baselines: Vec<_> = group.iter().map(|one| one.is_baseline()).collect();
            assert!(baselines[0] && !baselines[1..].contains(&true));
            let names: Vec<_> = group[1..].iter().map(|one| one.name()).collect();
            assert_eq!(names, others);
        }
    }
}

#[test]
fn extra_tasks_compute_for_a_part_of_the_period() {
    let [short, long] = [Duration::from_micros(100), PERIOD].map(steps_in);
    let times = long as f64 / short as f64;
    assert!((9.9..10.1).contains(&times), "{short}, {long}");
}

#[test]
fn the_table_fits() {
    let kept = [
        "p50 us",
        "p99 us",
        "max us",
        "x threads",
        "missed",
        "wait p50",
        "wait p99",
        "wait max",
    ];
    assert_fits(&contestants(&cpus(), PERIOD), &columns::columns(), &kept);
}
