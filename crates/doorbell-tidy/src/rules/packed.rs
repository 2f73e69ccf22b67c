//! `packed`: every packed word has a table of its bits, tied to its constants by a `const` assert.
//!
//! A table in prose becomes outdated when a width changes; with an assert beside it the change does not
//! compile.

use crate::tree::is_test;
use crate::{Finding, Tree};

const RULE: &str = "packed";

/// The folder of packed words.
const HOLDS: &str = "crates/doorbell-core/src/";

/// The types of packed words.
const WORDS: [&str; 3] = ["u32", "u64", "usize"];

/// Files with a packed word but without its table or its assert.
pub fn packed(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let holds = |path: &str| path.starts_with(HOLDS) && !is_test(path);
    let files = tree.with_ending("rs");
    for (path, text) in files.filter(|(path, _)| holds(path)) {
        let Some(line) = text.lines().position(is_packing) else {
            continue;
        };
        let mut add = |what: &str, remedy: &str| {
            findings.push(Finding::new(RULE, path, line + 1, what, remedy));
        };
        if !has_assert(text) {
            let remedy = "tie the constants to the table by `const _: () = assert!(…);`";
            add("packed word without a `const` assert", remedy);
        }
        if !text.lines().any(is_table) {
            let what = "packed word without a table of its bits";
            add(what, "add one to its doc: `/// | bits | … |`");
        }
    }
    findings
}

/// Whether the line defines `mod bits`, a `…_BIT`, or a constant word `1 << …`.
fn is_packing(line: &str) -> bool {
    let line = line.trim();
    let public = line.strip_prefix("pub").map(str::trim_start);
    let item = match public {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or(rest, |(_, item)| item),
        other => other.unwrap_or(line),
    };
    let item = item.trim_start();
    if let Some(name) = item.strip_prefix("mod ") {
        return name.trim_end_matches([' ', '{', ';', '}']) == "bits";
    }
    let constant = item.strip_prefix("const ");
    let Some((name, rest)) = constant.and_then(|item| item.split_once(':')) else {
        return false;
    };
    let Some((word, value)) = rest.split_once('=') else {
        return name.trim().ends_with("_BIT");
    };
    let shift = value.trim().strip_prefix('1').is_some_and(|value| {
        let value = value.trim_start_matches(|c: char| c == '_' || c.is_alphanumeric());
        value.trim_start().starts_with("<<")
    });
    name.trim().ends_with("_BIT") || (WORDS.contains(&word.trim()) && shift)
}

/// Whether an unnamed constant asserts something.
fn has_assert(text: &str) -> bool {
    let code = text.lines().map(str::trim);
    let code: Vec<&str> = code.filter(|line| !line.starts_with("//")).collect();
    let code = code.join(" ");
    let mut constants = code.split("const _: () =").skip(1).map(str::trim_start);
    constants.any(|value| {
        let block = value.strip_prefix('{');
        let block = block.and_then(|value| value.split_once("};"));
        value.starts_with("assert!(") || block.is_some_and(|(block, _)| block.contains("assert!("))
    })
}

fn is_table(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//! |") || line.starts_with("/// |")
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    const PATH: &str = "crates/doorbell-core/src/bell/word.rs";
    const TABLE: &str = "/// | bits | meaning |\n";
    const ASSERT: &str = "const _: () = assert!(A == 1);\n";

    #[test]
    fn packed_words_need_table_and_assert() {
        let words = [
            "const A: u32 = 1 << 0;\n",
            "pub(crate) const A: u64 = 1_u64 << 3;\n",
            "    pub const A: usize = 1usize<<WIDTH;\n",
            "mod bits {}\n",
            "pub mod bits {\n}\n",
            "const PARKED_BIT: u8 = 3;\n",
        ];
        for word in words {
            let with = |parts: &[&str]| {
                let text = format!("{}{word}", parts.concat());
                packed(&Tree::of(&[(PATH, &text)])).len()
            };
            assert_eq!(with(&[]), 2, "{word}");
            assert_eq!(with(&[TABLE]), 1, "{word}");
            assert_eq!(with(&[ASSERT]), 1, "{word}");
            assert_eq!(with(&[TABLE, ASSERT]), 0, "{word}");
        }
    }

    #[test]
    fn an_assert_may_be_in_a_block_but_not_in_a_comment() {
        let word = format!("{TABLE}const A: u32 = 1 << 0;\n");
        let block = "const _: () = {\n    assert!(A == 1);\n};\n";
        assert_eq!(
            lines(packed, PATH, &format!("{word}{block}")),
            Vec::<usize>::new()
        );
        let empty = "const _: () = {};\nfn f() { assert!(true); }\n";
        assert_eq!(lines(packed, PATH, &format!("{word}{empty}")), [2]);
        assert_eq!(lines(packed, PATH, &format!("{word}// {ASSERT}")), [2]);
    }

    #[test]
    fn other_constants_files_and_tests_pass() {
        for text in [
            "const A: u32 = 12;\n",
            "const A: u8 = 1 << 2;\n",
            "// const A: u32 = 1 << 2;\n",
            "mod bitset;\n",
            "let a = 1 << 3;\n",
        ] {
            assert_eq!(lines(packed, PATH, text), Vec::<usize>::new(), "{text}");
        }
        let word = "const A: u32 = 1 << 0;\n";
        assert_eq!(
            lines(packed, "crates/doorbell-lab/src/x.rs", word),
            Vec::<usize>::new()
        );
        assert_eq!(
            lines(packed, "crates/doorbell-core/src/bell/tests.rs", word),
            Vec::<usize>::new()
        );
    }
}
