//! Whoever is urgent runs, and the jobs go on; nothing here asserts how soon.

use super::*;

/// How many passes of half a second may go by without a run.
const TRIES: usize = 60;

#[test]
fn the_urgent_one_runs_and_the_jobs_go_on() {
    let Some(stage) = Stage::for_tests() else {
        return;
    };
    for mut one in contestants(stage) {
        let name = format!("{} ({}, {})", one.name(), one.variant(), one.group());
        assert!(matches!(one.run(1), Err(LabError::NotSetUp)), "{name}");
        one.setup().expect(&name);
        // Tokio's urgent one may have to wait for 32 jobs, and for longer on a busy computer.
        let mut passes = (0..TRIES).map(|_| one.run(5).expect(&name));
        let outcome =
            passes.find(|outcome| outcome.operations > 0 && outcome.figures["polls_per_s"] > 0.0);
        let outcome = outcome.expect(&name);
        assert!(outcome.figures.contains_key("p999_us"), "{name}");
        one.teardown().expect(&name);
    }
}
