//! `dead_files`: every Rust file of a crate is compiled.

use crate::modules::Modules;
use crate::{Finding, Tree};

const RULE: &str = "dead_files";

/// Files below `crates/*/src` that no `mod` declaration reaches.
pub fn dead_files(tree: &Tree) -> Vec<Finding> {
    let modules = Modules::of(tree);
    let files = tree.with_ending("rs").map(|(path, _)| path);
    let dead = files.filter(|path| is_source(path) && !modules.reaches(path));
    let finding = |path| {
        let what = "no `mod` declaration leads here";
        Finding::new(
            RULE,
            path,
            1,
            what,
            "declare it in its parent, or delete it",
        )
    };
    dead.map(finding).collect()
}

/// Whether the path is `crates/<name>/src/…`.
fn is_source(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("crates") && parts.nth(1) == Some("src")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_out_of_reach_are_caught() {
        let files = [
            ("crates/a/Cargo.toml", ""),
            (
                "crates/a/src/lib.rs",
                "mod x;\n#[path = \"odd.rs\"]\nmod y;\n#[cfg(test)]\nmod tests;",
            ),
            ("crates/a/src/x/mod.rs", "// mod dead;\n"),
            ("crates/a/src/odd.rs", ""),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/src/x/dead.rs", ""),
            ("crates/a/src/y.rs", ""),
            ("crates/a/tests/api.rs", ""),
        ];
        let found: Vec<String> = dead_files(&Tree::of(&files))
            .into_iter()
            .map(|finding| finding.path)
            .collect();
        assert_eq!(found, ["crates/a/src/x/dead.rs", "crates/a/src/y.rs"]);
    }
}
