//! The oracle: distinguishes a promise that doorbell itself broke from a program that waits for ever.

use crate::here::Simulated;
use crate::rt::Rt;
use doorbell_core::scheduler::Rest;
use doorbell_machine::sim::{self, seeds};
use std::sync::Arc;

/// Looks at the runtime if all threads of the run wait for ever.
pub(super) fn watch(rt: &Arc<Rt<Simulated>>) {
    let rt = Arc::downgrade(rt);
    seeds::watch(Box::new(move || {
        let Some(rt) = rt.upgrade() else {
            return Ok(());
        };
        let clock_runs = !rt.clock.is_frozen();
        check(&rt, Rest::Asleep { clock_runs })
    }));
}

/// Looks at a runtime whose workers have ended.
pub(super) fn check_ended(rt: &Rt<Simulated>) {
    if let Err(why) = sim::unseen(|| check(rt, Rest::Ended)) {
        sim::fail_runtime(why);
    }
}

fn check(rt: &Rt<Simulated>, rest: Rest) -> Result<(), String> {
    rt.classes.iter().try_for_each(|class| {
        let scheduler = class.workers[0].remote().scheduler();
        scheduler.check_at_rest(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::Simulated;
    use crate::sim::{Config, Problem, run};
    use crate::switches::{Switches, TimerPull};
    use crate::time::{Duration, sleep};
    use crate::{Builder, call_on, spawn, worker_local};
    use doorbell_core::scheduler::RemoteRef;
    use doorbell_core::worker::Local;
    use doorbell_machine::Bug;
    use doorbell_machine::sim::break_thread;

    fn two_cores() -> Config {
        Config::new()
            .cores(2)
            .seeds(0..1)
            .shrink_within(Duration::ZERO)
    }

    /// What the run of such a program says that fails.
    fn failure<R: Future<Output = ()>>(
        config: Config,
        program: impl Fn() -> R + Send + Sync + 'static,
    ) -> String {
        let failed = run(config, program).expect_err("a promise is broken");
        match failed.problem {
            Problem::Program { what, .. } => what,
            other => panic!("{other}"),
        }
    }

    #[track_caller]
    fn assert_blames_the_runtime(what: &str, broken: &str) {
        assert!(
            what.contains("broke a promise of its own") && what.contains(broken),
            "{what}"
        );
    }

    #[test]
    fn a_worker_that_nobody_rings() {
        let what = failure(two_cores(), || async {
            sleep(Duration::from_millis(5)).await;
            break_thread(Bug::BellNoRing);
            let _ = spawn(async {}).await;
        });
        assert_blames_the_runtime(&what, "a task waits at a worker that rests");
    }

    #[test]
    fn a_timer_that_nobody_wakes_for() {
        let pulls = Switches {
            timer_pull: TimerPull::On,
            ..Switches::default()
        };
        let config = two_cores().builder(Builder::new().cores(2).switches(pulls));
        let what = failure(config, || async {
            break_thread(Bug::PullForgetsDuty);
            let _ = spawn(sleep(Duration::from_millis(5))).await;
        });
        assert_blames_the_runtime(&what, "no thread wakes for a timer");
    }

    /// Its drop says that its worker, which ends then, is idle.
    struct Idles(RemoteRef<Simulated>);

    impl Drop for Idles {
        fn drop(&mut self) {
            self.0.scheduler().idle().enter(self.0.worker());
        }
    }

    worker_local!(static IDLES: Idles = Local::<Simulated>::with_current(|local| {
        Idles(local.expect("a worker").remote().clone())
    }));

    #[test]
    fn a_worker_that_has_ended_and_counts_as_idle() {
        let what = failure(two_cores(), || async {
            call_on(1, || IDLES.with(|_| ())).await.expect("it is on");
        });
        assert_blames_the_runtime(&what, "it has ended and counts as idle (worker 1");
    }

    #[test]
    fn a_program_that_waits_for_ever_by_itself() {
        let what = failure(two_cores(), || async {
            let _ = spawn(std::future::pending::<()>()).await;
        });
        assert!(what.starts_with("every task waits"), "{what}");
    }
}
