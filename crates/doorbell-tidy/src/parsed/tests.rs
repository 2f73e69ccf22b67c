//! Tests of what is read of a file.

use super::*;

fn parse(text: &str) -> Parsed {
    Parsed::of(text).expect("snippet parses")
}

/// The note above or beside the call of this name.
fn note(text: &str, name: &str) -> Option<String> {
    let found = parse(text).calls.into_iter().find(|call| call.name == name);
    found.expect("there is such a call").note("NOTE:")
}

#[test]
fn comments_are_told_from_strings_and_docs() {
    let text = "//! NOTE: no\nfn f() {\n    g(\"// NOTE: no\");\n    h(1); // NOTE: yes\n}\n";
    assert_eq!(note(text, "g"), None);
    assert_eq!(note(text, "h").as_deref(), Some("yes"));
    let docs = "/// NOTE: no\nstatic A: u8 = f();\n// NOTE: yes\nstatic B: u8 = g();\n";
    assert_eq!(
        (note(docs, "f"), note(docs, "g")),
        (None, Some("yes".to_owned()))
    );
}

#[test]
fn places_count_wide_characters_once() {
    let parsed =
        parse("fn f() { let é = \"ü\"; /* a /* b */ c */ let x = M::g(1); y.h(2, z::w); }");
    let places: Vec<_> = parsed
        .calls
        .iter()
        .map(|call| {
            (
                &*call.name,
                call.form,
                call.line,
                call.column,
                call.arguments,
            )
        })
        .collect();
    assert_eq!(
        places,
        [("g", Form::Path, 1, 49, 1), ("h", Form::Method, 1, 60, 2)]
    );
    let [passed] = &parsed.calls[1].passed[..] else {
        panic!("{:?}", parsed.calls[1].passed);
    };
    assert_eq!(
        (&passed.path.join("::")[..], passed.argument),
        ("z::w", Some(1))
    );
}

#[test]
fn what_is_passed_belongs_to_the_innermost_call() {
    let parsed = parse("fn f() { g(if a == b { c } else { h(d, e) }, Some(i)); }");
    let passed = |name: &str| {
        let call = parsed.calls.iter().find(|call| call.name == name);
        let passed = &call.expect("there is such a call").passed;
        passed
            .iter()
            .map(|one| (one.path[0].clone(), one.argument))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        passed("g"),
        [("c".to_owned(), None), ("i".to_owned(), None)]
    );
    assert_eq!(
        passed("h"),
        [("d".to_owned(), Some(0)), ("e".to_owned(), Some(1))]
    );
}

#[test]
fn notes_stand_above_the_innermost_statement() {
    let text = "fn f() {\n    // NOTE: above a\n    a();\n    if b() {\n        // NOTE: above c\n        c\n            .d();\n    }\n    \
        match e() {\n        // NOTE: above the arm\n        1 => g(),\n    }\n}\n";
    let found = ["a", "b", "d", "e", "g"].map(|name| note(text, name));
    let wanted = [
        Some("above a"),
        None,
        Some("above c"),
        None,
        Some("above the arm"),
    ];
    assert_eq!(found, wanted.map(|text| text.map(str::to_owned)));
}

#[test]
fn macros_are_read_as_far_as_they_are_rust() {
    let text = "macro_rules! m {\n    () => {\n        a();\n        // NOTE: of b\n        $b(c(\n            d()));\n        if e() {}\n    };\n}\n\
        m! { fn f() { g(); } }\nm!(x, h(1));\nm! { => i( # ) [ j() ] }\n";
    let parsed = parse(text);
    let names: Vec<_> = parsed.calls.iter().map(|call| &*call.name).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "g", "h", "j"]);
    assert_eq!(
        (note(text, "d").as_deref(), note(text, "e")),
        (Some("of b"), None)
    );
}

#[test]
fn comments_above_end_at_blank_lines_and_code() {
    let text = "fn f() {\n    // NOTE: far\n\n    // near\n    #[cfg(unix)]\n    g();\n    h(); // NOTE: beside\n    i();\n}\n";
    assert_eq!([note(text, "g"), note(text, "i")], [None, None]);
    assert_eq!(note(text, "h").as_deref(), Some("beside"));
    let reached = text.replace("near", "NOTE: near");
    assert_eq!(note(&reached, "g").as_deref(), Some("near"));
}

#[test]
fn comments_in_the_braces_of_others_are_not_beside() {
    let text = "fn f() {\n    // NOTE: above\n    if a() {\n        // NOTE: inside\n    } else if b() { // end\n        // later\n    }\n}\n";
    assert_eq!(note(text, "b").as_deref(), Some("above"));
    let own = text.replace("    // NOTE: above\n", "");
    assert_eq!(note(&own, "b"), None);
}

#[test]
fn notes_take_the_lines_that_follow() {
    let text = "fn f() {\n    // Story.\n    // NOTE: because\n    // of this\n    g();\n}\n";
    assert_eq!(note(text, "g").as_deref(), Some("because of this"));
}

#[test]
fn broken_files_say_where() {
    assert_eq!(Parsed::of("\n\n)").map(|_| ()).unwrap_err().0, 3);
}

#[test]
fn functions_tests_and_mutants_are_told_by_what_is_around() {
    let text = "pub fn f<A, B>(x: fn(u8)) -> u8 where A: B, B: A {\n    match x { C { .. } => { g(); } }\n}\n\
        #[cfg(test)]\n#[inline]\npub(crate) mod t { fn u() { v(); } }\n#[cfg(any(test, unix))]\nconst W: u8 = w();\n\
        fn h() { if M::breaks(1) { i(); } else if !M::breaks(2) { j(); } }\n";
    let parsed = parse(text);
    let around = |name: &str| {
        let call = parsed.calls.iter().find(|call| call.name == name);
        let call = call.expect("there is such a call");
        (&*call.function, call.in_test, call.in_mutant)
    };
    assert_eq!(around("g"), ("f", false, false));
    assert_eq!(around("v"), ("u", true, false));
    assert_eq!(around("w"), ("", false, false));
    assert_eq!(around("i"), ("h", false, true));
    assert_eq!(around("j"), ("h", false, false));
}

#[test]
fn paths_are_those_of_code_and_of_every_use() {
    let parsed = parse(
        "use crate::{a, b::{self, c as d, *}};\n#[cfg(test)]\nuse super::e;\nfn f() { crate::g::<crate::H>(); }\n",
    );
    let own = parsed.paths.iter().filter(|named| !named.in_test);
    let own: Vec<_> = own.map(|named| named.path.join("::")).collect();
    assert_eq!(
        own,
        [
            "crate::a",
            "crate::b",
            "crate::b::c",
            "crate::b",
            "crate::g",
            "crate::H"
        ]
    );
}

#[test]
fn a_statement_goes_on_behind_a_brace() {
    let text = "fn f() {\n    // NOTE: of all\n    if a {\n    } else if b() {\n    }\n    // NOTE: of the struct\n    S {\n    }\n    .c();\n}\n";
    assert_eq!(note(text, "b").as_deref(), Some("of all"));
    assert_eq!(note(text, "c").as_deref(), Some("of the struct"));
}
