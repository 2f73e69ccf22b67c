//! `doorbell torture`: everything at once, on real threads, and every count must add up.
//!
//! Modelled on the kernel's scftorture: a mix of calls to single, many and all cores, waiting and
//! not, some from inside others; tasks that move, timers, cores that are taken off and put back, and
//! runtimes that come and go beside it.
//!
//! It goes in rounds. A round has a runtime whose shape comes from the seed, drivers on threads and
//! in tasks, one that turns its cores, and one that lets other runtimes come and go. At its end
//! nothing may be left. The
//! choices of a round come from its seed, which is one more than that of the round before; how the
//! threads interleave does not.
//!
//! | file | what is in it |
//! |---|---|
//! | `op.rs` | the table of operations |
//! | `calls.rs`, `tasks.rs`, `families.rs` | the operations |
//! | `driver.rs` | who does them |
//! | `ledger.rs` | each closure: where, how often, and seen by whom |
//! | `churn.rs` | runtimes that come and go beside it |
//! | `cores.rs` | cores that go off and come back |
//! | `balance.rs` | what the counters have to say at the end |
//! | `round.rs` | a round |
//! | `watch.rs` | whoever looks whether it still goes on |

mod balance;
mod calls;
mod churn;
mod cores;
mod dice;
mod driver;
mod families;
mod ledger;
mod op;
mod report;
mod round;
mod tasks;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use report::TortureReport;

use self::ledger::Ledger;
use self::watch::Stations;
use crate::progress::Progress;

/// What the user asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TortureOptions {
    /// How long rounds are begun.
    pub seconds: u64,
    /// The seed of the first round; one from the clock if it is left out.
    pub seed: Option<u64>,
    /// JSON instead of the table.
    pub json: bool,
}

/// Runs rounds until the time is over or one fails. There is one at least.
pub fn run(options: &TortureOptions) -> TortureReport {
    let first = options.seed.unwrap_or_else(seed_of_the_clock);
    let limit = Duration::from_secs(options.seconds);
    let progress = Progress::seconds_on_stderr(options.seconds);
    let stations = Arc::new(Stations::default());
    stations.guard();
    let started = Instant::now();
    let mut report = TortureReport::new(first);
    for seed in (0..).map(|round| first.wrapping_add(round)) {
        let elapsed = started.elapsed();
        progress.at_second(
            elapsed.as_secs(),
            &format!("round {} (seed {seed})", report.rounds() + 1),
        );
        stations.seed(seed);
        let ledger = Ledger::new();
        let done = round::run(seed, &ledger, &stations);
        report.add(seed, &done, ledger.failures());
        if report.has_failed() || started.elapsed() >= limit {
            break;
        }
    }
    progress.clear();
    report.took(started.elapsed());
    report
}

/// Short enough to be typed.
fn seed_of_the_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |time| time.as_nanos() as u64 % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::{TortureOptions, run};

    #[test]
    fn a_round_finds_nothing_wrong_and_repeats_its_operations() {
        let options = TortureOptions {
            seed: Some(3),
            ..TortureOptions::default()
        };
        let (one, other) = (run(&options), run(&options));
        assert!(!one.has_failed(), "{}", one.to_table());
        assert_eq!(one.rounds(), 1);
        assert_eq!(one.operations(), other.operations(), "the seed says which");
    }
}
