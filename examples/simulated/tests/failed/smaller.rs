//! A failure is made smaller: fewer faults, then fewer cores.

use crate::lost;
use doorbell::sim::{self, Config, Failed, Fault, Problem};
use doorbell::time::{Duration, Instant, sleep};
use std::process::Command;

const ALL: [Fault; 4] = [
    Fault::Deschedule,
    Fault::SlowCore,
    Fault::ClockJump,
    Fault::LateWakes,
];

async fn loses_updates() {
    sim::check(lost::updates_of_four().await == 4, "an update was lost");
}

/// What fails is the run that the failure names.
fn repeats(failed: &Failed, program: impl AsyncFn() + Copy + Send + Sync + 'static) {
    let of_failure = Config::new()
        .cores(failed.cores)
        .faults(failed.faults.clone())
        .seeds(failed.seed..failed.seed + 1)
        .shrink_within(Duration::ZERO);
    let again = sim::run(of_failure, move || async move { program().await }).unwrap_err();
    assert_eq!(
        (again.seed, again.problem),
        (failed.seed, failed.problem.clone())
    );
    assert_eq!(again.first, None);
}

#[test]
fn what_needs_neither_faults_nor_cores_is_shown_without() {
    let config = Config::new().cores(16).seeds(3..6).faults(ALL);
    let failed = sim::run(config, loses_updates).unwrap_err();
    assert_eq!((failed.cores, &failed.faults[..]), (1, &[][..]), "{failed}");
    let first = failed.first.clone().unwrap();
    assert_eq!((first.seed, first.cores), (3, 16));
    assert_eq!(first.faults, ALL);
    assert!(
        failed
            .to_string()
            .contains(" on 1 core: an update was lost")
            && failed.to_string().contains(
                "found by seed 3 on 16 cores with deschedule, slow_core, clock_jump, late_wakes"
            ),
        "{failed}"
    );
    repeats(&failed, loses_updates);
}

/// Finds a clock that jumps by 5 ms or more.
async fn counts_on_the_clock() {
    for _ in 0..500 {
        let until = Instant::now() + Duration::from_micros(100);
        sleep(Duration::from_micros(100)).await;
        let late = Instant::now() - until;
        sim::check(late < Duration::from_millis(5), "very late");
    }
}

#[test]
fn what_needs_one_fault_is_shown_with_that_one() {
    let config = Config::new().cores(4).seeds(0..100).faults(ALL);
    // A busy machine takes longer than the usual time.
    let config = config.shrink_within(Duration::from_mins(1));
    let failed = sim::run(config, counts_on_the_clock).unwrap_err();
    assert_eq!(failed.faults, [Fault::ClockJump], "{failed}");
    repeats(&failed, counts_on_the_clock);
}

#[test]
fn another_failure_is_not_taken_for_a_smaller_one() {
    // On fewer than six cores the call fails, which is something else.
    let needs_six = || async {
        let core = doorbell::call_on(5, doorbell::current_core).await.unwrap();
        sim::check(core.is_none(), "a call ran on a worker");
    };
    let failed = sim::run(Config::new().cores(16), needs_six).unwrap_err();
    assert_eq!(failed.cores, 6, "{failed}");
    let Problem::Program { what, .. } = &failed.problem else {
        panic!("{failed}");
    };
    assert!(what.starts_with("a call ran on a worker"), "{what}");
}

#[test]
fn without_time_a_failure_stays_as_it_was_found() {
    let config = Config::new().cores(16).faults(ALL);
    let failed = sim::run(config.shrink_within(Duration::ZERO), loses_updates).unwrap_err();
    assert_eq!((failed.cores, &failed.faults[..]), (16, &ALL[..]));
    assert_eq!(failed.first, None);
}

/// Runs a test of this file with these variables; returns whether it passed, and what it said.
fn with_variables(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("smaller::{test}")])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    (ran.status.success(), said)
}

#[doorbell::test(sim, cores = 4, seeds = 0..3, faults(clock_jump))]
async fn a_clock_that_nobody_counts_on() {
    if let Ok(cores) = std::env::var("DOORBELL_SIM_CORES") {
        assert_eq!(doorbell::Handle::current().cores().to_string(), cores);
        counts_on_the_clock().await;
    }
}

#[test]
fn the_variables_choose_the_machine() {
    let run =
        |variables: &[(&str, &str)]| with_variables("a_clock_that_nobody_counts_on", variables);
    let cores = ("DOORBELL_SIM_CORES", "3");
    let (passed, said) = run(&[cores, ("DOORBELL_SIM_FAULTS", "none")]);
    assert!(passed, "{said}");
    let faults = ("DOORBELL_SIM_FAULTS", "late_wakes, clock_jump");
    let (passed, said) = run(&[cores, faults]);
    assert!(!passed && said.contains("very late"), "{said}");
    let (passed, said) = run(&[cores, faults, ("DOORBELL_SIM_SEED", "2")]);
    let trace = said.split("https://ui.perfetto.dev: ").nth(1);
    let trace = trace.and_then(|rest| rest.lines().next()).unwrap();
    assert!(!passed && said.contains("seed 2 on 3 cores"), "{said}");
    std::fs::remove_file(trace).unwrap();
    let (passed, said) = run(&[("DOORBELL_SIM_FAULTS", "clock_jumps")]);
    assert!(!passed && said.contains("no fault `clock_jumps`"), "{said}");
    let (passed, said) = run(&[("DOORBELL_SIM_CORES", "many")]);
    assert!(!passed && said.contains("is no number"), "{said}");
}

#[doorbell::test(sim, cores = 2, seeds = 7..9, faults(late_wakes))]
#[should_panic(
    expected = "once more: DOORBELL_SIM_SEED=7 DOORBELL_SIM_CORES=1 DOORBELL_SIM_FAULTS=none cargo test -p doorbell-simulated -- --exact smaller::a_failure"
)]
async fn a_failure_names_the_command_that_repeats_it() {
    sim::check(
        doorbell::current_core().is_some(),
        "the program is no worker",
    );
}
