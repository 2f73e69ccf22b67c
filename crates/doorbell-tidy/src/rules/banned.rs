//! `banned`: marks of unfinished work, libraries that print, and packages that must not be dependencies.

use proc_macro2::Delimiter;

use crate::modules::Modules;
use crate::parsed::Parsed;
use crate::tree::name_of;
use crate::{Finding, Tree};

const RULE: &str = "banned";

/// Marks of unfinished work, assembled so that this file does not contain them.
const MARKS: [&str; 2] = [concat!("FIX", "ME"), concat!("X", "XX")];

/// Macros of unfinished work.
const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Macros that print.
const PRINTING: [&str; 4] = ["println", "eprintln", "print", "eprint"];

/// The tool, which may print. Every other crate is a library, except its build script, whose output cargo
/// reads.
const PRINTER: &str = "crates/doorbell-lab/";

/// Prefixes of packages that must not be dependencies: their licence has a rider.
const PACKAGES: [&str; 2] = ["asupersync", "franken-"];

/// Marks of unfinished work, printing libraries, banned packages.
pub fn banned(tree: &Tree) -> Vec<Finding> {
    let modules = Modules::of(tree);
    let mut findings = tree.each_rust(RULE, |path, parsed, findings| {
        let printer = path.starts_with(PRINTER) || name_of(path) == "build.rs";
        let may_print = printer || modules.is_test(path);
        for index in 0..parsed.tokens.len() {
            let Some((what, remedy)) = token(parsed, index, may_print) else {
                continue;
            };
            let line = parsed.tokens[index].start.line;
            findings.push(Finding::new(RULE, path, line, what, remedy));
        }
    });
    for (path, text) in tree.with_ending("rs").chain(tree.with_ending("toml")) {
        findings.extend(marks(path, text));
    }
    for (path, text) in tree.with_ending("toml").chain(tree.with_ending("lock")) {
        if matches!(name_of(path), "Cargo.toml" | "Cargo.lock") {
            findings.extend(packages(path, text));
        }
    }
    findings
}

/// What is wrong with the token at `index`.
fn token(parsed: &Parsed, index: usize, may_print: bool) -> Option<(String, &'static str)> {
    let ignored = parsed.is_punct(index, '#')
        && parsed.opens(index + 1, Delimiter::Bracket)
        && parsed.ident(index + 2) == Some("ignore");
    if ignored {
        return Some((
            "test that never runs".to_owned(),
            "make it fast enough, or remove it",
        ));
    }
    let name = parsed
        .ident(index)
        .filter(|_| parsed.is_punct(index + 1, '!'))?;
    // `name != x` is a comparison.
    if parsed.is_punct(index + 2, '=') {
        return None;
    }
    if UNFINISHED.contains(&name) {
        return Some((
            format!("`{name}!` is left over"),
            "finish it, or return an error",
        ));
    }
    let prints = PRINTING.contains(&name) && !may_print && !parsed.in_test(index);
    prints.then(|| {
        (
            format!("`{name}!` in a library"),
            "return it to the caller, or count it",
        )
    })
}

/// Lines with a mark of unfinished work, also in comments and strings.
fn marks(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
            let what = format!("`{mark}` is left over");
            findings.push(Finding::new(
                RULE,
                path,
                index + 1,
                what,
                "do it, or file it",
            ));
        }
    }
    findings
}

/// Whether `line` contains `word`, without a letter, digit or underscore directly beside it.
fn has_word(line: &str, word: &str) -> bool {
    let free = |next: Option<char>| !next.is_some_and(|next| next == '_' || next.is_alphanumeric());
    line.match_indices(word).any(|(at, _)| {
        free(line[..at].chars().next_back()) && free(line[at + word.len()..].chars().next())
    })
}

/// Lines that name a banned package. `_` counts as `-`.
fn packages(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.to_lowercase().replace('_', "-");
        for package in PACKAGES.iter().filter(|package| line.contains(**package)) {
            let what = format!("depends on a package named `{package}*`");
            let remedy = "its licence carries a rider; find another, or do without";
            findings.push(Finding::new(RULE, path, index + 1, what, remedy));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    const CORE: &str = "crates/doorbell-core/src/x.rs";
    const LAB: &str = "crates/doorbell-lab/src/x.rs";

    #[test]
    fn left_overs_are_caught_everywhere() {
        let bad = [
            "fn f() { todo!() }".to_owned(),
            "fn f() { unimplemented!(\"later\") }".to_owned(),
            "fn f() { let x = dbg!(1); }".to_owned(),
            "fn f() { std::todo! {} }".to_owned(),
            "#[ignore]\nfn f() {}".to_owned(),
            "#[ignore = \"slow\"]\nfn f() {}".to_owned(),
            format!("// {}: later\nfn f() {{}}", MARKS[0]),
            format!("fn f() {{ g(\"{}\") }}", MARKS[1]),
        ];
        for text in &bad {
            for path in [CORE, LAB, "crates/doorbell/tests/api.rs"] {
                assert_eq!(lines(banned, path, text), [1], "{path}: {text}");
            }
        }
        assert_eq!(
            lines(banned, "clippy.toml", &format!("a = 1\n# {}\n", MARKS[0])),
            [2]
        );
    }

    #[test]
    fn what_only_looks_like_it_passes() {
        let good = [
            "/// Never `todo!()`.\nfn f() { g(\"todo!()\") }".to_owned(),
            "fn f() { if todo != 1 {} }".to_owned(),
            "fn todo() {}".to_owned(),
            "#[cfg_attr(miri, ignore)]\nfn f() {}".to_owned(),
            format!("fn f() {{ mkstemp(\"a{}{}\") }}", MARKS[1], MARKS[1]),
        ];
        for text in good {
            assert_eq!(lines(banned, CORE, &text), Vec::<usize>::new(), "{text}");
        }
    }

    #[test]
    fn libraries_do_not_print_but_the_lab_and_tests_do() {
        for name in PRINTING {
            let text = format!("fn f() {{ {name}!(\"x\") }}");
            for path in [
                CORE,
                "crates/doorbell/src/x.rs",
                "crates/doorbell-macros/src/x.rs",
            ] {
                assert_eq!(lines(banned, path, &text), [1], "{path}");
            }
            for path in [
                LAB,
                "crates/doorbell/build.rs",
                "crates/doorbell/tests/a.rs",
                "crates/doorbell/examples/a.rs",
            ] {
                assert_eq!(lines(banned, path, &text), Vec::<usize>::new(), "{path}");
            }
        }
        let doc = "/// ```\n/// println!(\"x\");\n/// ```\nfn f() {}";
        assert_eq!(lines(banned, CORE, doc), Vec::<usize>::new());
    }

    #[test]
    fn banned_packages_are_caught_in_manifests_and_the_lock() {
        let lock =
            "[[package]]\nname = \"franken-kernel\"\n\n[[package]]\nname = \"asupersync-macros\"\n";
        assert_eq!(lines(banned, "Cargo.lock", lock), [2, 5]);
        let manifest = "[dependencies]\nfranken_evidence = \"1\"\nasupersync.version = \"1\"\n";
        assert_eq!(lines(banned, "crates/a/Cargo.toml", manifest), [2, 3]);
        let good = "[[package]]\nname = \"async-task\"\n";
        assert_eq!(lines(banned, "Cargo.lock", good), Vec::<usize>::new());
        assert_eq!(
            lines(banned, "deny.toml", "deny = [\"asupersync\"]\n"),
            Vec::<usize>::new()
        );
    }
}
