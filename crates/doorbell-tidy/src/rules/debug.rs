//! `debug`: a protocol performs the same accesses in every build.
//!
//! A seed must give the same run in every build. A load in a debug assertion would be a step of the
//! simulated machine that release builds do not take, and it would delay every step after it.

use proc_macro2::Delimiter;

use crate::parsed::{Kind, Parsed};
use crate::{Finding, Tree};

const RULE: &str = "debug";

/// The folder of the protocols.
const HOLDS: &str = "crates/doorbell-core/src/";

/// Macros that a release build removes.
const ASSERTS: [&str; 3] = ["debug_assert", "debug_assert_eq", "debug_assert_ne"];

/// Methods of plain values, which do not access the machine. `get` is that of std's `Cell` and of a
/// counter, both invisible to the machine.
const PLAIN: [&str; 7] = [
    "get", "is_err", "is_none", "is_null", "is_ok", "is_ready", "is_some",
];

/// Calls in debug assertions that may access the machine, and code that exists only in debug builds.
pub fn debug(tree: &Tree) -> Vec<Finding> {
    tree.each_rust(RULE, |path, parsed, findings| {
        if !path.starts_with(HOLDS) || tree.is_test(path) {
            return;
        }
        for index in (0..parsed.tokens.len()).filter(|index| !parsed.in_test(*index)) {
            let Some(name) = parsed.ident(index) else {
                continue;
            };
            let mut add = |index: usize, what: String, remedy: &str| {
                let line = parsed.tokens[index].start.line;
                findings.push(Finding::new(RULE, path, line, what, remedy));
            };
            if name == "debug_assertions" {
                let what = "code that only some builds have".to_owned();
                add(index, what, "do the same in every build");
            }
            let is_macro = ASSERTS.contains(&name) && parsed.is_punct(index + 1, '!');
            for call in is_macro
                .then(|| calls(parsed, index + 2))
                .into_iter()
                .flatten()
            {
                let called = parsed.ident(call).unwrap_or_default();
                let what = format!("`{called}` is called in a debug assertion");
                add(
                    call,
                    what,
                    "call it before, in every build, or use `assert!`",
                );
            }
        }
    })
}

/// The functions called in the group at `open` that may access the machine.
fn calls(parsed: &Parsed, open: usize) -> Vec<usize> {
    let Some(group) = parsed.tokens.get(open) else {
        return Vec::new();
    };
    let is_group = matches!(group.kind, Kind::Open(_));
    let inside = if is_group { open + 1..group.mate } else { 0..0 };
    inside
        .filter(|index| parsed.opens(index + 1, Delimiter::Parenthesis))
        .filter(|index| {
            // `Some(…)` only creates a value.
            let starts = |name: &str| name.starts_with(char::is_lowercase);
            parsed
                .ident(*index)
                .is_some_and(|name| starts(name) && !PLAIN.contains(&name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    const CORE: &str = "crates/doorbell-core/src/x.rs";

    #[test]
    fn what_may_touch_the_machine_is_caught() {
        let bad = [
            "fn f() { debug_assert!(self.word.load(Ordering::Relaxed) == 0); }",
            "fn f() { debug_assert!(!entry.is_linked(), \"freed\"); }",
            "fn f() { debug_assert_eq!(state(cell), 1, \"queued\"); }",
            "fn f() { debug_assert_ne! { M::now_ns(), 1 } }",
            "fn f() { debug_assert!(found.is_some_and(|it| it.cell.with(|it| true))); }",
            "fn f() { if cfg!(debug_assertions) { look(); } }",
            "#[cfg(debug_assertions)]\nfn f() {}",
        ];
        for text in bad {
            let found = lines(debug, CORE, text);
            assert!(
                !found.is_empty() && found.iter().all(|line| *line == 1),
                "{text}"
            );
        }
    }

    #[test]
    fn plain_values_other_crates_and_tests_pass() {
        let good = [
            "fn f() { debug_assert!(before >= count); }",
            "fn f() { debug_assert!(seen & SEIZED != 0, \"a task was queued twice\"); }",
            "fn f() { debug_assert!(self.slab.get() == Some(slab), \"drawn (just now)\"); }",
            "fn f() { debug_assert!((1 + 2) > 0 && polled.is_ready()); }",
            "fn f() { assert!(!entry.is_linked()); }",
            "/// `debug_assert!(f())`\nfn f() { g(\"debug_assert!(f())\"); }",
            "#[cfg(test)]\nmod tests {\n    fn f() { debug_assert!(g()); }\n}",
        ];
        for text in good {
            assert_eq!(lines(debug, CORE, text), Vec::<usize>::new(), "{text}");
        }
        let other = "fn f() { debug_assert!(sorted.is_sorted()); }";
        let lab = "crates/doorbell-lab/src/x.rs";
        assert_eq!(lines(debug, lab, other), Vec::<usize>::new());
    }
}
