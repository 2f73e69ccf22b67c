//! The rules. Each file has one: its reason, the check, and tests that it can fail.
//!
//! What rustc, clippy or cargo-deny can check is not here: reasons of `unsafe`, printing, unfinished work, names that
//! only `doorbell-machine` may use, long functions, packages. What the step `builds` of `.ci/run` compares is not here
//! either: that a protocol performs the same accesses in every build.

use crate::{Finding, Tree};

mod bug_tests;
mod core_floors;
mod floors;
mod order;
mod packed;
mod protocol_readme;
mod public_word;

pub use bug_tests::bug_tests;
pub use core_floors::core_floors;
pub use floors::floors;
pub use order::{TAG as ORDER_TAG, order, order_sites};
pub use packed::packed;
pub use protocol_readme::protocol_readme;
pub use public_word::public_word;

/// A rule: returns where the tree breaks it.
pub type Rule = fn(&Tree) -> Vec<Finding>;

/// Every rule on a [`Tree`], with its name.
pub const ALL: [(&str, Rule); 6] = [
    ("bug_tests", bug_tests),
    ("core_floors", core_floors),
    ("order", order),
    ("packed", packed),
    ("protocol_readme", protocol_readme),
    ("public_word", public_word),
];

/// The lines of a rule's findings on one file in memory, for unit tests.
#[cfg(test)]
fn lines(rule: Rule, path: &str, text: &str) -> Vec<usize> {
    let findings = rule(&Tree::of(&[(path, text)]));
    assert!(
        findings.iter().all(|finding| finding.path == path),
        "{findings:?}"
    );
    findings.iter().map(|finding| finding.line).collect()
}
