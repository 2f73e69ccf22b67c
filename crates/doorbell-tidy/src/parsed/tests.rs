//! Tests of the flat view of a file.

use super::*;

fn parse(text: &str) -> Parsed {
    Parsed::of(text).expect("snippet parses")
}

/// Index of the first identifier `name`.
fn at(parsed: &Parsed, name: &str) -> usize {
    let found = |index: &usize| parsed.ident(*index) == Some(name);
    (0..parsed.tokens.len())
        .find(found)
        .expect("identifier is there")
}

#[test]
fn comments_are_told_from_strings_and_docs() {
    let text = "//! Doc.\n/// More.\nfn f() { // one\n    let s = \"// no\"; /* two\n    three */\n}\n// end";
    let parsed = parse(text);
    let plain: Vec<_> = parsed
        .comments
        .iter()
        .filter(|c| !c.doc)
        .map(|c| c.lines.clone())
        .collect();
    assert_eq!(plain, [vec!["one"], vec!["two", "three"], vec!["end"]]);
    let docs: Vec<_> = parsed
        .comments
        .iter()
        .filter(|c| c.doc)
        .map(|c| c.start.line)
        .collect();
    assert_eq!(docs, [1, 2]);
}

#[test]
fn nested_block_comments_and_wide_characters() {
    let parsed = parse("fn f() { let é = \"ü\"; /* a /* b */ c */ let x = 1; // ä\n}");
    let lines: Vec<_> = parsed
        .comments
        .iter()
        .map(|c| c.lines[0].as_str())
        .collect();
    assert_eq!(lines, ["a /* b */ c", "ä"]);
}

#[test]
fn groups_know_their_mates_and_parents() {
    let parsed = parse("fn f() { g(h) }");
    let inner = at(&parsed, "h");
    let groups: Vec<_> = parsed.groups_around(inner).collect();
    assert_eq!(groups.len(), 2);
    assert!(parsed.opens(groups[0], Delimiter::Parenthesis));
    assert!(parsed.opens(groups[1], Delimiter::Brace));
    assert_eq!(parsed.tokens[groups[0]].mate, inner + 1);
}

#[test]
fn statements_start_where_syntax_says() {
    let text = "fn f() {\n    a();\n    if b {\n        c\n            .d();\n    }\n    match e {\n        1 => g(),\n    }\n}\n";
    let parsed = parse(text);
    let line = |name| parsed.statement_start(at(&parsed, name)).line;
    assert_eq!(
        (line("a"), line("b"), line("d"), line("e"), line("g")),
        (2, 3, 4, 7, 8)
    );
}

#[test]
fn statements_in_macros_start_after_a_semicolon_or_brace() {
    let text = "macro_rules! m {\n    () => {\n        a();\n        b(c(\n            d));\n        if e {}\n        g();\n    };\n}\n";
    let parsed = parse(text);
    let line = |name| parsed.statement_start(at(&parsed, name)).line;
    assert_eq!((line("a"), line("d"), line("e"), line("g")), (3, 4, 6, 7));
}

#[test]
fn comments_above_reach_through_attributes_but_not_blank_lines() {
    let text = "// far\n\n// near\n#[cfg(\n    x\n)]\n/// doc\nfn f() {}\nfn g() {} // beside\nfn h() {}\n";
    let parsed = parse(text);
    let above = |line| {
        let comments = parsed.comments_above(line);
        comments
            .iter()
            .map(|c| c.lines[0].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(above(8), ["near", "doc"]);
    assert!(
        above(10).is_empty(),
        "a comment beside code is not above the next line"
    );
    assert_eq!(above(3), Vec::<String>::new());
}

#[test]
fn comments_beside_skip_the_braces_of_others() {
    let text = "fn f() {\n    // above\n    if a {\n        // inside\n    } else if b { // end\n        // later\n    }\n}\n";
    let parsed = parse(text);
    let index = at(&parsed, "b");
    let start = parsed.statement_start(index);
    let beside = parsed.comments_beside(index, start, parsed.tokens[index].end.line);
    assert!(beside.is_empty(), "{beside:?}");
    let outer = parsed.comments_beside(index, Pos { line: 2, column: 0 }, 5);
    assert_eq!(
        outer
            .iter()
            .map(|c| c.lines[0].as_str())
            .collect::<Vec<_>>(),
        ["above"]
    );
}

#[test]
fn tags_take_the_lines_that_follow() {
    let parsed =
        parse("// Story.\n// SAFETY: because\n// of this\nfn f() {}\n/// SAFETY: doc\nfn g() {}\n");
    let text = tagged(&parsed.comments_above(4), "SAFETY:");
    assert_eq!(text.as_deref(), Some("because of this"));
    assert_eq!(tagged(&parsed.comments_above(6), "SAFETY:"), None);
}

#[test]
fn broken_files_say_where() {
    assert_eq!(Parsed::of("\n\n)").map(|_| ()).unwrap_err().0, 3);
}

#[test]
fn functions_and_tests_are_told_by_their_tokens() {
    let text = "pub fn f<A, B>(x: fn(u8)) -> u8 where A: B, B: A {\n    match x { C { .. } => { g(); } }\n}\n\
        #[cfg(test)]\n#[inline]\npub(crate) mod t { fn u() { v; } }\n#[cfg(any(test, unix))]\nconst W: u8 = 1;\n";
    let parsed = parse(text);
    let function = |name| parsed.function_around(at(&parsed, name));
    assert_eq!(function("g"), Some("f"));
    assert_eq!(function("v"), Some("u"));
    assert_eq!(function("W"), None);
    assert!(parsed.in_test(at(&parsed, "v")) && !parsed.in_test(at(&parsed, "g")));
    assert!(!parsed.in_test(at(&parsed, "W")));
}

#[test]
fn a_statement_goes_on_behind_a_brace() {
    let text = "fn f() {\n    if a {\n    } else if b {\n    }\n    S {\n    }\n    .c();\n}\n";
    let parsed = parse(text);
    let line = |name| parsed.statement_start(at(&parsed, name)).line;
    assert_eq!((line("b"), line("c")), (2, 5));
}
