//! What `#[doorbell::test(sim)]` calls, and how a failure is repeated.

use super::{Config, Failed, Fault, Verdict, run};
use std::fmt::Write as _;
use std::time::Duration;

/// The environment variables that repeat a run: the one seed to run, and the number of cores and the faults that replace
/// those of the test.
const SEED: &str = "DOORBELL_SIM_SEED";
const CORES: &str = "DOORBELL_SIM_CORES";
const FAULTS: &str = "DOORBELL_SIM_FAULTS";

/// The value of [`FAULTS`] that stands for none.
const NONE: &str = "none";

/// Where a test stands.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The package, if cargo builds it.
    pub package: Option<&'static str>,
    /// The module, from the crate on.
    pub module: &'static str,
    /// The function.
    pub name: &'static str,
}

/// What `#[doorbell::test(sim)]` calls.
///
/// # Panics
/// If a run fails: with the seed, what failed, and the command that repeats it.
#[doc(hidden)]
#[track_caller]
pub fn test<F, R>(config: Config, place: Place, program: F)
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output: Verdict>,
{
    let of_test = (config.cores, config.faults.clone());
    let config = match repeated(config, place, |name| std::env::var(name).ok()) {
        Ok(config) => config,
        Err(wrong) => panic!("{wrong}"),
    };
    if let Err(failed) = run(config, program) {
        panic!("{failed}\n{}", once_more(&failed, &of_test, place));
    }
}

/// The configuration that the environment asks for.
fn repeated(
    mut config: Config,
    place: Place,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Config, String> {
    if let Some(cores) = variable(CORES) {
        let cores = cores.parse();
        config = config.cores(cores.map_err(|error| format!("{CORES} is no number: {error}"))?);
    }
    if let Some(faults) = variable(FAULTS) {
        let words = faults.split(',').map(str::trim);
        let words = words.filter(|word| !word.is_empty() && *word != NONE);
        let faults: Result<Vec<Fault>, String> = words
            .map(|word| Fault::named(word).ok_or_else(|| format!("{FAULTS}: no fault `{word}`")))
            .collect();
        config = config.faults(faults?);
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
        config = config.seeds(seed..end).shrink_within(Duration::ZERO);
        config = config.trace(trace);
    }
    Ok(config)
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
