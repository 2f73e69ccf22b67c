//! Checks the examples of the help: each can be parsed and matches a contestant.

use clap::{CommandFactory as _, Parser as _};

use super::{Cli, Command};
use crate::frame::{Contestant, testing};
use crate::scenario::{Options, of_name, seeds, simulated};

/// The examples in a help text, as words, without pipes, redirections and explanations.
fn examples(help: &str) -> Vec<Vec<String>> {
    // The usage line above them has placeholders; columns may follow below.
    let (_, help) = help.split_once("Examples:").unwrap_or_default();
    let lines = help.lines().map(str::trim);
    let lines = lines.take_while(|line| *line != "Columns:");
    let commands = lines.filter(|line| line.starts_with("doorbell ") || line.starts_with("sudo "));
    let bare = commands.map(|line| {
        let line = line.trim_start_matches("sudo ");
        let ends = ["  ", " | ", " > "].map(|end| line.find(end).unwrap_or(line.len()));
        &line[..ends.into_iter().min().unwrap_or_default()]
    });
    bare.map(|line| line.split(' ').map(str::to_owned).collect())
        .collect()
}

/// The help of a command and of all its subcommands.
fn helps(command: &mut clap::Command) -> Vec<String> {
    let mut all = vec![command.render_long_help().to_string()];
    command
        .get_subcommands_mut()
        .filter(|one| one.get_name() != "help")
        .for_each(|one| all.extend(helps(one)));
    all
}

#[test]
fn each_example_of_the_help_can_be_parsed_and_chooses_somebody() {
    let mut command = Cli::command();
    command.build();
    let mut count = 0;
    for example in helps(&mut command).iter().flat_map(|help| examples(help)) {
        if example[1] == "help" {
            continue;
        }
        let cli = Cli::try_parse_from(&example);
        let cli = cli.unwrap_or_else(|error| panic!("{example:?}: {error}"));
        let Command::Lab {
            scenario: Some(chosen),
            ..
        } = cli.command
        else {
            continue;
        };
        let (name, options) = (chosen.scenario.name, chosen.options);
        let Some(only) = options.only.clone() else {
            continue;
        };
        let labels = match (&options.sim, of_name(name).and_then(|one| one.plan)) {
            (Some(sim), _) => simulated::labels(name, sim, &options),
            (None, Some(plan)) => {
                let all = testing::contestants(plan, &options);
                all.iter().map(Contestant::label).collect()
            }
            (None, None) if name == seeds::NAME => seeds::labels(),
            (None, None) => panic!("{example:?} needs --sim"),
        };
        if labels.is_empty() {
            continue; // Too few CPUs.
        }
        let is_there = labels
            .iter()
            .any(|label| label.to_lowercase().contains(&only));
        assert!(is_there, "{example:?} chooses none of {labels:?}");
        count += 1;
    }
    let has_cpus = testing::stage(&Options::default()).is_some();
    assert!(count >= 13 || !has_cpus, "{count}");
}
