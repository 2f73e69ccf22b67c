//! The scenarios, and what is made of their figures.

use anyhow::{Result, anyhow};
use doorbell_sim::bench::{pingpong, rank, requests, rt, schbench, sleepers, timer_cost, wake};
use doorbell_sim::profile::Profile;

use super::{AS_THEY_STAND, Case, Plan};
use crate::scenario::pingpong::pairs;
use crate::scenario::seeds::plans as seeds;

type Make = fn(&Profile, Option<usize>) -> Result<Plan>;

pub(super) const ALL: [(&str, Make); 11] = [
    ("wake", wake),
    ("rt", rt),
    ("rank", rank),
    ("pingpong", pingpong),
    ("timer-sleepers", sleepers),
    ("timer-cost", timer_cost),
    ("requests", requests),
    ("call", seeds::call),
    ("shootdown", seeds::call_all),
    ("kernel", seeds::kernel),
    ("scale", seeds::scale),
];

const TIMER_PULL: &[&str] = &["timer_pull=on", "timer_pull=off", "timer_pull=base"];
pub(in crate::scenario) const IDLE_CLAIM: &[&str] = &[
    "idle_claim=on",
    "idle_claim=off",
    "idle_claim=mark",
    "idle_claim=base",
];

/// The number of workers, or an error if they are too few.
pub(in crate::scenario) fn at_least(
    scenario: &'static str,
    least: usize,
    given: usize,
) -> Result<usize> {
    if given >= least {
        return Ok(given);
    }
    Err(anyhow!(
        "`{scenario}` needs at least {least} workers, but --workers is {given}"
    ))
}

/// Woken workers, as schbench.
fn wake(profile: &Profile, workers: Option<usize>) -> Result<Plan> {
    use wake::{Messengers, Phase};
    const MESSENGERS: usize = 2;
    const KINDS: [(Messengers, Phase, &str); 4] = [
        (Messengers::Threads, Phase::Apart, "by threads"),
        (Messengers::Threads, Phase::Together, "by threads, together"),
        (Messengers::Tasks, Phase::Apart, "by tasks"),
        (Messengers::Tasks, Phase::Together, "by tasks, together"),
    ];
    let cpus = profile.spec().cpus();
    let workers = workers.unwrap_or(cpus.saturating_sub(MESSENGERS) / MESSENGERS * MESSENGERS);
    if workers == 0 || !workers.is_multiple_of(MESSENGERS) {
        return Err(anyhow!(
            "`wake` has 2 messengers, which wake equally many workers, but --workers is {workers}"
        ));
    }
    let cases = KINDS.map(|(by, phase, name)| {
        let workers_each = workers / MESSENGERS;
        let shape = wake::Shape {
            messengers: MESSENGERS,
            workers_each,
            by,
            phase,
            rounds: 100,
        };
        let variant = format!("{MESSENGERS} x {workers_each} {name}");
        Case::of(variant, workers, wake::run, shape)
    });
    let long = long_wakes(workers / MESSENGERS);
    Ok(Plan::of(IDLE_CLAIM, cases.into_iter().chain(long)))
}

/// The same with schbench's own times.
fn long_wakes(woken_each: usize) -> Vec<Case> {
    use wake::Phase;
    let mut long = Vec::new();
    for times in [1, 2] {
        for (phase, name) in [
            (Phase::Apart, "30 ms"),
            (Phase::Together, "30 ms, together"),
        ] {
            let shape = schbench::Shape {
                messengers: 2,
                woken_each,
                workers_each: times * woken_each,
                phase,
                rounds: 60,
            };
            let of = match times {
                1 => String::new(),
                _ => format!(" of {}", times * woken_each),
            };
            let variant = format!("2 x {woken_each}{of}, {name}");
            long.push(Case::of(variant, 2 * woken_each, schbench::run, shape));
        }
    }
    long
}

/// Periodic urgent tasks, as cyclictest.
fn rt(_: &Profile, workers: Option<usize>) -> Result<Plan> {
    use rt::Load;
    const WORKERS: [usize; 7] = [8, 16, 24, 40, 80, 120, 192];
    const PERIODS: u64 = 200;
    const LOADS: [(Load, &str); 3] = [
        (Load::Alone, "alone"),
        (Load::Extra(&[50]), "1 extra"),
        (Load::Extra(&[60, 40]), "2 extra"),
    ];
    const STORM: (Load, &str) = (Load::Storm, "2 overloaded");
    let all_workers = workers.map_or_else(|| WORKERS.to_vec(), |workers| vec![workers]);
    let most = all_workers.iter().copied().max();
    let mut cases = Vec::new();
    for workers in all_workers {
        at_least("rt", 4, workers)?;
        let storm = (Some(workers) == most).then_some(STORM);
        for (load, name) in LOADS.into_iter().chain(storm) {
            let shape = rt::Shape {
                workers,
                load,
                periods: PERIODS,
            };
            let variant = format!("{workers} workers, {name}");
            cases.push(Case::of(variant, workers, rt::run, shape));
        }
    }
    Ok(Plan::of(&["rt_push=on", "rt_push=pull"], cases))
}

/// A task of high rank behind a long poll.
fn rank(_: &Profile, workers: Option<usize>) -> Result<Plan> {
    use rank::{Others, Waker};
    const IDLE: &str = "others idle";
    const BUSY: &str = "others run rank 1";
    let workers = at_least("rank", 2, workers.unwrap_or(8))?;
    let mut cases = Vec::new();
    for (others, how) in [(Others::Idle, IDLE), (Others::Busy, BUSY)] {
        for (by, who) in [(Waker::Thread, "a thread"), (Waker::Poll, "the poll")] {
            let shape = rank::Shape {
                workers,
                by,
                others,
                times: 250,
            };
            let variant = format!("woken by {who}, {how}");
            cases.push(Case::of(variant, workers, rank::run, shape));
        }
    }
    Ok(Plan::of(&[AS_THEY_STAND], cases))
}

/// Messages between pairs of tasks, as uperf.
fn pingpong(profile: &Profile, workers: Option<usize>) -> Result<Plan> {
    use pingpong::{BURST, Pace};
    const ALWAYS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
    const IN_BURSTS: [usize; 3] = [1, 8, 64];
    let cpus = profile.spec().cpus();
    let workers = at_least("pingpong", 2, workers.unwrap_or(cpus))?;
    let case = |pairs, variant, pace, span_ns| {
        let shape = pingpong::Shape {
            pairs,
            workers,
            pace,
            span_ns,
        };
        Case::of(variant, workers, pingpong::run, shape)
    };
    let always = ALWAYS.map(|count| case(count, pairs(count), Pace::Always, 2_000_000));
    let bursts = IN_BURSTS.map(|count| {
        let variant = format!("{}, bursts of {BURST}", pairs(count));
        case(count, variant, Pace::Bursts, 200_000_000)
    });
    let settings = &["idle_claim=on", "idle_claim=base"];
    Ok(Plan::of(settings, always.into_iter().chain(bursts)))
}

/// Timers of workers that sleep beside some that are awake.
fn sleepers(_: &Profile, workers: Option<usize>) -> Result<Plan> {
    const AWAKE: [usize; 4] = [0, 1, 16, 128];
    let workers = at_least("timer-sleepers", 2, workers.unwrap_or(64))?;
    let awake = AWAKE.into_iter().filter(|awake| *awake <= workers / 2);
    let cases = awake.map(|awake| {
        let shape = sleepers::Shape {
            workers,
            awake,
            timers: 1_000,
            span_ns: 100_000_000,
        };
        let variant = format!("{workers} workers, {awake} awake");
        Case::of(variant, workers, sleepers::run, shape)
    });
    Ok(Plan::of(TIMER_PULL, cases))
}

/// Arming and dropping timers beside busy workers.
fn timer_cost(_: &Profile, workers: Option<usize>) -> Result<Plan> {
    use timer_cost::Case::{ArmBeforeIdle, ArmWhileBusy, Loop};
    let cases = [
        ("arm, busy", ArmWhileBusy),
        ("arm, about to idle", ArmBeforeIdle),
        ("arm and drop", Loop),
    ];
    let workers = at_least("timer-cost", 8, workers.unwrap_or(64))?;
    let cases = cases.map(|(variant, case)| {
        let shape = timer_cost::Shape { workers, case };
        Case::of(variant.to_owned(), workers, timer_cost::run, shape)
    });
    Ok(Plan::of(TIMER_PULL, cases).divided_by("timer_pull=base", "op_ns"))
}

/// Clients that make requests of servers under timeouts. It has dbench's shape.
fn requests(profile: &Profile, workers: Option<usize>) -> Result<Plan> {
    const PAIRS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
    let cpus = profile.spec().cpus();
    let workers = at_least("requests", 2, workers.unwrap_or(cpus))?;
    let cases = PAIRS.map(|count| {
        let shape = requests::Shape {
            pairs: count,
            workers,
            span_ns: (400_000_000 / count as u64).clamp(2_000_000, 50_000_000),
        };
        Case::of(pairs(count), workers, requests::run, shape)
    });
    Ok(Plan::of(TIMER_PULL, cases).divided_by("timer_pull=base", "ops_per_s"))
}
