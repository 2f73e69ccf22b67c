//! The protocols' accesses that have an ordering, and their fences, found in the sources.

use proc_macro2::Delimiter;

use crate::Tree;
use crate::parsed::{Kind, Parsed};
use crate::rules::order_reason;

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
        if !path.starts_with(SWEPT) || tree.is_test(path) {
            return;
        }
        let indices = (0..parsed.tokens.len()).filter(|&index| !parsed.in_test(index));
        found.extend(indices.filter_map(|index| site(path, parsed, index)));
    });
    found
}

/// Whether the token is inside braces that only a mutant enters: `if M::breaks(…) {`.
fn in_mutant(parsed: &Parsed, index: usize) -> bool {
    parsed.braces_around(index).any(|open| {
        // An `else` is not entered by its `if`.
        let head = (parsed.statement_first(open, &[';', ','])..open).rev();
        let brace = Kind::Close(Delimiter::Brace);
        let mut head = head.take_while(|&at| parsed.tokens[at].kind != brace);
        let negated = |at: usize| at > 3 && parsed.is_punct(at - 4, '!');
        head.any(|at| parsed.ident(at) == Some("breaks") && !negated(at))
    })
}

/// The site whose method or fence is named at `index`.
fn site(path: &str, parsed: &Parsed, index: usize) -> Option<Site> {
    let access = parsed.ident(index)?;
    if !parsed.opens(index + 1, Delimiter::Parenthesis) || index < 3 {
        return None;
    }
    let is_method = parsed.is_punct(index - 1, '.');
    let of_machine = parsed.is_path_sep(index - 2);
    let (start, orderings) = if FENCES.contains(&access) && of_machine {
        (index - 3, Vec::new())
    } else if is_method && (ONE.contains(&access) || TWO.contains(&access)) {
        let wanted = if TWO.contains(&access) { 2 } else { 1 };
        (index, orderings(parsed, index + 1, wanted)?)
    } else {
        return None;
    };
    let at = parsed.tokens[start].start;
    Some(Site {
        path: path.to_owned(),
        line: at.line,
        column: at.column + 1,
        function: parsed.function_around(index).unwrap_or_default().to_owned(),
        access: access.to_owned(),
        of_mutant: in_mutant(parsed, index),
        redundant: reason(parsed, index, REDUNDANT),
        unshown: reason(parsed, index, UNSHOWN),
        orderings,
    })
}

/// The last `wanted` arguments of the call that opens at `open`, if they are orderings and not all
/// `Relaxed`. Other types also have methods `load`, `store` and `swap`: a variable counts as an ordering if
/// its name says so.
fn orderings(parsed: &Parsed, open: usize, wanted: usize) -> Option<Vec<Option<String>>> {
    let arguments = parsed.parts(open);
    let access = parsed.ident(open - 1)?;
    let last = arguments.len().checked_sub(wanted)?;
    let literal = |&(start, end): &(usize, usize)| {
        let name = parsed.ident(end - 1)?;
        let alone = end - start == 1 || (end - start == 4 && parsed.is_path_sep(end - 3));
        (ORDERINGS.contains(&name) && alone).then(|| name.to_owned())
    };
    let found: Vec<Option<String>> = arguments[last..].iter().map(literal).collect();
    let named = |&(start, end): &(usize, usize)| {
        end - start == 1
            && parsed
                .ident(start)
                .is_some_and(|name| name.ends_with("order"))
    };
    let is_atomic = access.starts_with("fetch_")
        || wanted == 2
        || found.iter().any(Option::is_some)
        || arguments[last..].iter().any(named);
    let is_relaxed = found.iter().all(|name| name.as_deref() == Some("Relaxed"));
    (is_atomic && !is_relaxed).then_some(found)
}

/// The reason that the access's ORDER note gives after these words.
fn reason(parsed: &Parsed, index: usize, words: &str) -> Option<String> {
    let note = order_reason(parsed, index + 2)?;
    let (_, reason) = note.split_once(words)?;
    Some(reason.trim().to_owned())
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
