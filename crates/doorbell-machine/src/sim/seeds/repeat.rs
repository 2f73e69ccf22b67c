//! [`test()`]: a program that is a test, and how its failure is repeated.

use super::{Failed, Fault, Setup, run};
use crate::sim::Witness;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// The environment variables that repeat a run: the one seed to run, and the number of cores and the faults that replace
/// those of the test.
const SEED: &str = "DOORBELL_SIM_SEED";
const CORES: &str = "DOORBELL_SIM_CORES";
const FAULTS: &str = "DOORBELL_SIM_FAULTS";

/// The value of [`FAULTS`] that stands for none.
const NONE: &str = "none";

/// Where a test stands.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The package, if cargo builds it.
    pub package: Option<&'static str>,
    /// The module, from the crate on.
    pub module: &'static str,
    /// The function.
    pub name: &'static str,
}

/// As [`run()`], for a test. The environment may name one run to repeat.
///
/// # Panics
/// If a run fails: with the seed, what failed, and the command that repeats it.
#[track_caller]
pub fn test(
    setup: Setup,
    place: Place,
    live: &Arc<impl Fn(&Setup, Option<Witness>) + Send + Sync + 'static>,
) {
    let of_test = (setup.cores, setup.faults.clone());
    let setup = match repeated(setup, place, |name| std::env::var(name).ok()) {
        Ok(setup) => setup,
        Err(wrong) => panic!("{wrong}"),
    };
    if let Err(failed) = run(&setup, live) {
        panic!("{failed}\n{}", once_more(&failed, &of_test, place));
    }
}

/// The setup that the environment asks for.
fn repeated(
    mut setup: Setup,
    place: Place,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Setup, String> {
    if let Some(cores) = variable(CORES) {
        let cores = cores.parse();
        setup.cores = cores.map_err(|error| format!("{CORES} is no number: {error}"))?;
    }
    if let Some(faults) = variable(FAULTS) {
        let words = faults.split(',').map(str::trim);
        let words = words.filter(|word| !word.is_empty() && *word != NONE);
        let faults: Result<Vec<Fault>, String> = words
            .map(|word| Fault::named(word).ok_or_else(|| format!("{FAULTS}: no fault `{word}`")))
            .collect();
        setup.faults = faults?;
    }
    if let Some(seed) = variable(SEED) {
        let seed: u64 = seed
            .parse()
            .map_err(|error| format!("{SEED} is no seed: {error}"))?;
        let end = seed
            .checked_add(1)
            .ok_or_else(|| format!("{SEED} is no seed: the last one is {}", u64::MAX - 1))?;
        // It is the run to look at, so no other is looked for.
        let name = format!("{}-{}-{seed}.json", place.module, place.name);
        let trace = std::env::temp_dir().join(name.replace("::", "-"));
        setup.seeds = seed..end;
        setup.shrink_within = Duration::ZERO;
        setup.trace = Some(trace);
    }
    Ok(setup)
}

/// The command that repeats a failure of a test with so many cores and these faults.
fn once_more(failed: &Failed, of_test: &(usize, Vec<Fault>), place: Place) -> String {
    let mut variables = format!("{SEED}={}", failed.seed);
    if failed.cores != of_test.0 {
        let _ = write!(variables, " {CORES}={}", failed.cores);
    }
    if failed.faults != of_test.1 {
        let words: Vec<String> = failed.faults.iter().map(Fault::to_string).collect();
        let words = if words.is_empty() {
            NONE.to_owned()
        } else {
            words.join(",")
        };
        let _ = write!(variables, " {FAULTS}={words}");
    }
    // The harness leaves out the name of the crate.
    let within = place.module.split_once("::");
    let path = within.map_or_else(
        || place.name.to_owned(),
        |(_, module)| format!("{module}::{}", place.name),
    );
    match place.package {
        Some(package) => {
            format!("once more: {variables} cargo test -p {package} -- --exact {path}")
        }
        None => format!("once more: with {variables}, the test {path}"),
    }
}
