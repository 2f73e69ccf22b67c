//! The protocols' accesses that have an ordering, and their fences, found in the sources.

use crate::Tree;
use crate::parsed::{Call, Form};
use crate::rules::ORDER_TAG;
use crate::tree::is_test;

/// The folder whose orderings are swept.
pub const SWEPT: &str = "crates/doorbell-core/src/";

/// The methods that take one ordering, as their last argument.
const ONE: [&str; 8] = [
    "load",
    "store",
    "swap",
    "fetch_or",
    "fetch_and",
    "fetch_xor",
    "fetch_add",
    "fetch_sub",
];

/// The methods that take two: for success and for failure.
const TWO: [&str; 2] = ["compare_exchange", "compare_exchange_weak"];

/// The fences of a machine.
const FENCES: [&str; 4] = [
    "fence_announce",
    "fence_recheck",
    "fence_light",
    "fence_heavy",
];

/// The names of orderings in the sources.
const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// Starts the reason, in an ORDER note, why no model can need the ordering.
const REDUNDANT: &str = "redundant because";

/// Starts the reason why no model can show that the ordering is needed.
const UNSHOWN: &str = "unshown because";

/// One access or fence in the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The file, from the root of the tree.
    pub path: String,
    /// The line of the method's name, or of a fence's path; from 1.
    pub line: usize,
    /// The column of the same, from 1, as the compiler counts.
    pub column: usize,
    /// The function around it.
    pub function: String,
    /// The method or the fence.
    pub access: String,
    /// Its orderings; `None` for one in a variable. Empty for a fence.
    pub orderings: Vec<Option<String>>,
    /// Whether only a mutant runs it, so that it is not part of the protocol.
    pub of_mutant: bool,
    /// Why it is redundant, if its ORDER note says that it is.
    pub redundant: Option<String>,
    /// Why no model shows that it is needed, if its ORDER note says so.
    pub unshown: Option<String>,
}

impl Site {
    /// The place, in the notation of the models' machine.
    pub fn place(&self) -> String {
        format!("{}:{}:{}", self.path, self.line, self.column)
    }

    /// Whether it is a fence.
    pub fn is_fence(&self) -> bool {
        FENCES.contains(&self.access.as_str())
    }
}

/// All sites in order of place, except tests and accesses with only `Relaxed`.
pub fn sites(tree: &Tree) -> Vec<Site> {
    let mut found = Vec::new();
    tree.each_rust("orderings", |path, parsed, _| {
        if !path.starts_with(SWEPT) || is_test(path) {
            return;
        }
        let calls = parsed.calls.iter().filter(|call| !call.in_test);
        found.extend(calls.filter_map(|call| site(path, call)));
    });
    found
}

/// The site of a call, if it is one.
fn site(path: &str, call: &Call) -> Option<Site> {
    let (access, is_method) = (call.name.as_str(), call.form == Form::Method);
    let orderings = match access {
        _ if FENCES.contains(&access) && call.form == Form::Path => Vec::new(),
        _ if ONE.contains(&access) && is_method => orderings(call, 1)?,
        _ if TWO.contains(&access) && is_method => orderings(call, 2)?,
        _ => return None,
    };
    let reason = |words: &str| {
        let note = call.note(ORDER_TAG)?;
        let (_, reason) = note.split_once(words)?;
        Some(reason.trim().to_owned())
    };
    Some(Site {
        path: path.to_owned(),
        line: call.line,
        column: call.column,
        function: call.function.clone(),
        access: access.to_owned(),
        of_mutant: call.in_mutant,
        redundant: reason(REDUNDANT),
        unshown: reason(UNSHOWN),
        orderings,
    })
}

/// The last `wanted` arguments of a call, if they are orderings and not all `Relaxed`. Other types also have methods
/// `load`, `store` and `swap`: a variable counts as an ordering if its name says so.
fn orderings(call: &Call, wanted: usize) -> Option<Vec<Option<String>>> {
    let last = call.arguments.checked_sub(wanted)?..call.arguments;
    let named = |place| {
        let mut passed = call.passed.iter();
        passed.find(|passed| passed.argument == Some(place))
    };
    let literal = |place| match &named(place)?.path[..] {
        [name] | [_, name] if ORDERINGS.contains(&name.as_str()) => Some(name.clone()),
        _ => None,
    };
    let is_variable = |place| named(place).is_some_and(|passed| passed.path[0].ends_with("order"));
    let found: Vec<Option<String>> = last.clone().map(literal).collect();
    let is_atomic = call.name.starts_with("fetch_")
        || wanted == 2
        || found.iter().any(Option::is_some)
        || last.clone().any(is_variable);
    let is_relaxed = found.iter().all(|name| name.as_deref() == Some("Relaxed"));
    (is_atomic && !is_relaxed).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> Vec<(usize, usize, String, Vec<Option<String>>)> {
        let text = format!("fn f() {{\n{body}\n}}\n");
        sites(&Tree::of(&[("crates/doorbell-core/src/x.rs", &text)]))
            .into_iter()
            .filter(|site| !site.of_mutant)
            .map(|site| (site.line, site.column, site.access, site.orderings))
            .collect()
    }

    fn known(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| Some((*name).to_owned())).collect()
    }

    #[test]
    fn a_site_stands_where_the_compiler_says_that_the_call_is() {
        let chain = "self.word\n    .fetch_or(f(1, 2), Ordering::AcqRel);";
        assert_eq!(
            found(chain),
            [(3, 6, "fetch_or".to_owned(), known(&["AcqRel"]))]
        );
        let fence = "    M::fence_recheck();";
        assert_eq!(found(fence), [(2, 5, "fence_recheck".to_owned(), vec![])]);
    }

    #[test]
    fn both_orderings_of_an_exchange_are_seen_also_in_variables() {
        let literal = "x.compare_exchange(a, b, Release, Ordering::Acquire);";
        assert_eq!(found(literal)[0].3, known(&["Release", "Acquire"]));
        let variable = "x.compare_exchange(a, b, publish(), Ordering::Relaxed,);";
        assert_eq!(found(variable)[0].3, [None, Some("Relaxed".to_owned())]);
        assert_eq!(found("x.swap(1, order);")[0].3, [None]);
        assert_eq!(found("x.fetch_add(1, publish);")[0].3, [None]);
    }

    #[test]
    fn what_cannot_be_weakened_is_no_site() {
        for none in [
            "x.load(Ordering::Relaxed);",
            "x.compare_exchange(a, b, Relaxed, Relaxed);",
            "v.swap(0, 1);",
            "list.load();",
            "swap(a, Acquire);",
            "// x.load(Ordering::Acquire)",
        ] {
            assert_eq!(found(none), [], "{none}");
        }
        let bug = "if M::breaks(Bug::A) {\n    x.load(Acquire);\n}";
        assert_eq!(found(bug), []);
        let test = "#[cfg(test)]\nmod tests { fn f() { x.load(Acquire); } }";
        assert_eq!(
            sites(&Tree::of(&[("crates/doorbell-core/src/x.rs", test)])),
            []
        );
    }

    #[test]
    fn what_a_mutant_leaves_out_is_a_site() {
        let fence = "if a && !M::breaks(Bug::A) {\n    M::fence_light();\n}";
        assert_eq!(found(fence).len(), 1);
        let other = "if M::breaks(Bug::A) {\n    f();\n} else {\n    x.load(Acquire);\n}";
        assert_eq!(found(other).len(), 1);
    }

    #[test]
    fn a_note_says_why_a_site_is_not_to_be_killed() {
        let text = "fn g() {\n    // ORDER: pairs with f; redundant because the fence\n    // orders it.\n    x.load(Acquire);\n    // ORDER: redundant because of the exchange.\n    M::fence_light();\n    // ORDER: unshown because nobody looks.\n    x.load(Acquire);\n}\n";
        let sites = sites(&Tree::of(&[("crates/doorbell-core/src/x.rs", text)]));
        let reasons: Vec<_> = sites.iter().map(|site| site.redundant.as_deref()).collect();
        assert_eq!(
            reasons,
            [Some("the fence orders it."), Some("of the exchange."), None]
        );
        let unshown: Vec<_> = sites.iter().map(|site| site.unshown.as_deref()).collect();
        assert_eq!(unshown, [None, None, Some("nobody looks.")]);
        assert_eq!(sites[0].function, "g");
    }
}
