//! The scenarios, and what is made of their figures.

use doorbell_sim::bench::{pingpong, rank, requests, rt, schbench, sleepers, timer_cost, wake};
use doorbell_sim::profile::Profile;

use super::{AS_THEY_STAND, Case, Figure, Plan, Program};
use crate::error::LabError;
use crate::scenario::seeds::plans as seeds;

type Make = fn(&Profile, Option<usize>) -> Result<Plan, LabError>;

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
const STAND: &[&str] = &[AS_THEY_STAND];
const SECOND_NS: u64 = 1_000_000_000;

/// The number of workers, or an error if they are too few.
pub(in crate::scenario) fn at_least(
    scenario: &'static str,
    least: usize,
    given: usize,
) -> Result<usize, LabError> {
    if given >= least {
        return Ok(given);
    }
    Err(LabError::Said(format!(
        "`{scenario}` needs at least {least} workers, but --workers is {given}"
    )))
}

fn pairs(count: usize) -> String {
    format!("{count} pair{}", if count == 1 { "" } else { "s" })
}

static OF_WAKES: [Figure<wake::Figures>; 7] = [
    ("wakes_count", |f, _| [wakes(f), 1]),
    ("stacked_count", |f, _| [f.stacked, 1]),
    ("stacked_per_1k", |f, _| [1_000 * f.stacked, wakes(f)]),
    ("left_per_1k", |f, _| [1_000 * f.left, wakes(f)]),
    ("claims_lost_per_1k", |f, _| {
        [1_000 * f.claims_lost, wakes(f)]
    }),
    ("rings_per_op", |f, _| [f.rings, wakes(f)]),
    ("cpu_us_per_op", |f, _| [f.cpu_ns, 1_000 * wakes(f)]),
];

fn wakes(figures: &wake::Figures) -> u64 {
    figures.late_ns.len() as u64
}

/// Woken workers, as schbench.
fn wake(profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use wake::{Figures, Messengers, Phase};
    const MESSENGERS: usize = 2;
    const KINDS: [(Messengers, Phase, &str); 4] = [
        (Messengers::Threads, Phase::Apart, "by threads"),
        (Messengers::Threads, Phase::Together, "by threads, together"),
        (Messengers::Tasks, Phase::Apart, "by tasks"),
        (Messengers::Tasks, Phase::Together, "by tasks, together"),
    ];
    static PROGRAM: Program<wake::Shape, Figures> = Program {
        run: wake::run,
        add: Figures::add,
        times: &[("", |f| &f.late_ns)],
        figures: &OF_WAKES,
    };
    let cpus = profile.spec().cpus();
    let workers = workers.unwrap_or(cpus.saturating_sub(MESSENGERS) / MESSENGERS * MESSENGERS);
    if workers == 0 || !workers.is_multiple_of(MESSENGERS) {
        return Err(LabError::Said(format!(
            "`wake` has 2 messengers, which wake equally many workers, but --workers is {workers}"
        )));
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
        PROGRAM.case(variant, workers, shape)
    });
    Ok(Plan {
        settings: &[
            "idle_claim=on",
            "idle_claim=off",
            "idle_claim=mark",
            "idle_claim=base",
        ],
        cases: cases
            .into_iter()
            .chain(long_wakes(workers / MESSENGERS))
            .collect(),
        baseline: None,
    })
}

/// The same with schbench's own times.
fn long_wakes(woken_each: usize) -> Vec<Case> {
    use wake::Phase;
    static LONG: Program<schbench::Shape, wake::Figures> = Program {
        run: schbench::run,
        add: wake::Figures::add,
        times: &[("", |f| &f.late_ns)],
        figures: &OF_WAKES,
    };
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
            long.push(LONG.case(variant, 2 * woken_each, shape));
        }
    }
    long
}

/// Periodic urgent tasks, as cyclictest.
fn rt(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use rt::{Figures, Load};
    const WORKERS: [usize; 7] = [8, 16, 24, 40, 80, 120, 192];
    const PERIODS: u64 = 200;
    const LOADS: [(Load, &str); 3] = [
        (Load::Alone, "alone"),
        (Load::Extra(&[50]), "1 extra"),
        (Load::Extra(&[60, 40]), "2 extra"),
    ];
    const STORM: (Load, &str) = (Load::Storm, "2 overloaded");
    const PER_S: u64 = SECOND_NS / rt::PERIOD_NS;
    static PROGRAM: Program<rt::Shape, Figures> = Program {
        run: rt::run,
        add: Figures::add,
        times: &[("", |f| &f.late_ns), ("extra_", |f| &f.extra_ns)],
        figures: &[
            ("runs_count", |f, _| [f.late_ns.len() as u64, 1]),
            ("rings_per_core_s", |f, runs| {
                [f.rings * PER_S, PERIODS * runs]
            }),
            ("rings_most_per_core_s", |f, _| {
                [f.rings_most * PER_S, PERIODS]
            }),
            ("searches_vain_per_core_s", |f, runs| {
                [f.searches_vain * PER_S, PERIODS * runs]
            }),
            ("taken_count", |f, _| [f.taken, 1]),
            ("claims_lost_count", |f, _| [f.claims_lost, 1]),
        ],
    };
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
            cases.push(PROGRAM.case(format!("{workers} workers, {name}"), workers, shape));
        }
    }
    Ok(Plan {
        settings: &["rt_push=on", "rt_push=pull"],
        cases,
        baseline: None,
    })
}

/// A task of high rank behind a long poll.
fn rank(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use rank::{Figures, Others, Waker};
    const IDLE: &str = "others idle";
    const BUSY: &str = "others run rank 1";
    static PROGRAM: Program<rank::Shape, Figures> = Program {
        run: rank::run,
        add: Figures::add,
        times: &[("", |f| &f.wait_ns)],
        figures: &[
            ("wakes_count", |f, _| [f.wait_ns.len() as u64, 1]),
            ("skipped_count", |f, _| [f.skipped, 1]),
        ],
    };
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
            cases.push(PROGRAM.case(format!("woken by {who}, {how}"), workers, shape));
        }
    }
    Ok(Plan {
        settings: STAND,
        cases,
        baseline: None,
    })
}

/// Messages between pairs of tasks, as uperf.
fn pingpong(profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use pingpong::{BURST, Figures, Pace};
    const ALWAYS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
    const IN_BURSTS: [usize; 3] = [1, 8, 64];
    fn trips(figures: &Figures) -> u64 {
        figures.trip_ns.len() as u64
    }
    static PROGRAM: Program<pingpong::Shape, Figures> = Program {
        run: pingpong::run,
        add: Figures::add,
        times: &[("", |f| &f.trip_ns)],
        figures: &[
            ("ops_per_s", |f, _| [trips(f) * SECOND_NS, f.span_ns]),
            ("rings_per_1k", |f, _| [1_000 * f.rings, trips(f)]),
            ("exchanges_count", |f, _| [trips(f), 1]),
        ],
    };
    let cpus = profile.spec().cpus();
    let workers = at_least("pingpong", 2, workers.unwrap_or(cpus))?;
    let case = |pairs, variant, pace, span_ns| {
        let shape = pingpong::Shape {
            pairs,
            workers,
            pace,
            span_ns,
        };
        PROGRAM.case(variant, workers, shape)
    };
    let always = ALWAYS.map(|count| case(count, pairs(count), Pace::Always, 2_000_000));
    let bursts = IN_BURSTS.map(|count| {
        let variant = format!("{}, bursts of {BURST}", pairs(count));
        case(count, variant, Pace::Bursts, 200_000_000)
    });
    Ok(Plan {
        settings: &["idle_claim=on", "idle_claim=base"],
        cases: always.into_iter().chain(bursts).collect(),
        baseline: None,
    })
}

/// Timers of workers that sleep beside some that are awake.
fn sleepers(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use sleepers::Figures;
    const AWAKE: [usize; 4] = [0, 1, 16, 128];
    fn timers(figures: &Figures) -> u64 {
        figures.late_ns.len() as u64
    }
    fn ran_us(figures: &Figures, percent: usize) -> [u64; 2] {
        let mut ran_ns = figures.ran_ns.clone();
        ran_ns.sort_unstable();
        let most_ns = ran_ns.get(ran_ns.len() * percent / 100);
        most_ns.map_or([0, 0], |ns| [*ns, 1_000])
    }
    static PROGRAM: Program<sleepers::Shape, Figures> = Program {
        run: sleepers::run,
        add: Figures::add,
        times: &[("", |f| &f.late_ns)],
        figures: &[
            ("timers_count", |f, _| [timers(f), 1]),
            ("wakes_per_timer", |f, _| [f.wakes, timers(f)]),
            ("rings_per_timer", |f, _| [f.rings, timers(f)]),
            ("pulled_per_timer", |f, _| [f.pulled, timers(f)]),
            ("words_per_timer", |f, _| [f.exchanges, timers(f)]),
            ("words_per_park", |f, _| [f.exchanges, f.parks]),
            ("lines_per_timer", |f, _| [f.lines_moved, timers(f)]),
            ("ran_p50_us", |f, _| ran_us(f, 50)),
            ("ran_p90_us", |f, _| ran_us(f, 90)),
            ("duties_ended_count", |f, _| [f.duties_ended, 1]),
            ("fenced_count", |f, _| [f.fenced, 1]),
            ("refused_count", |f, _| [f.refused, 1]),
        ],
    };
    let workers = at_least("timer-sleepers", 2, workers.unwrap_or(64))?;
    let awake = AWAKE.into_iter().filter(|awake| *awake <= workers / 2);
    let cases = awake.map(|awake| {
        let shape = sleepers::Shape {
            workers,
            awake,
            timers: 1_000,
            span_ns: 100_000_000,
        };
        PROGRAM.case(format!("{workers} workers, {awake} awake"), workers, shape)
    });
    Ok(Plan {
        settings: TIMER_PULL,
        cases: cases.collect(),
        baseline: None,
    })
}

/// Arming and dropping timers beside busy workers.
fn timer_cost(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use timer_cost::{Case, Figures};
    const CASES: [(&str, Case); 3] = [
        ("arm, busy", Case::ArmWhileBusy),
        ("arm, about to idle", Case::ArmBeforeIdle),
        ("arm and drop", Case::Loop),
    ];
    // Each measurement is of as many timers.
    fn of_one(ns: Option<&u64>, figures: &Figures) -> [u64; 2] {
        let each = figures.timers / (figures.took_ns.len() as u64).max(1);
        ns.map_or([0, 0], |ns| [*ns, each])
    }
    static PROGRAM: Program<timer_cost::Shape, Figures> = Program {
        run: timer_cost::run,
        add: Figures::add,
        times: &[],
        figures: &[
            ("op_ns", |f, _| [f.took_ns.iter().sum(), f.timers]),
            ("op_min_ns", |f, _| of_one(f.took_ns.iter().min(), f)),
            ("op_max_ns", |f, _| of_one(f.took_ns.iter().max(), f)),
            ("mails_per_timer", |f, _| [f.mails, f.timers]),
            ("rings_per_1k", |f, _| [1_000 * f.rings, f.timers]),
            ("timers_count", |f, _| [f.timers, 1]),
        ],
    };
    let workers = at_least("timer-cost", 8, workers.unwrap_or(64))?;
    let cases = CASES.map(|(variant, case)| {
        PROGRAM.case(
            variant.to_owned(),
            workers,
            timer_cost::Shape { workers, case },
        )
    });
    Ok(Plan {
        settings: TIMER_PULL,
        cases: cases.into(),
        baseline: Some(("timer_pull=base", "op_ns")),
    })
}

/// Clients that make requests of servers under timeouts. It has dbench's shape.
fn requests(profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use requests::Figures;
    const PAIRS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
    fn ended(figures: &Figures) -> u64 {
        figures.ended.iter().sum()
    }
    fn of_one(ended: Option<&u64>, figures: &Figures) -> [u64; 2] {
        let runs = figures.ended.len() as u64;
        ended.map_or([0, 0], |ended| [ended * runs * SECOND_NS, figures.span_ns])
    }
    static PROGRAM: Program<requests::Shape, Figures> = Program {
        run: requests::run,
        add: Figures::add,
        times: &[],
        figures: &[
            ("ops_per_s", |f, _| [ended(f) * SECOND_NS, f.span_ns]),
            ("ops_min_per_s", |f, _| of_one(f.ended.iter().min(), f)),
            ("ops_max_per_s", |f, _| of_one(f.ended.iter().max(), f)),
            ("timeouts_per_1k", |f, _| [1_000 * f.timeouts, ended(f)]),
            ("late_us", |f, _| [f.late_ns, 1_000 * f.thinks]),
            ("rings_per_op", |f, _| [f.rings, ended(f)]),
            ("pulled_per_1k", |f, _| [1_000 * f.pulled, ended(f)]),
            ("placed_per_1k", |f, _| [1_000 * f.placed, ended(f)]),
            ("ops_count", |f, _| [ended(f), 1]),
        ],
    };
    let cpus = profile.spec().cpus();
    let workers = at_least("requests", 2, workers.unwrap_or(cpus))?;
    let cases = PAIRS.map(|count| {
        let shape = requests::Shape {
            pairs: count,
            workers,
            span_ns: (400_000_000 / count as u64).clamp(2_000_000, 50_000_000),
        };
        PROGRAM.case(pairs(count), workers, shape)
    });
    Ok(Plan {
        settings: TIMER_PULL,
        cases: cases.into(),
        baseline: Some(("timer_pull=base", "ops_per_s")),
    })
}
