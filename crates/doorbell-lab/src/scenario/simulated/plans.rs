//! The scenarios, and what is made of their figures.

use doorbell_sim::bench::{pingpong, rank, requests, rt, sleepers, timer_cost, wake};
use doorbell_sim::profile::Profile;

use super::{AS_THEY_STAND, Case, Plan, per, put_times};
use crate::error::LabError;
use crate::frame::{MAX, Metric, P50, P99, chart, figure};
use crate::report::{Metrics, Row, known};

type Make = fn(&Profile, Option<usize>) -> Result<Plan, LabError>;

pub(super) const ALL: [(&str, Make); 7] = [
    ("wake", wake),
    ("rt", rt),
    ("rank", rank),
    ("pingpong", pingpong),
    ("timer-sleepers", sleepers),
    ("timer-cost", timer_cost),
    ("requests", requests),
];

const HALF: Metric = P50.spread("");
const MOST: Metric = P99.spread("");
const ALL_OF_THEM: Metric = MAX.spread("");
const TIMER_PULL: &[&str] = &["timer_pull=on", "timer_pull=off", "timer_pull=base"];
const STAND: &[&str] = &[AS_THEY_STAND];

/// The number of workers, or an error if they are too few.
fn at_least(
    scenario: &'static str,
    least: usize,
    needs: &'static str,
    given: usize,
) -> Result<usize, LabError> {
    if given >= least {
        return Ok(given);
    }
    Err(LabError::Workers {
        scenario,
        needs,
        given,
    })
}

fn pairs(count: usize) -> String {
    format!("{count} pair{}", if count == 1 { "" } else { "s" })
}

/// Metrics of the times, and these.
fn metrics<const N: usize>(times_ns: &[u64], more: [(&str, Option<f64>); N]) -> Metrics {
    let mut metrics = Metrics::default();
    put_times(&mut metrics, "", times_ns);
    for (name, value) in more {
        metrics.put(name, value);
    }
    metrics
}

/// A figure of the first row whose names end so.
fn of(rows: &[Row], setting: &str, variant: &str, metric: &str) -> String {
    let mut rows = rows.iter();
    let row = rows.find(|row| row.contestant.ends_with(setting) && row.variant.ends_with(variant));
    known(row.and_then(|row| row.metrics.get(metric)))
}

/// Woken workers, as schbench.
fn wake(profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use wake::{Messengers, Phase};
    const MESSENGERS: usize = 2;
    const ROUNDS: u64 = 100;
    const KINDS: [(Messengers, Phase, &str); 4] = [
        (Messengers::Threads, Phase::Apart, "by threads"),
        (Messengers::Threads, Phase::Together, "by threads, together"),
        (Messengers::Tasks, Phase::Apart, "by tasks"),
        (Messengers::Tasks, Phase::Together, "by tasks, together"),
    ];
    let all = profile.spec().cpus();
    let workers = workers.unwrap_or(all.saturating_sub(MESSENGERS) / MESSENGERS * MESSENGERS);
    if workers == 0 || !workers.is_multiple_of(MESSENGERS) {
        return Err(LabError::Workers {
            scenario: "wake",
            needs: "has 2 messengers, which wake equally many workers",
            given: workers,
        });
    }
    let cases = KINDS.map(|(by, phase, name)| {
        let shape = wake::Shape {
            messengers: MESSENGERS,
            workers_each: workers / MESSENGERS,
            by,
            phase,
            rounds: ROUNDS,
        };
        let variant = format!("{MESSENGERS} x {} {name}", shape.workers_each);
        Case::new(
            variant,
            workers,
            shape,
            wake::run,
            wake::Figures::add,
            |figures, _| {
                let wakes = figures.late_ns.len() as u64;
                let per_1k = |count: u64| per(1_000 * count, wakes);
                let cpu_ns = per(figures.cpu_ns, wakes);
                let more = [
                    ("wakes_count", Some(wakes as f64)),
                    ("stacked_count", Some(figures.stacked as f64)),
                    ("stacked_per_1k", per_1k(figures.stacked)),
                    ("left_per_1k", per_1k(figures.left)),
                    ("claims_lost_per_1k", per_1k(figures.claims_lost)),
                    ("rings_per_op", per(figures.rings, wakes)),
                    ("cpu_us_per_op", cpu_ns.map(|ns| ns / 1_000.0)),
                ];
                metrics(&figures.late_ns, more)
            },
        )
    });
    Ok(Plan {
        scenario: "wake",
        settings: &[
            "idle_claim=on",
            "idle_claim=off",
            "idle_claim=mark",
            "idle_claim=base",
        ],
        cases: cases.into(),
        baseline: None,
        metrics: const {
            &[
                HALF,
                MOST,
                figure("p99.5 us", "p995_us"),
                ALL_OF_THEM,
                figure("stacked/1k", "stacked_per_1k"),
                figure("rings/wake", "rings_per_op"),
                figure("CPU us/wake", "cpu_us_per_op"),
                figure("left/1k", "left_per_1k"),
                figure("lost/1k", "claims_lost_per_1k"),
                figure("wakes", "wakes_count"),
            ]
        },
        chart: chart(
            "From a wake until the task runs, µs of simulated time (log scale)",
            "µs",
            &[HALF, MOST],
        ),
        gist: |rows| {
            let together = rows
                .iter()
                .filter(|row| row.variant.ends_with("by threads, together"));
            let figures = together.map(|row| {
                let figure = |name| known(row.metrics.get(name));
                let (stacked, p99_us) = (figure("stacked_per_1k"), figure("p99_us"));
                format!("{stacked} and {p99_us} us with {}", row.contestant)
            });
            format!(
                "Woken by two threads at one instant every {} ms, of 1,000 wakes so many are stacked, and 99 of \
                 100 tasks run within so long: {}.",
                wake::PERIOD_NS / 1_000_000,
                figures.collect::<Vec<_>>().join("; ")
            )
        },
    })
}

/// Periodic urgent tasks, as cyclictest.
fn rt(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use rt::Load;
    const WORKERS: [usize; 7] = [8, 16, 24, 40, 80, 120, 192];
    const LOADS: [(Load, &str); 3] = [
        (Load::Alone, "alone"),
        (Load::Extra(&[50]), "1 extra"),
        (Load::Extra(&[60, 40]), "2 extra"),
    ];
    const STORM: (Load, &str) = (Load::Storm, "2 overloaded");
    let workers = workers.map_or_else(|| WORKERS.to_vec(), |workers| vec![workers]);
    for few in &workers {
        at_least("rt", 4, "needs at least 4 workers", *few)?;
    }
    let most = workers.iter().copied().max();
    let of_each = |workers: usize| {
        let storm = (Some(workers) == most).then_some(STORM);
        let loads = LOADS.into_iter().chain(storm);
        loads.map(move |(load, name)| rt_case(workers, load, name))
    };
    Ok(Plan {
        scenario: "rt",
        settings: &["rt_push=on", "rt_push=pull", "rt_push=each"],
        cases: workers.iter().copied().flat_map(of_each).collect(),
        baseline: None,
        metrics: const {
            &[
                HALF,
                MOST,
                ALL_OF_THEM,
                figure("extra p50", "extra_p50_us"),
                figure("p99", "extra_p99_us"),
                figure("max", "extra_max_us"),
                figure("rings/core/s", "rings_per_core_s"),
                figure("most", "rings_most_per_core_s"),
                figure("vain/core/s", "searches_vain_per_core_s"),
                figure("taken", "taken_count"),
                figure("lost", "claims_lost_count"),
            ]
        },
        chart: chart(
            "How late periodic tasks run, µs of simulated time (log scale)",
            "µs",
            &[MOST, ALL_OF_THEM],
        ),
        gist: |rows| {
            let Some(row) = rows.last() else {
                return String::new();
            };
            let workers = row.variant.split(',').next().unwrap_or_default();
            let worst = |setting: &str, load: &str| {
                let mut of = rows.iter().rev();
                let row =
                    of.find(|row| row.contestant.ends_with(setting) && row.variant.ends_with(load));
                known(row.and_then(|row| row.metrics.get("max_us")))
            };
            format!(
                "With {workers} a periodic task is at most {} us late alone; beside one movable task {} us with \
                 rt_push=on, {} us with pull and {} us with each.",
                worst("on", "alone"),
                worst("on", "1 extra"),
                worst("pull", "1 extra"),
                worst("each", "1 extra"),
            )
        },
    })
}

fn rt_case(workers: usize, load: rt::Load, name: &str) -> Case {
    const PERIODS: u64 = 200;
    let shape = rt::Shape {
        workers,
        load,
        periods: PERIODS,
    };
    let variant = format!("{workers} workers, {name}");
    Case::new(
        variant,
        workers,
        shape,
        rt::run,
        rt::Figures::add,
        move |figures, seeds| {
            let (per_s, cores) = (1_000_000_000 / rt::PERIOD_NS, workers as u64);
            let per_core_s = |count: u64| per(count * per_s, PERIODS * seeds * cores);
            let more = [
                ("runs_count", Some(figures.late_ns.len() as f64)),
                ("rings_per_core_s", per_core_s(figures.rings)),
                (
                    "rings_most_per_core_s",
                    per(figures.rings_most * per_s, PERIODS),
                ),
                (
                    "searches_vain_per_core_s",
                    per_core_s(figures.searches_vain),
                ),
                ("taken_count", Some(figures.taken as f64)),
                ("claims_lost_count", Some(figures.claims_lost as f64)),
            ];
            let mut all = metrics(&figures.late_ns, more);
            put_times(&mut all, "extra_", &figures.extra_ns);
            all
        },
    )
}

/// A task of high rank behind a long poll.
fn rank(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use rank::{Others, Waker};
    const KINDS: [(Waker, Others, &str); 4] = [
        (
            Waker::Thread,
            Others::Idle,
            "woken by a thread, others idle",
        ),
        (Waker::Poll, Others::Idle, "woken by the poll, others idle"),
        (
            Waker::Thread,
            Others::Busy,
            "woken by a thread, others run rank 1",
        ),
        (
            Waker::Poll,
            Others::Busy,
            "woken by the poll, others run rank 1",
        ),
    ];
    let workers = at_least("rank", 2, "needs at least 2 workers", workers.unwrap_or(8))?;
    let cases = KINDS.map(|(by, others, name)| {
        let shape = rank::Shape {
            workers,
            by,
            others,
            times: 250,
        };
        Case::new(
            name,
            workers,
            shape,
            rank::run,
            rank::Figures::add,
            |figures, _| {
                let wakes = figures.wait_ns.len() as f64;
                let skipped = figures.skipped as f64;
                let more = [
                    ("wakes_count", Some(wakes)),
                    ("skipped_count", Some(skipped)),
                ];
                metrics(&figures.wait_ns, more)
            },
        )
    });
    Ok(Plan {
        scenario: "rank",
        settings: STAND,
        cases: cases.into(),
        baseline: None,
        metrics: const {
            &[
                HALF,
                MOST,
                ALL_OF_THEM,
                figure("wakes", "wakes_count"),
                figure("skipped", "skipped_count"),
            ]
        },
        chart: chart(
            "From its wake until the task of rank 99 runs, µs of simulated time (log scale)",
            "µs",
            &[HALF, ALL_OF_THEM],
        ),
        gist: |rows| {
            let worst = |others: &str| {
                let found = rows.iter().filter(|row| row.variant.ends_with(others));
                known(
                    found
                        .filter_map(|row| row.metrics.get("max_us"))
                        .reduce(f64::max),
                )
            };
            format!(
                "Behind a poll of 600 us the task of rank 99 waits at most {} us where other workers are idle, and \
                 {} us where they run rank 1.",
                worst("others idle"),
                worst("others run rank 1"),
            )
        },
    })
}

/// Messages between pairs of tasks, as uperf.
fn pingpong(profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use pingpong::{BURST, Pace};
    const PAIRS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
    const PAIRS_IN_BURSTS: [usize; 3] = [1, 8, 64];
    let workers = workers.unwrap_or(profile.spec().cpus());
    let workers = at_least("pingpong", 2, "needs at least 2 workers", workers)?;
    let case = |count: usize, pace: Pace, span_ns: u64| {
        let end = match pace {
            Pace::Always => String::new(),
            Pace::Bursts => format!(", bursts of {BURST}"),
        };
        let shape = pingpong::Shape {
            pairs: count,
            workers,
            pace,
            span_ns,
        };
        let variant = pairs(count) + &end;
        Case::new(
            variant,
            workers,
            shape,
            pingpong::run,
            pingpong::Figures::add,
            |figures, _| {
                let exchanges = figures.trip_ns.len() as u64;
                let more = [
                    ("ops_per_s", per(exchanges * 1_000_000_000, figures.span_ns)),
                    ("rings_per_1k", per(1_000 * figures.rings, exchanges)),
                    ("exchanges_count", Some(exchanges as f64)),
                ];
                metrics(&figures.trip_ns, more)
            },
        )
    };
    let always = PAIRS
        .into_iter()
        .map(|pairs| case(pairs, Pace::Always, 5_000_000));
    let bursts = PAIRS_IN_BURSTS
        .into_iter()
        .map(|pairs| case(pairs, Pace::Bursts, 200_000_000));
    Ok(Plan {
        scenario: "pingpong",
        settings: STAND,
        cases: always.chain(bursts).collect(),
        baseline: None,
        metrics: const {
            &[
                figure("exchanges/s", "ops_per_s"),
                HALF,
                MOST,
                ALL_OF_THEM,
                figure("rings/1k", "rings_per_1k"),
                figure("exchanges", "exchanges_count"),
            ]
        },
        chart: chart(
            "An exchange of two messages, µs of simulated time (log scale)",
            "µs",
            &[HALF, MOST],
        ),
        gist: |rows| {
            let always = rows.iter().filter(|row| !row.variant.contains("bursts"));
            let rate = |row: &&Row| row.metrics.get("ops_per_s").unwrap_or(0.0);
            let best = always.max_by(|a, b| rate(a).total_cmp(&rate(b)));
            best.map_or_else(String::new, |row| {
                format!(
                    "Most messages are exchanged by {}: {} times a second, at the median in {} us.",
                    row.variant,
                    known(row.metrics.get("ops_per_s")),
                    known(row.metrics.get("p50_us"))
                )
            })
        },
    })
}

/// Timers of workers that sleep beside some that are awake.
fn sleepers(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    const AWAKE: [usize; 4] = [0, 1, 16, 128];
    let needs = "needs at least 2 workers";
    let workers = at_least("timer-sleepers", 2, needs, workers.unwrap_or(64))?;
    let case = |awake| {
        let shape = sleepers::Shape {
            workers,
            awake,
            timers: 1_000,
            span_ns: 100_000_000,
        };
        let variant = format!("{workers} workers, {awake} awake");
        Case::new(
            variant,
            workers,
            shape,
            sleepers::run,
            sleepers::Figures::add,
            |figures, _| {
                let timers = figures.late_ns.len() as u64;
                let mut ran_ns = figures.ran_ns.clone();
                ran_ns.sort_unstable();
                let ran_us = |percent: usize| {
                    let most_ns = ran_ns.get(ran_ns.len() * percent / 100);
                    most_ns.map(|ns| *ns as f64 / 1_000.0)
                };
                let more = [
                    ("wakes_per_timer", per(figures.wakes, timers)),
                    ("rings_per_timer", per(figures.rings, timers)),
                    ("pulled_per_timer", per(figures.pulled, timers)),
                    ("words_per_timer", per(figures.exchanges, timers)),
                    ("words_per_park", per(figures.exchanges, figures.parks)),
                    ("lines_per_timer", per(figures.lines_moved, timers)),
                    ("ran_p50_us", ran_us(50)),
                    ("ran_p90_us", ran_us(90)),
                    ("timers_count", Some(timers as f64)),
                    ("duties_ended_count", Some(figures.duties_ended as f64)),
                    ("fenced_count", Some(figures.fenced as f64)),
                    ("refused_count", Some(figures.refused as f64)),
                ];
                metrics(&figures.late_ns, more)
            },
        )
    };
    let awake = AWAKE.into_iter().filter(|awake| *awake <= workers / 2);
    Ok(Plan {
        scenario: "timer-sleepers",
        settings: TIMER_PULL,
        cases: awake.map(case).collect(),
        baseline: None,
        metrics: const {
            &[
                figure("wakes", "wakes_per_timer"),
                figure("rings", "rings_per_timer"),
                HALF,
                MOST,
                ALL_OF_THEM,
                figure("CPU p50", "ran_p50_us"),
                figure("p90 us", "ran_p90_us"),
                figure("words", "words_per_timer"),
                figure("words/park", "words_per_park"),
                figure("lines", "lines_per_timer"),
                figure("pulled", "pulled_per_timer"),
                figure("ended", "duties_ended_count"),
                figure("fenced", "fenced_count"),
                figure("refused", "refused_count"),
            ]
        },
        chart: chart(
            "How late timers fire, µs of simulated time (log scale)",
            "µs",
            &[MOST, ALL_OF_THEM],
        ),
        gist: |rows| {
            let wakes = |setting| of(rows, setting, " 1 awake", "wakes_per_timer");
            format!(
                "Beside one worker that is awake, the others wake {} times for each timer with timer_pull=on, and \
                 {} times with off.",
                wakes("on"),
                wakes("off"),
            )
        },
    })
}

/// Arming and dropping timers beside busy workers.
fn timer_cost(_: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    use timer_cost::Case as What;
    /// What the kernel patch measured.
    const PATCH_NS: [u64; 2] = [109, 145];
    const NS: Metric = figure("ns", "op_ns").spread("ns spread");
    let needs = "needs at least 8 workers";
    let workers = at_least("timer-cost", 8, needs, workers.unwrap_or(64))?;
    let cases = [
        ("arm, busy", What::ArmWhileBusy),
        ("arm, about to idle", What::ArmBeforeIdle),
        ("arm and drop", What::Loop),
    ];
    let cases = cases.map(|(variant, case)| {
        let shape = timer_cost::Shape { workers, case };
        Case::new(
            variant,
            workers,
            shape,
            timer_cost::run,
            timer_cost::Figures::add,
            |figures, _| {
                let took_ns = &figures.took_ns;
                // Each measurement is of as many timers.
                let each = figures.timers / (took_ns.len() as u64).max(1);
                let of_one = |ns: Option<&u64>| ns.and_then(|ns| per(*ns, each));
                let more = [
                    ("op_ns", per(took_ns.iter().sum(), figures.timers)),
                    ("op_min_ns", of_one(took_ns.iter().min())),
                    ("op_max_ns", of_one(took_ns.iter().max())),
                    ("mails_per_timer", per(figures.mails, figures.timers)),
                    ("rings_per_1k", per(1_000 * figures.rings, figures.timers)),
                    ("timers_count", Some(figures.timers as f64)),
                ];
                metrics(&[], more)
            },
        )
    });
    Ok(Plan {
        scenario: "timer-cost",
        settings: TIMER_PULL,
        cases: cases.into(),
        baseline: Some(("timer_pull=base", "op_ns")),
        metrics: const {
            &[
                NS,
                figure("x base", "ratio_x"),
                figure("mails", "mails_per_timer"),
                figure("rings/1k", "rings_per_1k"),
            ]
        },
        chart: chart(
            "A timer armed, or armed and dropped, ns of simulated time (log scale)",
            "ns",
            &[NS],
        ),
        gist: |rows| {
            let of = |setting, metric| of(rows, setting, "arm and drop", metric);
            let [with, without] = PATCH_NS;
            format!(
                "To arm a timer and drop it costs {} ns with timer_pull=on, {} with off and {} with base: {} times \
                 base. In the kernel patch, {with} ns in place of {without}: 0.75 times.",
                of("on", "op_ns"),
                of("off", "op_ns"),
                of("base", "op_ns"),
                of("on", "ratio_x"),
            )
        },
    })
}

/// Clients that make requests of servers under timeouts. It has dbench's shape.
fn requests(profile: &Profile, workers: Option<usize>) -> Result<Plan, LabError> {
    const PAIRS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
    const RATE: Metric = figure("ops/s", "ops_per_s").spread("ops/s spread");
    let workers = workers.unwrap_or(profile.spec().cpus());
    let workers = at_least("requests", 2, "needs at least 2 workers", workers)?;
    let cases = PAIRS.map(|count| {
        let shape = requests::Shape {
            pairs: count,
            workers,
            span_ns: (100_000_000 / count as u64).max(3_000_000),
        };
        Case::new(
            pairs(count),
            workers,
            shape,
            requests::run,
            requests::Figures::add,
            |figures, _| {
                let (ended, runs) = (
                    figures.ended.iter().sum::<u64>(),
                    figures.ended.len() as u64,
                );
                let rate =
                    |ended: u64, runs: u64| per(ended * runs * 1_000_000_000, figures.span_ns);
                let of_one = |ended: Option<&u64>| ended.and_then(|ended| rate(*ended, runs));
                let late_ns = per(figures.late_ns, figures.thinks);
                let more = [
                    ("ops_per_s", rate(ended, 1)),
                    ("ops_min_per_s", of_one(figures.ended.iter().min())),
                    ("ops_max_per_s", of_one(figures.ended.iter().max())),
                    ("timeouts_per_1k", per(1_000 * figures.timeouts, ended)),
                    ("late_us", late_ns.map(|ns| ns / 1_000.0)),
                    ("rings_per_op", per(figures.rings, ended)),
                    ("pulled_per_1k", per(1_000 * figures.pulled, ended)),
                    ("placed_per_1k", per(1_000 * figures.placed, ended)),
                    ("ops_count", Some(ended as f64)),
                ];
                metrics(&[], more)
            },
        )
    });
    Ok(Plan {
        scenario: "requests",
        settings: TIMER_PULL,
        cases: cases.into(),
        baseline: Some(("timer_pull=base", "ops_per_s")),
        metrics: const {
            &[
                RATE,
                figure("x base", "ratio_x"),
                figure("timeouts/1k", "timeouts_per_1k"),
                figure("late us", "late_us"),
                figure("rings", "rings_per_op"),
                figure("pulled/1k", "pulled_per_1k"),
                figure("placed/1k", "placed_per_1k"),
            ]
        },
        chart: chart(
            "Operations per second of simulated time (log scale)",
            "ops/s",
            &[RATE],
        ),
        gist: |rows| {
            let on = rows.iter().filter(|row| row.contestant.ends_with("=on"));
            let ratios = on.filter_map(|row| Some((row.metrics.get("ratio_x")?, row)));
            let worst = ratios.min_by(|(one, _), (other, _)| one.total_cmp(other));
            worst.map_or_else(String::new, |(ratio, row)| {
                format!(
                    "With timer_pull=on there are at least {} times as many operations as with base ({}).",
                    known(Some(ratio)),
                    row.variant,
                )
            })
        },
    })
}
