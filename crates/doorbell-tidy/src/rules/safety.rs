//! `safety`: every `unsafe` says why it is sound, and every public unsafe function what it requires.

use proc_macro2::Delimiter;

use crate::parsed::{Parsed, tagged};
use crate::{Finding, Tree};

const RULE: &str = "safety";
const TAG: &str = "SAFETY:";

/// Blocks and impls without `// SAFETY:`, public unsafe functions without `# Safety`.
pub fn safety(tree: &Tree) -> Vec<Finding> {
    tree.each_rust(RULE, |path, parsed, findings| {
        for (index, kind) in sites(parsed) {
            let what = match reason(parsed, index) {
                None => format!("{kind} without a `// {TAG}` comment directly above"),
                Some(text) if text.is_empty() => format!("{kind} with an empty `// {TAG}` comment"),
                Some(_) => continue,
            };
            let line = parsed.tokens[index].start.line;
            findings.push(Finding::new(
                RULE,
                path,
                line,
                what,
                "say there why it is sound",
            ));
        }
        for public in parsed
            .outline
            .public_unsafe
            .iter()
            .filter(|public| !public.has_section)
        {
            let what = format!("public unsafe {} without a `# Safety` section", public.name);
            let remedy = "say in its documentation what the caller must keep";
            findings.push(Finding::new(RULE, path, public.line, what, remedy));
        }
    })
}

/// How many unsafe blocks and impls the tree has. Without any the rule would pass vacuously.
pub fn unsafe_sites(tree: &Tree) -> usize {
    let mut count = 0;
    tree.each_rust(RULE, |_, parsed, _| count += sites(parsed).len());
    count
}

/// Index and kind of every unsafe block and impl.
fn sites(parsed: &Parsed) -> Vec<(usize, &'static str)> {
    let kind = |index: usize| {
        if parsed.opens(index + 1, Delimiter::Brace) {
            Some("`unsafe` block")
        } else {
            (parsed.ident(index + 1) == Some("impl")).then_some("`unsafe impl`")
        }
    };
    let sites = (0..parsed.tokens.len()).filter(|&index| parsed.ident(index) == Some("unsafe"));
    sites
        .filter_map(|index| Some((index, kind(index)?)))
        .collect()
}

/// The text of the comment that covers the `unsafe`: before it on its own line, directly above it, or above
/// the enclosing statement.
fn reason(parsed: &Parsed, index: usize) -> Option<String> {
    let at = parsed.tokens[index].start;
    let statement = parsed.statement_start(index).line;
    let before =
        |comment: &&crate::parsed::Comment| comment.last_line == at.line && comment.start < at;
    let own_line: Vec<_> = parsed.comments.iter().filter(before).collect();
    let places = [
        own_line,
        parsed.comments_above(at.line),
        parsed.comments_above(statement),
    ];
    let texts: Vec<String> = places
        .iter()
        .filter_map(|place| tagged(place, TAG))
        .collect();
    texts
        .iter()
        .find(|text| !text.is_empty())
        .or(texts.first())
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    fn check(text: &str) -> Vec<usize> {
        lines(safety, "a.rs", text)
    }

    #[test]
    fn blocks_and_impls_without_a_reason_are_caught() {
        let bad = [
            ("fn f() {\n    unsafe { g() }\n}", 2),
            ("unsafe impl Send for S {}", 1),
            ("// SAFETY: far away.\n\nunsafe impl Send for S {}", 3),
            ("fn f() {\n    // SAFETY:\n    unsafe { g() }\n}", 3),
            (
                "/// SAFETY: documentation is no reason.\nunsafe impl Send for S {}",
                2,
            ),
            (
                "fn f() {\n    // SAFETY: of another.\n    h();\n    unsafe { g() }\n}",
                4,
            ),
            (
                "fn f() {\n    h(); // SAFETY: beside code.\n    unsafe { g() }\n}",
                3,
            ),
            (
                "macro_rules! m {\n    () => {\n        unsafe { g() }\n    };\n}",
                3,
            ),
            (
                "// SAFETY: above the function.\nfn f() {\n    unsafe { g() }\n}",
                3,
            ),
        ];
        for (text, line) in bad {
            assert_eq!(check(text), [line], "{text}");
        }
    }

    #[test]
    fn one_reason_between_two_blocks_covers_the_second_only() {
        let text = "fn f() {\n    h(\n        unsafe { a() },\n        // SAFETY: b is fine.\n        unsafe { b() },\n    );\n}";
        assert_eq!(check(text), [3]);
    }

    #[test]
    fn reasons_above_the_block_or_its_statement_pass() {
        let good = [
            "fn f() {\n    // SAFETY: g is fine.\n    unsafe { g() }\n}",
            "fn f() {\n    // SAFETY: g is fine,\n    // as is h.\n    let x = h(\n        1,\n        unsafe { g() },\n    );\n}",
            "// SAFETY: no state.\n#[cfg(unix)]\nunsafe impl Send for S {}",
            "#[cfg(unix)]\n/// Doc.\n// SAFETY: no state.\nunsafe impl Send for S {}",
            "fn f() {\n    match x {\n        // SAFETY: fine.\n        1 => unsafe { g() },\n    }\n}",
            "fn f() {\n    S {\n        // SAFETY: fine.\n        x: h(\n            unsafe { g() }),\n    }\n}",
            "macro_rules! m {\n    () => {\n        // SAFETY: fine.\n        let x =\n            unsafe { g() };\n    };\n}",
            "fn f() {\n    let x = /* SAFETY: fine. */ unsafe { g() };\n}",
            "fn f() {\n    // SAFETY:\n    // the text may start below.\n    unsafe { g() }\n}",
            "fn f() { g(\"unsafe { }\") }",
            "#[unsafe(no_mangle)]\nextern \"C\" fn f() {}",
        ];
        for text in good {
            assert_eq!(check(text), Vec::<usize>::new(), "{text}");
        }
    }

    #[test]
    fn public_unsafe_functions_need_a_section() {
        assert_eq!(check("/// Doc.\npub unsafe fn f() {}"), [2]);
        assert_eq!(check("pub trait T {\n    unsafe fn f();\n}"), [2]);
        assert_eq!(
            check("/// Doc.\n///\n/// # Safety\n///\n/// Hold it.\npub unsafe fn f() {}"),
            [] as [usize; 0]
        );
        assert_eq!(
            check("unsafe fn f() {}\npub fn g() {}"),
            Vec::<usize>::new()
        );
    }

    #[test]
    fn sites_are_counted() {
        let text = "unsafe impl Send for S {}\nfn f() { unsafe { g() } }\nunsafe fn h() {}";
        assert_eq!(unsafe_sites(&Tree::of(&[("a.rs", text)])), 2);
    }
}
