//! Each program at a small size: floors and ceilings of its figures, in virtual time.

mod calls;
mod kernel;
mod pingpong;
mod posts;
mod rank;
mod requests;
mod rt;
mod schbench;
mod sleepers;
mod timer_cost;
mod wake;

use super::Bench;
use crate::profile::Profile;
use doorbell_core::switches::{Switches, TimerPull};

const US: u64 = 1_000;

fn bench(profile: &str, seed: u64) -> Bench {
    Bench {
        machine: Profile::load(profile).unwrap().spec().clone(),
        switches: Switches::default(),
        seed,
    }
}

/// The same on two sockets of Zen 3, with this setting.
fn bench_with(timer_pull: TimerPull, seed: u64) -> Bench {
    Bench {
        switches: Switches {
            timer_pull,
            ..Switches::default()
        },
        ..bench("zen3-2x64", seed)
    }
}

/// The least and the greatest.
fn extremes(times_ns: &[u64]) -> (u64, u64) {
    let sorted = sorted(times_ns);
    (sorted[0], sorted[sorted.len() - 1])
}

fn median(times_ns: &[u64]) -> u64 {
    sorted(times_ns)[times_ns.len() / 2]
}

fn sorted(times_ns: &[u64]) -> Vec<u64> {
    let mut sorted = times_ns.to_vec();
    sorted.sort_unstable();
    sorted
}
