//! [`run()`]: an async program with each seed, twice.

use super::offline::with_cores_off;
use super::oracle;
use super::watch::watched;
use super::{Config, Failed, Fault, Place, Report, Verdict};
use crate::Builder;
use crate::here::Simulated;
use crate::owner::Owner;
use doorbell_machine::Machine;
use doorbell_machine::sim::seeds::{self, Setup};
use doorbell_machine::sim::{self as machine, Witness};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Runs an async program on simulated cores, twice with each seed of the configuration. Each run begins with a new
/// runtime, and the program may spawn, call, sleep, lock and await as on a host. Networks, signals and other
/// descriptors return [`NotSimulated`](super::NotSimulated), of kind `Unsupported`.
///
/// # Errors
/// [`Failed`] names the first seed that failed, and why; or, if the program fails in the same way with fewer faults or on
/// fewer cores, that run ([`Config::shrink_within`]). If the two runs of a seed differ, it has failed too, and so has a
/// range without a seed.
pub fn run<F, R>(config: Config, program: F) -> Result<Report, Failed>
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output: Verdict>,
{
    let Config { setup, builder } = config;
    seeds::run(&setup, &live(builder, program))
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
    let Config { setup, builder } = config;
    seeds::test(setup, place, &live(builder, program));
}

/// What the first simulated thread does: starts the runtime, runs the program and ends the runtime.
fn live<F, R>(
    builder: Builder,
    program: F,
) -> Arc<impl Fn(&Setup, Option<Witness>) + Send + Sync + 'static>
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output: Verdict>,
{
    Arc::new(move |setup: &Setup, witness: Option<Witness>| {
        let tasks = seeds::keep();
        let builder = watched(builder.clone(), &tasks, witness);
        let owner = builder
            .plan_simulated(setup.cores)
            .and_then(|plan| Owner::<Simulated>::start(&plan));
        let owner = match owner {
            Ok(owner) => owner,
            Err(error) => return machine::fail(error.to_string()),
        };
        oracle::watch(&owner.rt);
        let bound = Simulated::bind_thread(&[setup.cpu_of_program()]);
        debug_assert!(bound.is_ok(), "the machine has that CPU");
        // Made inside the runtime, as the rest of the program.
        let run = async { program().await.failure() };
        let runtime = owner.handle();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            if setup.faults.contains(&Fault::Offline) {
                runtime.try_block_on(with_cores_off(runtime.clone(), run))
            } else {
                runtime.try_block_on(run)
            }
        }));
        drop(runtime);
        match ended {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(why))) => machine::fail(why),
            Ok(Err(error)) => machine::fail(error.to_string()),
            // Caught, because a thread that unwinds cannot wait for the workers to end.
            Err(payload) => machine::fail(format!(
                "it panicked: {}",
                crate::error::Payload::new(payload)
            )),
        }
        machine::end_faults();
        let rt = Arc::clone(&owner.rt);
        drop(owner);
        oracle::check_ended(&rt);
    })
}
