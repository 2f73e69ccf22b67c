//! Tests of the options and of what is made of them.

use super::{Options, expand_simulated};

fn options(text: &str) -> syn::Result<Options> {
    syn::parse_str(text)
}

#[test]
fn an_option_stands_once() {
    assert!(options("sim, cores = 2, seeds = 0..1, faults(deschedule, late_wakes)").is_ok());
    for text in [
        "sim, sim",
        "sim, faults(deschedule), faults(late_wakes)",
        "cores = 1, cores = 2",
    ] {
        let error = options(text).err().unwrap();
        assert!(error.to_string().contains("stands here twice"), "{error}");
    }
}

#[test]
fn a_simulated_test_needs_no_cargo() {
    let function = syn::parse_str("async fn program() {}").unwrap();
    let made = expand_simulated(&options("sim").unwrap(), function).unwrap();
    let made = made.to_string().replace(' ', "");
    assert!(made.contains("core::option_env!") && !made.contains("core::env!"));
}
