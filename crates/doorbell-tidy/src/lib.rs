//! Checks of the tree's own rules, run as tests.
//!
//! No rule of style exists only in prose. Each one (which crate may depend on which, where atomics may be
//! named, that every ordering has a reason) is a function from the [`Tree`] to a list of [`Finding`]s, and
//! `tests/tidy.rs` runs it on the real tree.
//!
//! ```
//! use doorbell_tidy::{Tree, rules};
//!
//! let tree = Tree::of(&[("docs/a.md", "# One title\n\n# And a second\n")]);
//! let findings = rules::public_word(&tree);
//! assert_eq!(findings.len(), 1);
//! assert!(findings[0].to_string().starts_with("docs/a.md:3: public_word: "));
//! ```
//!
//! # Layers
//!
//! - [`Tree`]: the paths and texts, from disk or (in unit tests) from memory.
//! - [`parsed`]: what the rules look at in one Rust file.
//! - [`rules`]: one file per rule, each with unit tests of what it catches and what it passes.
//! - [`orderings`]: the sweep that weakens one ordering at a time, a separate program.

pub mod finding;
pub mod markdown;
pub mod orderings;
pub mod parsed;
pub mod rules;
pub mod tree;

pub use finding::Finding;
pub use tree::Tree;
