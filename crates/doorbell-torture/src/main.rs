//! The torture: everything at once, on real threads; at the end every count must add up.
//!
//! Modelled on the kernel's scftorture: a mix of calls to one, several and all cores, with and without
//! waiting, some from inside others; tasks that move; timers; cores that are taken off and put back; and
//! other runtimes that come and go.
//!
//! It runs in rounds. A round has a runtime whose shape comes from the seed, drivers on threads and in
//! tasks, one thread that turns cores off and on, and one that lets other runtimes come and go. At its end
//! nothing may be left. The seed determines the choices of a round, but not how the threads interleave;
//! each round's seed is one more than the previous one.
//!
//! | file | what is in it |
//! |---|---|
//! | `op.rs` | the table of operations |
//! | `calls.rs`, `tasks.rs`, `families.rs` | the operations |
//! | `driver.rs` | the threads and tasks that perform them |
//! | `ledger.rs` | each closure: where and how often it ran, and who saw it |
//! | `churn.rs` | runtimes that come and go |
//! | `cores.rs` | cores that go off and come back |
//! | `balance.rs` | what the counters must say at the end |
//! | `round.rs` | a round |
//! | `watch.rs` | the thread that notices a hang |

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

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use report::Report;

use self::ledger::Ledger;
use self::watch::Stations;

/// Do everything at once, and check that nothing is lost
///
/// Threads and tasks call, post, spawn, wake, sleep and abort at random, on spinning and parking
/// workers, while cores go off and come back and other runtimes come and go. Every closure must run
/// once, on its core, or be refused because the core is off. Its waiter must see what it wrote. At the
/// end of a round the counters must add up, and nothing may be left.
///
/// The seed determines the operations. Failures are printed with the seed of their round. The exit
/// status is then 1, or 3 if the program hangs.
#[derive(Clone, Debug, Default, Parser)]
struct Options {
    /// Start rounds for this many seconds; the last round runs to its end
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u64,
    /// The seed of the first round; each further round adds one [default: from the clock]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let report = run(&Options::parse());
    let written = io::stdout().write_all(report.to_text().as_bytes());
    if report.has_failed() || written.is_err() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs rounds, at least one, until the time is over or a round fails.
fn run(options: &Options) -> Report {
    let first = options.seed.unwrap_or_else(seed_of_the_clock);
    let limit = Duration::from_secs(options.seconds);
    let stations = Arc::new(Stations::default());
    stations.guard();
    let started = Instant::now();
    let mut report = Report::new(first);
    for seed in (0..).map(|round| first.wrapping_add(round)) {
        stations.seed(seed);
        let ledger = Ledger::new();
        let done = round::run(seed, &ledger, &stations);
        report.add(seed, &done, ledger.failures());
        if report.has_failed() || started.elapsed() >= limit {
            break;
        }
    }
    report.took = started.elapsed();
    report
}

/// A seed from the clock, short enough to type.
fn seed_of_the_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |time| time.as_nanos() as u64 % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::{Options, run};

    #[test]
    fn a_round_finds_nothing_wrong_and_repeats_its_operations() {
        let options = Options {
            seed: Some(3),
            ..Options::default()
        };
        let (one, other) = (run(&options), run(&options));
        assert!(!one.has_failed(), "{}", one.to_text());
        assert_eq!(one.rounds, 1);
        assert_eq!(one.operations(), other.operations(), "the seed says which");
    }
}
