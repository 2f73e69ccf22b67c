//! Tests of the options, of how a function is read, and of what is made of both.

use super::expand_simulated;
use crate::error::Result;
use crate::function::Function;
use crate::options::Options;
use proc_macro2::TokenStream;

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap()
}

fn options(text: &str) -> Result<Options> {
    Options::parse(tokens(text))
}

fn refused(text: &str) -> String {
    options(text).unwrap_err().to_string()
}

fn function(text: &str) -> Function {
    Function::parse(tokens(text)).unwrap()
}

/// As text without spaces.
fn close(tokens: &TokenStream) -> String {
    tokens.to_string().replace([' ', '\n'], "")
}

#[test]
fn an_option_stands_once() {
    assert!(options("sim, cores = 2, seeds = 0..1, faults(deschedule, late_wakes)").is_ok());
    for text in [
        "sim, sim",
        "sim, faults(deschedule), faults(late_wakes)",
        "cores = 1, cores = 2",
    ] {
        assert!(refused(text).contains("stands here twice"), "{text}");
    }
}

#[test]
fn what_is_no_option_is_named() {
    assert!(refused("workers = 2").contains("no option `workers = …`; there are `cores`"));
    // tokio's, with what to write.
    assert!(refused("worker_threads = 2").contains("write `cores = …`"));
    assert!(refused("flavor = \"current_thread\"").contains("write `cores = 1`"));
    for text in ["cores", "cores = ", "cores(2)"] {
        assert_eq!(refused(text), "option `cores` is written `cores = …`");
    }
    assert!(refused("2").contains("no option; there are"));
    assert_eq!(refused("cores: 2"), "expected `=`");
}

#[test]
fn a_value_has_commas_of_its_own() {
    let texts = [
        "|worker| told(worker, 1)",
        "|a, b| a",
        "move |a, b| a | b",
        "|| f::<u8, Vec<u8>>(1, 2)",
        "|a, b| |c, d| (a, d)",
        "if 1 < N { 2 } else { 3 }",
        "|a| -> Result<u8, u8> { a }",
        "A | B",
    ];
    for text in texts {
        let both = options(&format!("builder = {text}, cores = 2")).unwrap();
        let builder = both.builder.unwrap();
        assert_eq!(close(&builder.tokens), close(&tokens(text)));
        assert_eq!(close(&both.cores.unwrap().tokens), "2", "{text}");
    }
}

#[test]
fn a_function_is_cut_into_its_parts() {
    let it = function(
        "#[doc = \"1\"] #[inline] pub(crate) async unsafe extern \"C\" fn name<F: Fn(u8) -> Vec<Vec<u8>>, const N: usize>
        (f: F, (a, mut b): (u8, u8)) -> Vec<F> where F: Send { #![allow(unused)] #![cfg(all())] body() }",
    );
    assert_eq!(
        close(&it.attributes),
        "#[doc=\"1\"]#[inline]#[allow(unused)]#[cfg(all())]"
    );
    assert_eq!(close(&it.visibility), "pub(crate)");
    assert_eq!(it.name, "name");
    assert!(it.asyncness.is_some());
    assert_eq!(close(&it.arguments.stream()), "f:F,(a,mutb):(u8,u8)");
    assert_eq!(close(&it.body.stream()), "body()");
    let signature = close(&it.signature());
    assert!(
        signature.starts_with("unsafeextern\"C\"fnname<F:Fn(u8)->Vec<Vec<u8>>,constN:usize>(f:F,")
    );
    assert!(signature.ends_with(")->Vec<F>whereF:Send"));
}

#[test]
fn what_is_no_function_is_refused() {
    for text in [
        "struct S;",
        "fn",
        "async fn f",
        "fn f<T>",
        "impl S { fn f() {} }",
        "",
    ] {
        assert!(Function::parse(tokens(text)).is_err(), "{text}");
    }
    let error = Function::parse(tokens("async fn f();")).unwrap_err();
    assert_eq!(error.to_string(), "this function has no body");
}

#[test]
fn a_simulated_test_needs_no_cargo() {
    let function = function("async fn program() {}");
    let made = expand_simulated(&options("sim").unwrap(), &function).unwrap();
    let made = close(&made);
    assert!(made.contains("core::option_env!") && !made.contains("core::env!"));
}

#[test]
fn a_machine_is_given_once() {
    let both = options("sim, machine = spec(), profile = \"vm-2\"").unwrap();
    let function = function("async fn program() {}");
    let error = expand_simulated(&both, &function).unwrap_err();
    assert!(error.to_string().contains("write one of them"), "{error}");
}
