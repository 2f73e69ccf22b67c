//! `core_floors`: inside `doorbell-core` no room depends on one of a higher floor, and dependencies within
//! a floor form no cycle. A room is a folder, or a file that is in none.
//!
//! A word or a queue that does not know workers can be read, modelled and changed by itself.
//!
//! The rule reads paths. It does not see a call of a method that an upper folder adds to a type of a lower one.

use std::collections::{BTreeMap, BTreeSet};

use crate::parsed::Parsed;
use crate::tree::is_test;
use crate::{Finding, Tree};

const RULE: &str = "core_floors";

/// The folder that contains the folders and files below.
const CORE: &str = "crates/doorbell-core/src/";

/// The floors, from the bottom up.
const FLOORS: [&[&str]; 5] = [
    &[
        "bell", "class", "link", "mailbox", "queue", "quiet", "switches", "tree", "wheel",
    ],
    &["call", "group", "lock", "parcel", "task", "wait"],
    &["io", "worker/remote"],
    &["scheduler"],
    &["worker"],
];

/// From which room to which, with the files that contain the dependency.
type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

/// Dependencies that run upward, and cycles of rooms.
pub fn core_floors(tree: &Tree) -> Vec<Finding> {
    let mut arrows = Arrows::new();
    let mut findings = tree.each_rust(RULE, |path, parsed, findings| {
        let Some(file) = path.strip_prefix(CORE).filter(|_| !is_test(path)) else {
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
        for to in named(file, parsed).into_iter().filter(|to| to != from) {
            if floor(&to).is_none() {
                let what = format!("`{from}` names `{to}`, which stands on no floor");
                let remedy = "name the folder that it comes from";
                findings.push(Finding::new(RULE, path, 1, what, remedy));
                continue;
            }
            let arrow = (from.to_owned(), to);
            arrows.entry(arrow).or_default().insert(path.to_owned());
        }
    });
    for ((from, to), files) in &arrows {
        for path in files.iter().filter(|_| floor(to) > floor(from)) {
            let what = format!("`{from}` knows `{to}`, which is above it");
            let remedy = "let it be told what it needs";
            findings.push(Finding::new(RULE, path, 1, what, remedy));
        }
        let is_circle = floor(to) == floor(from) && reaches(&arrows, to, from);
        for path in files.iter().filter(|_| is_circle) {
            let what = format!("`{from}` knows `{to}`, which knows it in its turn");
            let remedy = "move what both need to a room below";
            findings.push(Finding::new(RULE, path, 1, what, remedy));
        }
    }
    findings
}

/// Whether dependencies lead from `from` to `to`.
fn reaches(arrows: &Arrows, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(room) = open.pop() {
        let next = arrows.keys().filter(|arrow| arrow.0 == room);
        let next = next.map(|arrow| arrow.1.as_str());
        open.extend(next.filter(|to| seen.insert(to)));
    }
    seen.contains(to)
}

/// The room of a file: its nearest enclosing folder that has a floor of its own, else its first folder,
/// else the file.
fn room(file: &str) -> &str {
    let whole = file.strip_suffix(".rs").unwrap_or(file);
    if floor(whole).is_some() {
        return whole;
    }
    let mut folders = file.rmatch_indices('/').map(|(end, _)| &file[..end]);
    let first = || file.split('/').next().unwrap_or(file);
    let room = folders.find(|folder| floor(folder).is_some());
    let room = room.unwrap_or_else(first);
    room.strip_suffix(".rs").unwrap_or(room)
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// The rooms of the crate that a file names, outside of its tests.
fn named(file: &str, parsed: &Parsed) -> BTreeSet<String> {
    let paths = parsed.paths.iter().filter(|named| !named.in_test);
    let rooms = paths.filter_map(|named| {
        let path = named.path.strip_prefix(&["self".to_owned()][..]);
        let path = path.unwrap_or(&named.path);
        let is_root = matches!(path.first()?.as_str(), "crate" | "super");
        is_root.then(|| room(&format!("{}/", resolved(file, path).join("/"))).to_owned())
    });
    rooms.filter(|room| !room.is_empty()).collect()
}

/// The path from the root of the crate. Each `super` leads to the enclosing module of the file's module. In
/// a module inside the file it counts as one level too far, which changes the room only at a room's edge.
fn resolved<'a>(file: &'a str, path: &'a [String]) -> Vec<&'a str> {
    let supers = path.iter().take_while(|name| *name == "super").count();
    let rest = path[supers..].iter().map(String::as_str);
    if supers == 0 {
        return rest.skip(1).collect();
    }
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let mut around: Vec<&str> = module.split('/').collect();
    around.truncate(around.len().saturating_sub(supers));
    around.extend(rest);
    around
}

#[cfg(test)]
mod tests {
    use super::{CORE, core_floors};
    use crate::Tree;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = files
            .iter()
            .map(|(file, _)| format!("{CORE}{file}"))
            .collect();
        let files: Vec<(&str, &str)> = paths
            .iter()
            .zip(files)
            .map(|(path, (_, text))| (path.as_str(), *text))
            .collect();
        let findings = core_floors(&Tree::of(&files));
        findings.into_iter().map(|finding| finding.what).collect()
    }

    const UP: &str = "use crate::task::Kind;\n";
    const DOWN: &str = "use crate::{bell::Bell, queue};\n";

    #[test]
    fn arrows_upward_are_caught_and_downward_pass() {
        assert_eq!(
            found(&[("wheel/mod.rs", UP)]),
            ["`wheel` knows `task`, which is above it"]
        );
        assert!(found(&[("scheduler/mod.rs", UP), ("task/mod.rs", DOWN)]).is_empty());
        let up = [
            "use crate::{queue, worker::Worker};\n",
            "fn f() { crate::scheduler::g(); }\n",
        ];
        for text in up {
            assert_eq!(found(&[("bell/mod.rs", text)]).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_folder_inside_another_may_stand_on_a_floor_of_its_own() {
        let above = "use crate::scheduler::Scheduler;\n";
        assert_eq!(found(&[("worker/remote/tell.rs", above)]).len(), 1);
        assert!(found(&[("worker/local/mod.rs", above)]).is_empty());
        let remote = "use crate::worker::remote::Remote;\n";
        assert!(found(&[("scheduler/mod.rs", remote)]).is_empty());
        let renamed = "use crate::worker::Remote;\n";
        assert_eq!(found(&[("scheduler/mod.rs", renamed)]).len(), 1);
        // The enclosing folder is on a higher floor.
        assert_eq!(
            found(&[("worker/remote/mod.rs", "use super::Worker;\n")]).len(),
            1
        );
        let around = "use self::super::super::Worker;\n";
        assert_eq!(found(&[("worker/remote/tell.rs", around)]).len(), 1);
        assert!(found(&[("worker/remote/tell.rs", "use super::Remote;\n")]).is_empty());
        assert_eq!(found(&[("worker/remote.rs", above)]).len(), 1);
        assert_eq!(
            found(&[("task/mod.rs", "use crate::Scheduler;\n")]).len(),
            1
        );
    }

    #[test]
    fn rooms_of_one_floor_that_know_each_other_are_caught() {
        let task = "use crate::call::Call;\n";
        let call = "use crate::lock::Lock;\n";
        assert!(found(&[("task/mod.rs", task), ("call/mod.rs", call)]).is_empty());
        let all = [
            ("task/mod.rs", task),
            ("call/mod.rs", call),
            ("lock/mod.rs", UP),
        ];
        assert_eq!(found(&all).len(), 3);
    }

    #[test]
    fn tests_may_look_up() {
        let text = "#[cfg(test)]\nmod tests {\n    use crate::scheduler::Scheduler;\n}\n";
        assert!(found(&[("bell/mod.rs", text)]).is_empty());
    }

    #[test]
    fn a_new_folder_needs_a_floor() {
        assert_eq!(
            found(&[("attic/mod.rs", "")]),
            ["`attic` stands on no floor"]
        );
    }
}
