//! `core_floors`: inside `doorbell-core` no folder depends on one of a higher floor.
//!
//! A word or a queue that does not know workers can be read, modelled and changed by itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::Modules;
use crate::parsed::Parsed;
use crate::{Finding, Tree};

const RULE: &str = "core_floors";

/// The folder that contains the folders and files below.
const CORE: &str = "crates/doorbell-core/src/";

/// The floors, from the bottom up.
const FLOORS: [&[&str]; 4] = [
    &[
        "bell", "class", "link", "mailbox", "queue", "quiet", "switches", "wheel",
    ],
    &["call", "group", "lock", "task", "wait"],
    &["io", "worker"],
    &["scheduler"],
];

/// An upward dependency that still exists: from, to, and in how many files. The table may only shrink.
type Open = (&'static str, &'static str, usize);

const OPEN: &[Open] = &[
    ("task", "scheduler", 12),
    ("task", "worker", 12),
    ("worker", "scheduler", 9),
];

/// Upward dependencies that are not in the table, and rows of the table that are not needed.
pub fn core_floors(tree: &Tree) -> Vec<Finding> {
    check(tree, OPEN)
}

fn check(tree: &Tree, open: &[Open]) -> Vec<Finding> {
    let modules = Modules::of(tree);
    let mut arrows: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut findings = tree.each_rust(RULE, |path, parsed, findings| {
        let Some(file) = path.strip_prefix(CORE).filter(|_| !modules.is_test(path)) else {
            return;
        };
        let from = room(file);
        if from == "lib" {
            return;
        }
        if floor(from).is_none() {
            let remedy = "add it to the table FLOORS of doorbell-tidy's rule `core_floors`";
            let what = format!("`{from}` stands on no floor");
            findings.push(Finding::new(RULE, path, 1, what, remedy));
        }
        for to in named(parsed) {
            if floor(&to) > floor(from) {
                let arrow = (from.to_owned(), to);
                arrows.entry(arrow).or_default().insert(path.to_owned());
            }
        }
    });
    for ((from, to), files) in &arrows {
        let row = open.iter().find(|row| (row.0, row.1) == (from, to));
        let limit = row.map_or(0, |row| row.2);
        if files.len() != limit {
            let path = files.first().map_or(CORE, String::as_str);
            let what = format!(
                "`{from}` knows `{to}` in {} files, not {limit}",
                files.len()
            );
            let remedy = if files.len() > limit {
                "let it be told what it needs"
            } else {
                "lower the number in the table OPEN of doorbell-tidy's rule `core_floors`"
            };
            findings.push(Finding::new(RULE, path, 1, what, remedy));
        }
    }
    for (from, to, _) in open {
        if !arrows.contains_key(&((*from).to_owned(), (*to).to_owned())) {
            let what = format!("`{from}` does not know `{to}` any more");
            let remedy = "remove it from the table OPEN of doorbell-tidy's rule `core_floors`";
            findings.push(Finding::new(RULE, CORE, 1, what, remedy));
        }
    }
    findings
}

/// The folder of a file, or the file itself if it is in none.
fn room(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// The folders and files of the crate that a file names, outside of its tests.
fn named(parsed: &Parsed) -> BTreeSet<String> {
    let crates = (0..parsed.tokens.len())
        .filter(|&index| parsed.ident(index) == Some("crate") && !parsed.in_test(index));
    let rooms = crates
        .flat_map(|index| parsed.paths(index))
        .filter_map(|(_, path)| path.into_iter().nth(1));
    rooms.filter(|room| floor(room).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::{CORE, check};
    use crate::Tree;

    fn found(files: &[(&str, &str)], open: &[super::Open]) -> Vec<String> {
        let paths: Vec<String> = files
            .iter()
            .map(|(file, _)| format!("{CORE}{file}"))
            .collect();
        let files: Vec<(&str, &str)> = paths
            .iter()
            .zip(files)
            .map(|(path, (_, text))| (path.as_str(), *text))
            .collect();
        let findings = check(&Tree::of(&files), open);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    const UP: &str = "use crate::task::Local;\n";
    const DOWN: &str = "use crate::{bell::Bell, queue};\n";

    #[test]
    fn arrows_upward_are_caught_and_downward_pass() {
        assert_eq!(
            found(&[("wheel/mod.rs", UP)], &[]),
            ["`wheel` knows `task` in 1 files, not 0"]
        );
        assert!(found(&[("scheduler/mod.rs", UP), ("task/mod.rs", DOWN)], &[]).is_empty());
        assert_eq!(
            found(
                &[("bell/mod.rs", "use crate::{queue, worker::Worker};\n")],
                &[]
            )
            .len(),
            1
        );
        assert_eq!(
            found(
                &[("bell/mod.rs", "fn f() { crate::scheduler::g(); }\n")],
                &[]
            )
            .len(),
            1
        );
    }

    #[test]
    fn tests_may_look_up() {
        let text = "#[cfg(test)]\nmod tests {\n    use crate::scheduler::Scheduler;\n}\n";
        assert!(found(&[("bell/mod.rs", text)], &[]).is_empty());
    }

    #[test]
    fn the_table_only_shrinks() {
        let files = [("wheel/mod.rs", UP), ("wheel/timer.rs", UP)];
        assert!(found(&files, &[("wheel", "task", 2)]).is_empty());
        assert_eq!(found(&files, &[("wheel", "task", 1)]).len(), 1);
        assert_eq!(found(&files, &[("wheel", "task", 3)]).len(), 1);
        assert_eq!(found(&[], &[("wheel", "task", 1)]).len(), 1);
    }

    #[test]
    fn a_new_folder_needs_a_floor() {
        assert_eq!(
            found(&[("attic/mod.rs", "")], &[]),
            ["`attic` stands on no floor"]
        );
    }
}
