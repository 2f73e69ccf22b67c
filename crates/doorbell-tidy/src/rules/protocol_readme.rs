//! `protocol_readme`: every protocol folder has a README that explains it, and its tests.

use crate::markdown::headings;
use crate::{Finding, Tree};

const RULE: &str = "protocol_readme";

/// Every folder directly below this is a protocol.
const PROTOCOLS: &str = "crates/doorbell-core/src";

/// The least size of a README, in bytes.
const README_BYTES_MIN: usize = 400;

/// What the headings of a README must mention.
const HEADINGS: [&str; 6] = [
    "words",
    "steps",
    "race",
    "safe",
    "worst allowed",
    "forbidden",
];

/// Protocol folders without a README, without a pointer to it, or without tests.
pub fn protocol_readme(tree: &Tree) -> Vec<Finding> {
    let folders = tree.folders_in(PROTOCOLS).into_iter();
    let lacks = folders.flat_map(|name| protocol(tree, &format!("{PROTOCOLS}/{name}")));
    lacks.collect()
}

/// What the folder of a protocol lacks.
fn protocol(tree: &Tree, folder: &str) -> Vec<Finding> {
    let path = |file: &str| format!("{folder}/{file}");
    let missing = |files: [&str; 2]| files.iter().all(|file| !tree.contains(&path(file)));
    let mut lacks = Vec::new();
    match tree.text(&path("README.md")) {
        Some(text) => lacks.extend(readme(text).into_iter().map(|what| ("README.md", what))),
        None => lacks.push(("README.md", "is missing".to_owned())),
    }
    let module = tree.text(&path("mod.rs")).unwrap_or_default();
    let first = module.lines().next().unwrap_or_default();
    if !(first.starts_with("//!") && first.contains("README.md")) {
        let what = "does not start with `//! What it is. See README.md.`";
        lacks.push(("mod.rs", what.to_owned()));
    }
    if missing(["tests.rs", "tests"]) {
        lacks.push(("tests.rs", "is missing, and so is tests/".to_owned()));
    }
    if missing(["loom.rs", "tests/loom.rs"]) {
        lacks.push(("loom.rs", "is missing, and so is tests/loom.rs".to_owned()));
    }
    let remedy = "see how the other protocols are written";
    let finding = |(file, what)| Finding::new(RULE, &path(file), 1, what, remedy);
    lacks.into_iter().map(finding).collect()
}

/// What a README lacks, beside what `public_word` wants of each text.
fn readme(text: &str) -> Vec<String> {
    let headings = headings(text);
    let names = headings.iter().map(|(_, _, name)| name.to_lowercase());
    let names = names.collect::<Vec<_>>().join("\n");
    let words = HEADINGS.iter().filter(|word| !names.contains(**word));
    let words = words.map(|word| format!("no heading speaks of \"{word}\""));
    let bytes = text.len();
    let is_short = bytes < README_BYTES_MIN;
    let short = is_short.then(|| format!("has {bytes} bytes, fewer than {README_BYTES_MIN}"));
    short.into_iter().chain(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good_readme() -> String {
        let headings = "# Bell\n## Words\n## Steps\n## The race, and why it is safe\n\
            ### Worst allowed outcome\n### Forbidden outcome\n";
        format!("{headings}{}", "Text about the bell.\n".repeat(20))
    }

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = files
            .iter()
            .map(|(name, _)| format!("{PROTOCOLS}/bell/{name}"))
            .collect();
        let files: Vec<(&str, &str)> = paths
            .iter()
            .zip(files)
            .map(|(path, (_, text))| (path.as_str(), *text))
            .collect();
        protocol_readme(&Tree::of(&files))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_whole_protocol_passes() {
        let readme = good_readme();
        let module = "//! Code of the bell. See README.md.\n";
        let flat = [
            ("README.md", &*readme),
            ("mod.rs", module),
            ("tests.rs", ""),
            ("loom.rs", ""),
        ];
        assert_eq!(check(&flat), Vec::<String>::new());
        let nested = [
            ("README.md", &*readme),
            ("mod.rs", module),
            ("tests/mod.rs", ""),
            ("tests/loom.rs", ""),
        ];
        assert_eq!(check(&nested), Vec::<String>::new());
        let beside = Tree::of(&[("crates/doorbell-core/src/lib.rs", "")]);
        assert!(protocol_readme(&beside).is_empty(), "a file is no protocol");
    }

    #[test]
    fn everything_missing_is_named() {
        let found = check(&[("word.rs", "")]);
        assert_eq!(found.len(), 4, "{found:?}");
        for file in ["README.md", "mod.rs", "tests.rs", "loom.rs"] {
            assert!(
                found.iter().any(|finding| finding.contains(file)),
                "{file}: {found:?}"
            );
        }
    }

    #[test]
    fn a_poor_readme_is_named() {
        let good = good_readme();
        assert_eq!(readme(&good), Vec::<String>::new());
        let short = good.replace("Text about the bell.\n", "");
        assert_eq!(readme(&short).len(), 1);
        for word in [
            "Words",
            "Steps",
            "race",
            "safe",
            "Worst allowed",
            "Forbidden",
        ] {
            assert_eq!(readme(&good.replace(word, "x")).len(), 1, "{word}");
        }
        assert_eq!(
            readme(&good.replace("## Words", "```\n## Words\n```")).len(),
            1
        );
    }

    #[test]
    fn the_first_line_of_the_module_must_point() {
        let readme = good_readme();
        for module in ["//! Code.\n//! See README.md.\n", "// See README.md.\n", ""] {
            let files = [
                ("README.md", &*readme),
                ("mod.rs", module),
                ("tests.rs", ""),
                ("loom.rs", ""),
            ];
            assert_eq!(check(&files).len(), 1, "{module}");
        }
    }
}
