//! What the features of the crate turn on in crates of others.

use std::process::Command;

#[test]
fn the_feature_tokio_io_turns_on_no_runtime_of_tokio() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--package",
            "doorbell",
            "--edges",
            "normal",
        ])
        .args([
            "--features",
            "tokio-io",
            "--prefix",
            "none",
            "--format",
            "{p} | {f}",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{tree:?}");
    let tree = String::from_utf8(tree.stdout).expect("a text");
    let tokio = tree.lines().find(|line| line.starts_with("tokio v"));
    let (_, features) = tokio.and_then(|line| line.split_once(" | ")).expect(&tree);
    let features: Vec<&str> = features.split(',').collect();
    assert!(features.contains(&"io-util"), "{features:?}");
    for runtime in ["rt", "rt-multi-thread"] {
        assert!(!features.contains(&runtime), "{features:?}");
    }
}
