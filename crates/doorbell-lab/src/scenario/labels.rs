//! For the tests of the help: the contestants of each scenario.

use std::time::Duration;

use super::contestant::Stage;
use super::trial::Trial;
use super::{
    busy, call, flood, http, idle, pingpong, rank, rt, shootdown, spawn, stuck, timer_acc,
    timer_cost, timer_idle, timer_sleepers, urgent, wake,
};

/// "name (variant)" of each contestant of the scenario with this command-line name.
pub(crate) fn labels(name: &str, slices: bool, stage: Stage) -> Vec<String> {
    let trials: Vec<Box<dyn Trial>> = match name {
        "call" => {
            let all = call::contestants(stage);
            let labels = all.iter().map(|one| label(one.name(), one.variant()));
            return labels.collect();
        }
        "spawn" => spawn::contestants(),
        "flood" => flood::contestants(stage),
        "shootdown" => shootdown::contestants(),
        "idle" => idle::contestants(stage, None),
        "timer-cost" => timer_cost::contestants(stage, 1_000_000),
        "timer-acc" => timer_acc::contestants(stage),
        "timer-idle" => timer_idle::contestants(stage),
        "timer-sleepers" => timer_sleepers::contestants(stage, Duration::ZERO),
        "urgent" if slices => urgent::slices(stage),
        "urgent" => urgent::contestants(stage),
        "wake" => wake::contestants(stage),
        "pingpong" => pingpong::contestants(),
        "rank" => rank::contestants(stage),
        "rt" => rt::contestants(&[0, 1], rt::PERIOD),
        "stuck" => stuck::contestants(stage),
        "busy" => busy::contestants(Duration::ZERO),
        "http" => http::contestants(false),
        other => panic!("{other} is no scenario"),
    };
    let labels = trials.iter().map(|one| label(one.name(), one.variant()));
    labels.collect()
}

fn label(name: &str, variant: &str) -> String {
    format!("{name} ({variant})")
}
