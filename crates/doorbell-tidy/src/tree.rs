//! The tree of files that the rules check.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use walkdir::{DirEntry, WalkDir};

use crate::finding::Finding;
use crate::parsed::Parsed;

/// Extensions of the files whose text is kept. Of other files only the path is kept.
const TEXT_ENDINGS: [&str; 4] = ["rs", "md", "toml", "lock"];
/// Names of files and folders of test code, and beginnings of others. Others end with `_tests`.
const TEST_NAMES: [&str; 3] = ["tests", "examples", "benches"];
const TEST_STARTS: [&str; 2] = ["loom", "testing"];

/// A text, and what it was parsed to once a rule has asked for that.
#[derive(Debug)]
struct Source {
    text: String,
    parsed: OnceLock<Result<Parsed, (usize, String)>>,
}

impl From<String> for Source {
    fn from(text: String) -> Self {
        Source {
            text,
            parsed: OnceLock::new(),
        }
    }
}

/// The paths and texts of a repository.
#[derive(Debug, Default)]
pub struct Tree {
    /// Path to text, for the files with one of [`TEXT_ENDINGS`].
    texts: BTreeMap<String, Source>,
    /// Every file and folder.
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the tree below `root`, except version control and build output.
    ///
    /// # Errors
    ///
    /// If a folder cannot be listed, or a text cannot be read or is not UTF-8.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        let all = WalkDir::new(root).min_depth(1).into_iter();
        for entry in all.filter_entry(is_source) {
            let entry = entry?;
            let path = relative(root, entry.path());
            if entry.file_type().is_file() && is_text(&path) {
                let text = std::fs::read_to_string(entry.path())
                    .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
                tree.texts.insert(path.clone(), text.into());
            }
            tree.paths.insert(path);
        }
        Ok(tree)
    }

    /// A tree in memory, for unit tests: pairs of a path and a text.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for &(path, text) in files {
            tree.texts.insert(path.to_owned(), text.to_owned().into());
            let parts: Vec<&str> = path.split('/').collect();
            for end in 1..=parts.len() {
                tree.paths.insert(parts[..end].join("/"));
            }
        }
        tree
    }

    /// The text of the file at `path`, if it exists and rules read its kind.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(|source| source.text.as_str())
    }

    /// The Rust file at `path`, parsed, if it exists. Threads that ask for one file share the result.
    ///
    /// # Errors
    /// The line and the message, if it is not valid Rust.
    pub fn parsed(&self, path: &str) -> Option<Result<&Parsed, &(usize, String)>> {
        let source = self.texts.get(path)?;
        let parsed = source.parsed.get_or_init(|| Parsed::of(&source.text));
        Some(parsed.as_ref())
    }

    /// Whether a file or folder exists at `path`. The empty path is the root.
    pub fn contains(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }

    /// All texts whose path ends in `.ending`, in order of path.
    pub fn with_ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let texts = self.texts.iter();
        let texts = texts.filter(move |(path, _)| ending_of(path) == Some(ending));
        texts.map(|(path, source)| (path.as_str(), source.text.as_str()))
    }

    /// Parses every Rust file and passes it to `look`. A file that does not parse is a finding, so that no
    /// file escapes a rule by being broken.
    pub fn each_rust(
        &self,
        rule: &'static str,
        mut look: impl FnMut(&str, &Parsed, &mut Vec<Finding>),
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (path, _) in self.with_ending("rs") {
            match self.parsed(path) {
                Some(Ok(parsed)) => look(path, parsed, &mut findings),
                Some(Err((line, error))) => {
                    let what = format!("does not parse: {error}");
                    findings.push(Finding::new(rule, path, *line, what, "make it compile"));
                }
                None => {}
            }
        }
        findings
    }

    /// Names of the folders directly below `folder`.
    pub fn folders_in(&self, folder: &str) -> BTreeSet<&str> {
        let prefix = format!("{folder}/");
        let below = self.paths.iter();
        let below = below.filter_map(|path| path.strip_prefix(&prefix)?.split_once('/'));
        below.map(|(name, _)| name).collect()
    }
}

/// Whether only tests compile the Rust file at `path`, by its name and those of the folders around it. A module of tests
/// that is named otherwise counts as code that has to keep the rules.
pub fn is_test(path: &str) -> bool {
    path.trim_end_matches(".rs").split('/').any(|part| {
        let begins = TEST_STARTS.iter().any(|start| part.starts_with(start));
        begins || TEST_NAMES.contains(&part) || part.ends_with("_tests")
    })
}

/// The last part of a path.
pub fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The folder of a path; empty at the root.
pub fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Joins a relative path to a folder and resolves `.` and `..`; `None` if it leaves the tree.
pub fn join(folder: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn ending_of(path: &str) -> Option<&str> {
    name_of(path).rsplit_once('.').map(|(_, ending)| ending)
}

fn is_text(path: &str) -> bool {
    ending_of(path).is_some_and(|ending| TEXT_ENDINGS.contains(&ending))
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

/// Excludes version control and build output. cargo marks a target folder with `CACHEDIR.TAG`.
fn is_source(entry: &DirEntry) -> bool {
    let git = entry.file_name() == ".git";
    let built = entry.file_type().is_dir() && entry.path().join("CACHEDIR.TAG").exists();
    let target = entry.depth() == 1 && entry.file_name() == "target";
    !(git || built || target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_include_the_folders() {
        let tree = Tree::of(&[("a/b/c.rs", ""), ("a/d.md", "")]);
        assert!(tree.contains("a") && tree.contains("a/b") && tree.contains("a/b/c.rs"));
        assert!(!tree.contains("a/c.rs"));
        assert_eq!(tree.folders_in("a").into_iter().collect::<Vec<_>>(), ["b"]);
        assert_eq!(tree.with_ending("rs").count(), 1);
    }

    #[test]
    fn test_code_is_told_by_its_name() {
        for path in [
            "c/src/tests.rs",
            "c/tests/api.rs",
            "c/src/a/loom_many.rs",
            "c/src/x_tests.rs",
            "c/src/testing/a.rs",
        ] {
            assert!(is_test(path), "{path}");
        }
        for path in ["c/src/lib.rs", "c/src/bloom.rs", "c/src/latest.rs"] {
            assert!(!is_test(path), "{path}");
        }
    }

    #[test]
    fn join_resolves_dots_and_stays_inside() {
        assert_eq!(join("a/b", "../c.md").as_deref(), Some("a/c.md"));
        assert_eq!(join("", "./c.md").as_deref(), Some("c.md"));
        assert_eq!(join("a", "../../c.md"), None);
    }

    #[test]
    fn reads_this_crate_from_disk() {
        let tree = Tree::read(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("readable");
        assert!(
            tree.text("src/tree.rs")
                .expect("this file")
                .contains("reads_this_crate")
        );
        assert!(tree.contains("src") && tree.text("src").is_none());
    }

    #[test]
    fn a_file_that_does_not_parse_is_a_finding() {
        let tree = Tree::of(&[("a.rs", "fn ok() {}\n"), ("b.rs", "\nfn broken( {\n")]);
        let mut seen = 0;
        let findings = tree.each_rust("rule", |_, _, _| seen += 1);
        assert_eq!((seen, findings.len()), (1, 1));
        assert_eq!(findings[0].path, "b.rs");
    }
}
