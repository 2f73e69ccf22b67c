//! The long help of each scenario: examples, and the meaning of the columns.

use crate::scenario::{
    busy, call, pingpong, rank, rt, simulated, timer_cost, timer_sleepers, urgent, wake,
};

pub(super) fn call_help() -> String {
    help(
        "Examples:\n  \
         doorbell lab call                         the whole table, in well under 90 s\n  \
         doorbell lab call --quick --only tokio    a first look at tokio alone, in seconds\n  \
         doorbell lab call --rounds 15 --html call.html\n  \
         sudo doorbell lab call                    counts system calls too\n",
        call::reading(),
        &[],
    )
}

pub(super) fn urgent_help() -> String {
    let more = "doorbell lab urgent --unprivileged            without the privilege to run before all others\n  \
        doorbell lab urgent --slices                  threads only, in about 2 minutes\n  \
        doorbell lab urgent --slices --only nice      of these, only rows with `nice` in their names\n  ";
    let examples = examples(
        "urgent",
        "the whole table, in about 12 minutes",
        "tokio",
        more,
    );
    help(&examples, urgent::reading(), &[])
}

pub(super) fn busy_help() -> String {
    let more = "doorbell lab busy --seconds 60 --rounds 1    passes of a minute each: the maximum counts\n  \
        doorbell lab busy --only lone                only rows with `lone` in their names\n  ";
    let examples = examples(
        "busy",
        "the whole table, in about 20 minutes",
        "doorbell",
        more,
    );
    help(&examples, busy::reading(), &[])
}

pub(super) fn wake_help() -> String {
    let more = "doorbell lab wake --sim smt-20    on the simulated machine of that profile, in seconds\n  \
        doorbell lab wake --sim zen3-2x64 --workers 32 --seeds 20\n  ";
    let examples = examples(
        "wake",
        "the whole table, in about 11 minutes",
        "tokio",
        more,
    );
    help(&examples, wake::reading(), simulated::wake::READING)
}

pub(super) fn rt_help() -> String {
    let more = "doorbell lab rt --period-us 100    ten times as many ticks, as cyclictest -i100\n  \
        doorbell lab rt --unprivileged     without the privilege to run before all others\n  \
        doorbell lab rt --sim xeon-40      on the simulated machine of that profile, in about 2 minutes\n  \
        doorbell lab rt --sim xeon-40 --workers 40 --seeds 20\n  ";
    let examples = examples("rt", "the whole table, in about 3 minutes", "extra", more);
    help(&examples, rt::reading(), simulated::rt::READING)
}

pub(super) fn rank_help() -> String {
    let more = "doorbell lab rank --unprivileged      without the privilege to run before all others\n  \
        doorbell lab rank --sim xeon-40       on the simulated machine of that profile, in seconds\n  \
        doorbell lab rank --sim xeon-40 --workers 40 --only idle\n  ";
    let examples = examples(
        "rank",
        "the whole table, in about 2 minutes",
        "doorbell",
        more,
    );
    help(&examples, rank::reading(), simulated::rank::READING)
}

pub(super) fn timer_cost_help() -> String {
    let more = "doorbell lab timer-cost --sim zen3-2x64    on the simulated machine of that profile, in seconds\n  \
        doorbell lab timer-cost --sim zen3-2x64 --only drop\n  ";
    let examples = examples(
        "timer-cost",
        "the whole table, in about 2 minutes",
        "tokio",
        more,
    );
    help(
        &examples,
        timer_cost::reading(),
        simulated::timer_cost::READING,
    )
}

pub(super) fn requests_help() -> String {
    help(
        "Examples:\n  \
         doorbell lab requests --sim zen3-2x64    the whole table, in about 2 minutes\n  \
         doorbell lab requests --sim zen3-2x64 --seeds 1 --only 32\n",
        simulated::requests::READING,
        &[],
    )
}

pub(super) fn sleepers_help() -> String {
    let more = "doorbell lab timer-sleepers --sim zen3-2x64    on the simulated machine of that profile, in seconds\n  \
        doorbell lab timer-sleepers --sim zen3-2x64 --workers 256 --seeds 1\n  ";
    let examples = examples(
        "timer-sleepers",
        "the whole table, in about 10 minutes",
        "tokio",
        more,
    );
    help(
        &examples,
        timer_sleepers::reading(),
        simulated::sleepers::READING,
    )
}

pub(super) fn pingpong_help() -> String {
    let more = "doorbell lab pingpong --sim smt-20    on the simulated machine of that profile, in about a minute\n  \
        doorbell lab pingpong --sim smt-20 --only bursts\n  ";
    let examples = examples(
        "pingpong",
        "the whole table, in about 5 minutes",
        "tokio",
        more,
    );
    help(&examples, pingpong::reading(), simulated::pingpong::READING)
}

/// The help of a scenario. `whole` explains its first example, and `only` matches contestants.
pub(super) fn trial_help(scenario: &str, whole: &str, only: &str, reading: &[&str]) -> String {
    help(&examples(scenario, whole, only, ""), reading, &[])
}

fn examples(scenario: &str, whole: &str, only: &str, more: &str) -> String {
    let command = format!("doorbell lab {scenario}");
    format!(
        "Examples:\n  \
         {command}    {whole}\n  \
         {command} --quick --only {only}    a first look at rows with `{only}` in their names, and at their \
         baselines\n  \
         {more}{command} --json | jq '.rows[] | [.contestant, .variant, .metrics]'\n"
    )
}

/// The examples, followed by the meaning of each column: on this host, and on simulated machines.
fn help(examples: &str, reading: &[&str], simulated: &[&str]) -> String {
    let mut text = examples.to_owned();
    for (title, sentences) in [("Columns", reading), ("Columns with --sim", simulated)] {
        if sentences.is_empty() {
            continue;
        }
        text.extend(["\n", title, ":\n"]);
        for sentence in sentences {
            text.push_str("  ");
            text.push_str(sentence);
            text.push('\n');
        }
    }
    text.push_str(
        "\nIn the JSON, a metric that could not be taken is absent. Progress goes to standard \
         error.",
    );
    text
}
