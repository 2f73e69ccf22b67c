//! `length`: one concept per file, and functions of a readable size. A file of more than 900 lines has two
//! concepts.

use crate::{Finding, Tree};

const RULE: &str = "length";

/// The most lines of a file.
const FILE_LINES_MAX: usize = 900;

/// The most lines of a function, including its signature.
const FUNCTION_LINES_MAX: usize = 70;

/// A file or function that may be longer for now. The table may only shrink: a limit above the actual size
/// is a finding, as is an exception that is not needed.
struct Exception {
    /// The file.
    path: &'static str,
    /// The function in it, or the file itself.
    function: Option<&'static str>,
    /// The allowed number of lines.
    limit: usize,
    /// The reason.
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[];

/// Files and functions that are too long, and exceptions that are not needed.
pub fn length(tree: &Tree) -> Vec<Finding> {
    check(tree, EXCEPTIONS)
}

/// The largest function of one name in a file, or the file.
struct Size {
    path: String,
    function: Option<String>,
    line: usize,
    lines: usize,
}

impl Size {
    fn matches(&self, exception: &Exception) -> bool {
        self.path == exception.path && self.function.as_deref() == exception.function
    }

    fn default_limit(&self) -> usize {
        if self.function.is_some() {
            FUNCTION_LINES_MAX
        } else {
            FILE_LINES_MAX
        }
    }

    fn name(&self) -> String {
        self.function
            .as_ref()
            .map_or("file".to_owned(), |name| format!("function `{name}`"))
    }
}

fn check(tree: &Tree, exceptions: &[Exception]) -> Vec<Finding> {
    let mut sizes = Vec::new();
    let mut findings = tree.each_rust(RULE, |path, parsed, _| {
        let lines = tree.text(path).map_or(0, |text| text.lines().count());
        sizes.push(Size {
            path: path.to_owned(),
            function: None,
            line: 1,
            lines,
        });
        for function in &parsed.outline.functions {
            let (path, line) = (path.to_owned(), function.first_line);
            let lines = function.last_line - line + 1;
            sizes.push(Size {
                path,
                function: Some(function.name.clone()),
                line,
                lines,
            });
        }
    });
    for size in &sizes {
        let exception = exceptions.iter().find(|exception| size.matches(exception));
        let limit = exception.map_or(size.default_limit(), |exception| exception.limit);
        if size.lines > limit {
            let what = format!(
                "{} has {} lines, more than {limit}",
                size.name(),
                size.lines
            );
            let remedy = "split it where a name for the part comes easily";
            findings.push(Finding::new(RULE, &size.path, size.line, what, remedy));
        }
    }
    findings.extend(
        exceptions
            .iter()
            .filter_map(|exception| stale(exception, &sizes)),
    );
    findings
}

/// What is wrong with an exception itself, if anything.
fn stale(exception: &Exception, sizes: &[Size]) -> Option<Finding> {
    let longest = sizes
        .iter()
        .filter(|size| size.matches(exception))
        .max_by_key(|size| size.lines);
    let (what, remedy) = match longest {
        None => (
            "exception for something that is not there".to_owned(),
            "remove it".to_owned(),
        ),
        Some(size) if size.lines <= size.default_limit() => {
            let what = format!("exception that the {} no longer needs", size.name());
            (what, "remove it".to_owned())
        }
        Some(size) if size.lines < exception.limit => {
            let what = format!("exception for {} is looser than it must be", size.name());
            (what, format!("lower it to {}", size.lines))
        }
        Some(_) if exception.reason.is_empty() => (
            "exception without a reason".to_owned(),
            "give one".to_owned(),
        ),
        Some(_) => return None,
    };
    let line = longest.map_or(1, |size| size.line);
    Some(Finding::new(RULE, exception.path, line, what, remedy))
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    fn function(lines: usize) -> String {
        format!(
            "/// Doc.\nfn f() {{\n{}}}\n",
            "    g();\n".repeat(lines - 2)
        )
    }

    #[test]
    fn long_functions_are_caught_at_the_line() {
        assert_eq!(lines(length, "a.rs", &function(70)), Vec::<usize>::new());
        assert_eq!(lines(length, "a.rs", &function(71)), [2]);
        let method = format!(
            "impl S {{\n    pub fn f(\n        &self,\n    ) {{\n{}    }}\n}}\n",
            "g();\n".repeat(67)
        );
        assert_eq!(lines(length, "a.rs", &method), [2]);
    }

    #[test]
    fn long_files_are_caught() {
        assert_eq!(
            lines(length, "a.rs", &"// x\n".repeat(900)),
            Vec::<usize>::new()
        );
        assert_eq!(lines(length, "a.rs", &"// x\n".repeat(901)), [1]);
    }

    #[test]
    fn the_ratchet_only_tightens() {
        let with = |lines: usize, limit: usize, reason: &'static str| {
            let text = function(lines);
            let exception = Exception {
                path: "a.rs",
                function: Some("f"),
                limit,
                reason,
            };
            let found = check(&Tree::of(&[("a.rs", &text)]), &[exception]);
            found
                .into_iter()
                .map(|finding| finding.remedy)
                .collect::<Vec<_>>()
        };
        assert!(with(80, 80, "a table").is_empty());
        assert_eq!(with(81, 80, "a table").len(), 1);
        assert_eq!(with(75, 80, "a table"), ["lower it to 75"]);
        assert_eq!(with(70, 80, "a table"), ["remove it"]);
        assert_eq!(with(80, 80, ""), ["give one"]);
        let gone = Exception {
            path: "b.rs",
            function: None,
            limit: 1_000,
            reason: "a table",
        };
        assert_eq!(check(&Tree::of(&[("a.rs", "")]), &[gone]).len(), 1);
    }
}
