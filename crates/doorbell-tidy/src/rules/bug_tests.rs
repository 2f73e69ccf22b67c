//! `bug_tests`: the tests that the lists of bugs and of tokio's crates name exist, in the files that the lists name.

use crate::{Finding, Tree};

const RULE: &str = "bug_tests";

/// The lists: names in backticks, then a file in parentheses, then a semicolon if more follow.
const LISTS: [&str; 2] = ["docs/bugs.md", "docs/tokio-crates.md"];

/// Names in a list without such a test.
pub fn bug_tests(tree: &Tree) -> Vec<Finding> {
    LISTS.iter().flat_map(|list| of_list(tree, list)).collect()
}

fn of_list(tree: &Tree, list: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = tree.text(list).unwrap_or_default().lines().zip(1..);
    let parts = lines.flat_map(|(line, number)| line.split(';').map(move |part| (part, number)));
    for (part, number) in parts {
        for name in names(part).filter(|name| !exists(tree, name, file(part))) {
            let place = file(part).unwrap_or("any file");
            let what = format!("there is no test `{name}` in {place}");
            let remedy = "write it, or name the test and its file as they are";
            findings.push(Finding::new(RULE, list, number, what, remedy));
        }
    }
    findings
}

/// Whether there is such a test, in that file or in any.
fn exists(tree: &Tree, name: &str, file: Option<&str>) -> bool {
    let function = format!("fn {name}(");
    let has_it = |text: &str| text.contains(&function);
    match file {
        Some(file) => {
            let places = places(file);
            places.iter().filter_map(|path| tree.text(path)).any(has_it)
        }
        None => tree.with_ending("rs").any(|(_, text)| has_it(text)),
    }
}

/// Names that look like a test's: in backticks, with at least two underscores.
fn names(part: &str) -> impl Iterator<Item = &str> {
    let is_name = |text: &&str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        text.chars().all(fits) && text.matches('_').count() > 1
    };
    part.split('`').skip(1).step_by(2).filter(is_name)
}

/// The file in parentheses.
fn file(part: &str) -> Option<&str> {
    let (file, _) = part.rsplit_once('(')?.1.split_once(')')?;
    file.strip_suffix(".rs").map(|_| file)
}

/// `crate/file.rs` is in that crate's sources, or beside them. A path from the root stands for itself.
fn places(file: &str) -> [String; 3] {
    let (name, rest) = file.split_once('/').unwrap_or((file, ""));
    [
        format!("crates/{name}/src/{rest}"),
        format!("crates/{name}/{rest}"),
        file.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::bug_tests;
    use crate::Tree;

    fn lines(list: &str) -> Vec<usize> {
        let inner = "#[test]\nfn w1_it_is_kept() {}\n";
        let outer = "#[test]\nfn w2_it_is_found() {}\n";
        let tree = Tree::of(&[
            ("docs/bugs.md", list),
            ("crates/a/src/b/tests.rs", inner),
            ("crates/a/tests/c.rs", outer),
            ("example/tests/d.rs", "fn it_is_an_example() {}\n"),
        ]);
        bug_tests(&tree).iter().map(|found| found.line).collect()
    }

    #[test]
    fn tests_that_are_there_pass() {
        let list = "| W1 | `w1_it_is_kept` (a/b/tests.rs); `w2_it_is_found` (a/tests/c.rs) |\n\
                    | W2 | as W1, `doorbell torture`, `w2_it_is_found` |\n\
                    | W3 | `it_is_an_example` (example/tests/d.rs) |\n";
        assert_eq!(lines(list), [] as [usize; 0]);
    }

    #[test]
    fn tests_that_are_not_there_or_elsewhere_are_found() {
        let list = "| W1 | `w1_it_is_lost` (a/b/tests.rs) |\n\
                    | W2 | `w2_it_is_found` (a/b/tests.rs) |\n\
                    | W3 | `w3_it_was_here` |\n\
                    | W4 | `w1_it_is_kept` (a/b/tests.rs); `w1_it_is_kept` (a/gone.rs) |\n";
        assert_eq!(lines(list), [1, 2, 3, 4]);
    }
}
