//! `floors`: no crate depends on one of a higher floor.

use std::collections::BTreeSet;

use crate::{Finding, Tree};

const RULE: &str = "floors";

/// The crates of this tree that a crate may depend on.
#[derive(Clone, Copy)]
enum May {
    /// All of them: a tool above every floor.
    Any,
    /// Only these.
    Only(&'static [&'static str]),
}

/// The floors, from the bottom up. Development and build dependencies count too.
const FLOORS: [(&str, May); 11] = [
    ("doorbell-machine", May::Only(&[])),
    ("doorbell-core", May::Only(&["doorbell-machine"])),
    ("doorbell-macros", May::Only(&[])),
    (
        "doorbell-sim",
        May::Only(&["doorbell-core", "doorbell-machine"]),
    ),
    (
        "doorbell",
        May::Only(&["doorbell-core", "doorbell-machine", "doorbell-macros"]),
    ),
    ("doorbell-lab", May::Any),
    ("doorbell-torture", May::Any),
    ("doorbell-tidy", May::Only(&[])),
    // Ordinary users' programs: they need only what is public.
    (
        "doorbell-compat",
        May::Only(&["doorbell", "doorbell-hyper", "doorbell-tokio"]),
    ),
    (
        "doorbell-simulated",
        May::Only(&["doorbell", "doorbell-tokio"]),
    ),
    (
        "clinic",
        May::Only(&["doorbell", "doorbell-hyper", "doorbell-tokio"]),
    ),
];

/// Every other `doorbell-*` is an adapter.
const ADAPTER: May = May::Only(&["doorbell"]);

/// Names of the tables of dependencies, at the top and under `[target.*]`.
const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Dependencies between the crates that run upward, read from the manifests.
pub fn floors(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut packages = Vec::new();
    let mut workspace = toml::Table::new();
    for (path, text) in tree.manifests() {
        match text.parse::<toml::Table>() {
            Ok(table) => {
                if let Some(shared) = table.get("workspace").and_then(|w| w.get("dependencies")) {
                    workspace.extend(shared.as_table().cloned().unwrap_or_default());
                }
                packages.push((path, text, table));
            }
            Err(error) => {
                let what = format!("does not parse: {}", error.message());
                findings.push(Finding::new(RULE, path, 1, what, "make it a manifest"));
            }
        }
    }
    let name = |table: &toml::Table| Some(table.get("package")?.get("name")?.as_str()?.to_owned());
    let names: BTreeSet<String> = packages
        .iter()
        .filter_map(|(_, _, table)| name(table))
        .collect();
    for (path, text, table) in &packages {
        let Some(name) = name(table) else { continue };
        match may(&name) {
            Some(may) => {
                let arrows = arrows(table, &workspace);
                let ours = |arrow: &&Arrow| is_ours(&arrow.to) || names.contains(&arrow.to);
                let broken = arrows
                    .iter()
                    .filter(ours)
                    .filter(|arrow| !arrow.allowed(&name, may));
                findings.extend(broken.map(|arrow| arrow.finding(path, text, &name, may)));
            }
            None => findings.push(unlisted(path, text, &name)),
        }
    }
    findings
}

/// The allowed dependencies of a crate; `None` if its name has no floor.
fn may(name: &str) -> Option<May> {
    let listed = FLOORS
        .iter()
        .find(|(listed, _)| *listed == name)
        .map(|(_, may)| *may);
    listed.or(is_ours(name).then_some(ADAPTER))
}

fn is_ours(name: &str) -> bool {
    name == "doorbell" || name.starts_with("doorbell-")
}

fn unlisted(path: &str, text: &str, name: &str) -> Finding {
    let what = format!("crate `{name}` stands on no floor");
    let remedy = "add it to the table FLOORS of doorbell-tidy's rule `floors`";
    Finding::new(RULE, path, line_of(text, "name"), what, remedy)
}

/// A dependency between crates.
struct Arrow {
    /// The key in the table.
    key: String,
    /// The name of the package.
    to: String,
    /// Its table.
    table: &'static str,
}

impl Arrow {
    fn allowed(&self, from: &str, may: May) -> bool {
        let listed = match may {
            May::Any => true,
            May::Only(names) => names.contains(&self.to.as_str()),
        };
        listed || self.to == from
    }

    fn finding(&self, path: &str, text: &str, from: &str, may: May) -> Finding {
        let what = format!("`{from}` must not know `{}` ({})", self.to, self.table);
        let remedy = match may {
            May::Only([]) => "it may know no crate of this tree".to_owned(),
            May::Only(names) => format!("it may know only {}", names.join(", ")),
            May::Any => "it may know any crate".to_owned(),
        };
        Finding::new(RULE, path, line_of(text, &self.key), what, remedy)
    }
}

/// All dependencies of a manifest, with renames resolved.
fn arrows(manifest: &toml::Table, workspace: &toml::Table) -> Vec<Arrow> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(toml::Table::values);
    let holders = targets
        .filter_map(toml::Value::as_table)
        .chain(std::iter::once(manifest));
    let mut arrows = Vec::new();
    for holder in holders {
        for table in TABLES {
            let dependencies = holder.get(table).and_then(toml::Value::as_table);
            for (key, value) in dependencies.into_iter().flatten() {
                let shared = value.get("workspace").and_then(|_| workspace.get(key));
                let rename = shared
                    .unwrap_or(value)
                    .get("package")
                    .and_then(toml::Value::as_str);
                let to = rename.unwrap_or(key).to_owned();
                arrows.push(Arrow {
                    key: key.clone(),
                    to,
                    table,
                });
            }
        }
    }
    arrows
}

/// The first line on which `key` gets a value or a table of its own.
fn line_of(text: &str, key: &str) -> usize {
    let starts = |line: &str| {
        let line = line.trim();
        let table = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'));
        if let Some(table) = table {
            return table.rsplit('.').next() == Some(key);
        }
        let rest = line.trim_start_matches('"').strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with(['=', '.', ' ', '"']))
    };
    text.lines().position(starts).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, rest: &str) -> Vec<Finding> {
        let text = format!("[package]\nname = \"{name}\"\n{rest}");
        let workspace =
            "[workspace.dependencies]\nshort = { package = \"doorbell\", path = \"d\" }\n";
        let path = format!("crates/{name}/Cargo.toml");
        floors(&Tree::of(&[("Cargo.toml", workspace), (&path, &text)]))
    }

    #[test]
    fn arrows_downward_pass() {
        let down = "[dependencies]\ndoorbell-machine.workspace = true\nlibc = \"0.2\"\n";
        assert!(check("doorbell-core", down).is_empty());
        assert!(check("doorbell-sim", down).is_empty());
        assert!(check("doorbell", down).is_empty());
        assert!(check("doorbell-lab", "[dependencies]\nshort.workspace = true\n").is_empty());
        assert!(
            check(
                "doorbell-hyper",
                "[dependencies]\ndoorbell.workspace = true\n"
            )
            .is_empty()
        );
        let own = "[dev-dependencies]\ndoorbell-core = { path = \".\", features = [\"loom\"] }\n";
        assert!(check("doorbell-core", own).is_empty());
    }

    #[test]
    fn arrows_upward_are_found_in_every_table() {
        let upward = [
            (
                "doorbell-machine",
                "[dependencies]\ndoorbell-core.workspace = true\n",
            ),
            (
                "doorbell-core",
                "[dev-dependencies]\ndoorbell = { path = \"../doorbell\" }\n",
            ),
            (
                "doorbell-macros",
                "[build-dependencies]\ndoorbell-machine = \"1\"\n",
            ),
            (
                "doorbell-tidy",
                "[dependencies.doorbell-machine]\npath = \"x\"\n",
            ),
            (
                "doorbell",
                "[target.'cfg(unix)'.dependencies]\ndoorbell-sim = \"1\"\n",
            ),
            ("doorbell-sim", "[dependencies]\ndoorbell = \"1\"\n"),
            ("doorbell-hyper", "[dependencies]\ndoorbell-core = \"1\"\n"),
            ("doorbell", "[dev-dependencies]\ndoorbell-hyper = \"1\"\n"),
        ];
        for (name, rest) in upward {
            let findings = check(name, rest);
            assert_eq!(findings.len(), 1, "{name}: {findings:?}");
            assert!(findings[0].line >= 3, "{findings:?}");
        }
    }

    #[test]
    fn renames_do_not_hide_an_arrow() {
        let direct = "[dependencies]\nx = { package = \"doorbell\", version = \"1\" }\n";
        assert_eq!(check("doorbell-core", direct).len(), 1);
        assert_eq!(
            check("doorbell-core", "[dependencies]\nshort.workspace = true\n").len(),
            1
        );
    }

    #[test]
    fn unlisted_and_broken_manifests_are_found() {
        let found = check("helper", "");
        assert_eq!(found.len(), 1);
        assert!(found[0].remedy.contains("FLOORS"), "{found:?}");
        let broken = floors(&Tree::of(&[("Cargo.toml", "[package\n")]));
        assert_eq!(broken.len(), 1);
    }
}
