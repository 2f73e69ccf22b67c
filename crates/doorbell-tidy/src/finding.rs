//! The result of a rule.

use std::fmt;

/// A place that breaks a rule, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the tree, with `/`.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Name of the rule.
    pub rule: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do instead.
    pub remedy: String,
}

impl Finding {
    /// A finding of `rule` at `path:line`.
    pub fn new(
        rule: &'static str,
        path: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, rule) = (format!("{}:{}", self.path, self.line), self.rule);
        write!(f, "{place}: {rule}: {} ({})", self.what, self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_as_one_line() {
        let finding = Finding::new("length", "a/b.rs", 7, "too long", "split it");
        assert_eq!(finding.to_string(), "a/b.rs:7: length: too long (split it)");
    }
}
