//! `floors`: no crate depends on one of a higher floor.

use std::collections::BTreeSet;

use crate::{Finding, Tree};

const RULE: &str = "floors";

/// The crates of this tree that a crate may depend on; `None` for all of them, in a tool above every floor.
type May = Option<&'static [&'static str]>;

/// What is public, and what it is made of.
const PUBLIC: May = Some(&["doorbell", "doorbell-hyper", "doorbell-tokio"]);
const PARTS: May = Some(&["doorbell-core", "doorbell-machine", "doorbell-macros"]);

/// The floors, from the bottom up. Development and build dependencies count too.
const FLOORS: [(&str, May); 11] = [
    ("doorbell-machine", Some(&[])),
    ("doorbell-core", Some(&["doorbell-machine"])),
    ("doorbell-macros", Some(&[])),
    ("doorbell-sim", Some(&["doorbell-core", "doorbell-machine"])),
    ("doorbell", PARTS),
    ("doorbell-lab", None),
    ("doorbell-torture", None),
    ("doorbell-tidy", Some(&[])),
    // Ordinary users' programs: they need only what is public.
    ("doorbell-compat", PUBLIC),
    ("doorbell-simulated", Some(&["doorbell", "doorbell-tokio"])),
    ("clinic", PUBLIC),
];

/// Every other `doorbell-*` is an adapter.
const ADAPTER: May = Some(&["doorbell"]);

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
    let names = packages.iter().filter_map(|(_, _, table)| name(table));
    let names: BTreeSet<String> = names.collect();
    for (path, text, table) in &packages {
        let Some(name) = name(table) else { continue };
        let Some(may) = may(&name) else {
            let what = format!("crate `{name}` stands on no floor");
            let remedy = "add it to the table FLOORS of doorbell-tidy's rule `floors`";
            let line = line_of(text, "name");
            findings.push(Finding::new(RULE, path, line, what, remedy));
            continue;
        };
        for (key, to, table) in arrows(table, &workspace) {
            let is_ours = is_ours(to) || names.contains(to);
            let Some(allowed) = may.filter(|may| is_ours && to != name && !may.contains(&to))
            else {
                continue;
            };
            let what = format!("`{name}` must not know `{to}` ({table})");
            let remedy = match allowed {
                [] => "it may know no crate of this tree".to_owned(),
                names => format!("it may know only {}", names.join(", ")),
            };
            findings.push(Finding::new(RULE, path, line_of(text, key), what, remedy));
        }
    }
    findings
}

/// What a crate may depend on; `None` if its name has no floor.
fn may(name: &str) -> Option<May> {
    let listed = FLOORS.iter().find(|(listed, _)| *listed == name);
    let adapter = is_ours(name).then_some(ADAPTER);
    listed.map(|(_, may)| *may).or(adapter)
}

fn is_ours(name: &str) -> bool {
    name == "doorbell" || name.starts_with("doorbell-")
}

/// All dependencies of a manifest, with renames resolved: the key, the package and the table.
fn arrows<'a>(
    manifest: &'a toml::Table,
    workspace: &'a toml::Table,
) -> Vec<(&'a str, &'a str, &'static str)> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(toml::Table::values);
    let holders = targets.filter_map(toml::Value::as_table).chain([manifest]);
    let mut arrows = Vec::new();
    for (holder, table) in holders.flat_map(|holder| TABLES.map(|table| (holder, table))) {
        let dependencies = holder.get(table).and_then(toml::Value::as_table);
        for (key, value) in dependencies.into_iter().flatten() {
            let shared = value.get("workspace").and_then(|_| workspace.get(key));
            let rename = shared.unwrap_or(value).get("package");
            let to = rename.and_then(toml::Value::as_str).unwrap_or(key);
            arrows.push((key.as_str(), to, table));
        }
    }
    arrows
}

/// The first line on which `key` gets a value or a table of its own.
fn line_of(text: &str, key: &str) -> usize {
    let starts = |line: &str| {
        let line = line.trim();
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
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
