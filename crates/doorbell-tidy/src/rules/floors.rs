//! `floors`: no crate depends on one of a higher floor.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::Finding;

const RULE: &str = "floors";

/// The manifests of the workspaces.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "compat/Cargo.toml"];

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

/// Dependencies between the crates of the tree at `root` that run upward, as cargo reads them from the manifests.
///
/// # Errors
/// If cargo cannot read a manifest.
pub fn floors(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for manifest in WORKSPACES {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
        let output = cargo
            .arg("--manifest-path")
            .arg(root.join(manifest))
            .output();
        let metadata = serde_json::from_slice(&output?.stdout);
        findings.extend(upward(&metadata.context(manifest)?));
    }
    Ok(findings)
}

/// What runs upward in a workspace.
fn upward(metadata: &Value) -> Vec<Finding> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut findings = Vec::new();
    for package in list(&metadata["packages"]) {
        let (name, path) = (text(&package["name"]), text(&package["manifest_path"]));
        let mut add = |what: String, remedy: &str| {
            findings.push(Finding::new(RULE, &path, 1, what, remedy));
        };
        let Some(may) = may(&name) else {
            let remedy = "add it to the table FLOORS of doorbell-tidy's rule `floors`";
            add(format!("crate `{name}` stands on no floor"), remedy);
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let to = text(&dependency["name"]);
            // What has a path is of this tree.
            let is_other = to != name && (is_ours(&to) || dependency["path"].is_string());
            if let Some(allowed) = may.filter(|may| is_other && !may.contains(&&*to)) {
                let remedy = format!("of this tree it may know only {allowed:?}");
                add(format!("`{name}` must not know `{to}`"), &remedy);
            }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(name: &str, to: &str, path: Option<&str>) -> Vec<Finding> {
        let dependency = json!({"name": to, "path": path});
        let package = json!({"name": name, "manifest_path": "m", "dependencies": [dependency]});
        upward(&json!({"packages": [package]}))
    }

    #[test]
    fn arrows_downward_pass() {
        for (name, to) in [
            ("doorbell-core", "doorbell-machine"),
            ("doorbell-core", "doorbell-core"),
            ("doorbell-core", "libc"),
            ("doorbell-sim", "doorbell-core"),
            ("doorbell-lab", "doorbell"),
            ("doorbell-hyper", "doorbell"),
        ] {
            assert_eq!(check(name, to, None), [], "{name} {to}");
        }
    }

    #[test]
    fn arrows_upward_are_found() {
        for (name, to) in [
            ("doorbell-machine", "doorbell-core"),
            ("doorbell-core", "doorbell"),
            ("doorbell-tidy", "doorbell-machine"),
            ("doorbell", "doorbell-sim"),
            ("doorbell-sim", "doorbell"),
            ("doorbell-hyper", "doorbell-core"),
            ("doorbell", "doorbell-hyper"),
        ] {
            let findings = check(name, to, None);
            assert_eq!(findings.len(), 1, "{name} {to}: {findings:?}");
        }
        assert_eq!(check("doorbell", "clinic", Some("/c")).len(), 1);
    }

    #[test]
    fn a_crate_without_a_floor_is_found() {
        let found = check("helper", "libc", None);
        assert_eq!(found.len(), 1);
        assert!(found[0].remedy.contains("FLOORS"), "{found:?}");
    }
}
