//! The rules. Each file has one: its reason, the check, and tests that it can fail.

use crate::{Finding, Tree};

mod banned;
mod bug_tests;
mod core_floors;
mod dead_files;
mod debug;
mod floors;
mod ground;
mod length;
mod order;
mod packed;
mod protocol_readme;
mod public_word;
mod safety;

pub use banned::banned;
pub use bug_tests::bug_tests;
pub use core_floors::core_floors;
pub use dead_files::dead_files;
pub use debug::debug;
pub use floors::floors;
pub use ground::ground;
pub use length::length;
pub use order::{order, order_reason, order_sites};
pub use packed::packed;
pub use protocol_readme::protocol_readme;
pub use public_word::public_word;
pub use safety::{safety, unsafe_sites};

/// A rule: returns where the tree breaks it.
pub type Rule = fn(&Tree) -> Vec<Finding>;

/// Every rule with its name.
pub const ALL: [(&str, Rule); 13] = [
    ("banned", banned),
    ("bug_tests", bug_tests),
    ("core_floors", core_floors),
    ("dead_files", dead_files),
    ("debug", debug),
    ("floors", floors),
    ("ground", ground),
    ("length", length),
    ("order", order),
    ("packed", packed),
    ("protocol_readme", protocol_readme),
    ("public_word", public_word),
    ("safety", safety),
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
