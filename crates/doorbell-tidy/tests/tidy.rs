//! Runs every rule on the real tree.

use std::path::Path;
use std::sync::LazyLock;

use doorbell_tidy::orderings::{report, sites::sites};
use doorbell_tidy::{Finding, Tree, rules};

/// The tree this crate stands in. All tests share it, since to parse it takes longer than all rules.
static TREE: LazyLock<Tree> =
    LazyLock::new(|| Tree::read(Path::new(ROOT)).expect("the tree can be read"));
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Fails with all findings of the rule, one a line.
fn check(rule: rules::Rule) {
    assert_none(&rule(&TREE));
}

fn assert_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} findings:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

#[test]
fn bug_tests() {
    check(rules::bug_tests);
}

#[test]
fn core_floors() {
    check(rules::core_floors);
}

#[test]
fn floors() {
    let findings = rules::floors(Path::new(ROOT));
    assert_none(&findings.expect("cargo reads the manifests"));
}

#[test]
fn order() {
    check(rules::order);
}

#[test]
fn packed() {
    check(rules::packed);
}

#[test]
fn protocol_readme() {
    check(rules::protocol_readme);
}

#[test]
fn public_word() {
    check(rules::public_word);
}

/// A rule that is not run, or runs on nothing, would pass without a word.
#[test]
fn every_rule_is_run() {
    let source = include_str!("tidy.rs");
    for (name, _) in rules::ALL {
        let test = format!("fn {name}() {{\n    check(rules::{name});\n}}");
        assert!(source.contains(&test), "no test runs the rule `{name}`");
    }
}

#[test]
fn the_tree_is_not_empty() {
    let tree = &*TREE;
    let crates = [
        "doorbell",
        "doorbell-core",
        "doorbell-lab",
        "doorbell-machine",
    ];
    for name in crates.iter().chain(&["doorbell-macros", "doorbell-tidy"]) {
        let manifest = format!("crates/{name}/Cargo.toml");
        assert!(tree.text(&manifest).is_some(), "{manifest} was not read");
    }
    assert!(tree.text("README.md").is_some(), "README.md was not read");
    assert!(tree.text("Cargo.lock").is_some(), "Cargo.lock was not read");
    assert!(
        tree.with_ending("rs").count() > 20,
        "hardly any Rust was read"
    );
}

#[test]
fn the_rules_find_something_to_look_at() {
    let tree = &*TREE;
    assert!(
        rules::order_sites(tree) > 0,
        "`order` found no memory ordering"
    );
    let protocols = tree.folders_in("crates/doorbell-core/src").len();
    assert!(protocols > 0, "`protocol_readme` found no protocol");
}

#[test]
fn each_ordering_has_its_row_in_the_table() {
    let table = Path::new(ROOT).join("docs/orderings.md");
    let table = std::fs::read_to_string(table).expect("there is a table");
    let stale = report::stale(&table, &sites(&TREE));
    assert!(
        stale.is_empty(),
        "run its command again:\n{}",
        stale.join("\n")
    );
}
