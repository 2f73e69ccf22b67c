//! Which files the `mod` declarations reach, and which code only tests compile.

use std::collections::{BTreeMap, BTreeSet};

use crate::outline::Module;
use crate::parsed::Parsed;
use crate::tree::{Tree, folder_of, join, name_of};

/// Folders of test code, at any depth.
const TEST_FOLDERS: [&str; 3] = ["tests", "examples", "benches"];

/// The files that are reachable from the roots of their crates.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    /// Maps a path to whether it is reached only through `#[cfg(test)]`.
    reached: BTreeMap<String, bool>,
}

/// A file to follow: its path, whether its modules are beside it, whether it is test code.
type Step = (String, bool, bool);

impl Modules {
    /// Follows all `mod` declarations of the tree. A file that does not parse counts as reached, but its
    /// modules do not.
    pub fn of(tree: &Tree) -> Self {
        let mut modules = Self::default();
        let mut steps: Vec<Step> = roots(tree)
            .into_iter()
            .map(|root| (root, true, false))
            .collect();
        while let Some((path, beside, test)) = steps.pop() {
            let known = modules.reached.get(&path);
            if known.is_some_and(|&known_test| test || !known_test) {
                continue;
            }
            modules.reached.insert(path.clone(), test);
            let Some(Ok(parsed)) = tree.parsed(&path) else {
                continue;
            };
            let test = test || parsed.outline.all_test;
            modules.reached.insert(path.clone(), test);
            steps.extend(next(tree, &path, beside, test, parsed));
        }
        modules
    }

    /// Whether the whole file is test code: by its name, its folder, or how it is reached.
    pub fn is_test(&self, path: &str) -> bool {
        let in_folder = folder_of(path)
            .split('/')
            .any(|part| TEST_FOLDERS.contains(&part));
        in_folder || name_of(path) == "tests.rs" || self.reached.get(path) == Some(&true)
    }
}

/// The roots of all crates: those that cargo finds by itself, and those that manifests name.
fn roots(tree: &Tree) -> BTreeSet<String> {
    let mut roots = BTreeSet::new();
    for (manifest, text) in tree.manifests() {
        let folder = folder_of(manifest);
        let mut add = |relative: &str| {
            roots.extend(join(folder, relative).filter(|path| tree.text(path).is_some()));
        };
        ["src/lib.rs", "src/main.rs", "build.rs"]
            .into_iter()
            .for_each(&mut add);
        let table: toml::Table = text.parse().unwrap_or_default();
        named_paths(&table).into_iter().for_each(&mut add);
        let src = join(folder, "src").unwrap_or_default();
        let bins = tree
            .with_ending("rs")
            .filter(|(path, _)| is_binary_root(path, &src));
        let bins: Vec<String> = bins.map(|(path, _)| path.to_owned()).collect();
        roots.extend(bins);
    }
    roots
}

/// The `path` values of `[lib]` and `[[bin]]`.
fn named_paths(manifest: &toml::Table) -> Vec<&str> {
    let lib = manifest.get("lib").into_iter();
    let bins = manifest
        .get("bin")
        .and_then(toml::Value::as_array)
        .into_iter()
        .flatten();
    lib.chain(bins)
        .filter_map(|target| target.get("path")?.as_str())
        .collect()
}

/// `src/bin/name.rs` or `src/bin/name/main.rs`.
fn is_binary_root(path: &str, src: &str) -> bool {
    let below = path
        .strip_prefix(src)
        .and_then(|rest| rest.strip_prefix("/bin/"));
    below.is_some_and(|rest| match rest.split_once('/') {
        None => true,
        Some((_, file)) => file == "main.rs",
    })
}

/// The files of a file's modules.
fn next(tree: &Tree, path: &str, beside: bool, test: bool, parsed: &Parsed) -> Vec<Step> {
    let folder = folder_of(path);
    let stem = name_of(path).trim_end_matches(".rs");
    let own = if beside {
        folder.to_owned()
    } else {
        format!("{folder}/{stem}")
    };
    let mut steps = Vec::new();
    for module in &parsed.outline.modules {
        let test = test || module.test;
        for (candidate, beside) in candidates(folder, &own, module) {
            if tree.text(&candidate).is_some() {
                steps.push((candidate, beside, test));
            }
        }
    }
    let included = parsed
        .outline
        .includes
        .iter()
        .filter_map(|relative| join(folder, relative));
    let included = included.filter(|path| tree.text(path).is_some());
    steps.extend(included.map(|path| (path, true, test)));
    steps
}

/// Where the file of a module may be, and whether its own modules are beside it there.
fn candidates(folder: &str, own: &str, module: &Module) -> Vec<(String, bool)> {
    let inner = module.inside.join("/");
    let base = join(own, &inner).unwrap_or_default();
    // A `#[path]` is relative to the folder of the file, or of the inline modules around it.
    let from = if module.inside.is_empty() {
        folder
    } else {
        &base
    };
    let given = module.path.iter().chain(&module.other_paths);
    let given = given.filter_map(|path| join(from, path));
    let mut found: Vec<_> = given.map(|path| (path, true)).collect();
    if module.path.is_none() {
        found.extend(join(&base, &format!("{}.rs", module.name)).map(|path| (path, false)));
        found.extend(join(&base, &format!("{}/mod.rs", module.name)).map(|path| (path, true)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(files: &[(&str, &str)]) -> Vec<(String, bool)> {
        Modules::of(&Tree::of(files)).reached.into_iter().collect()
    }

    fn names(files: &[(&str, &str)]) -> Vec<String> {
        reached(files).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn modules_are_followed_in_both_layouts() {
        let files = [
            ("c/Cargo.toml", ""),
            ("c/src/lib.rs", "mod a; mod b; mod in_line { mod d; }"),
            ("c/src/a.rs", "mod x;"),
            ("c/src/a/x.rs", ""),
            ("c/src/b/mod.rs", "mod y;"),
            ("c/src/b/y.rs", ""),
            ("c/src/in_line/d.rs", ""),
            ("c/src/lost.rs", ""),
        ];
        let found = names(&files);
        assert_eq!(found.len(), 6);
        assert!(!found.contains(&"c/src/lost.rs".to_owned()));
    }

    #[test]
    fn path_attributes_bins_and_includes_count() {
        let files = [
            (
                "c/Cargo.toml",
                "[[bin]]\nname = \"n\"\npath = \"src/tool/start.rs\"\n",
            ),
            (
                "c/src/main.rs",
                "#[path = \"else/where.rs\"] mod w; include!(\"text.rs\"); \
                 #[cfg_attr(unix, path = \"odd.rs\")] mod even;",
            ),
            ("c/src/else/where.rs", "mod z;"),
            ("c/src/else/z.rs", ""),
            ("c/src/text.rs", ""),
            ("c/src/odd.rs", ""),
            ("c/src/even.rs", ""),
            ("c/src/w.rs", "a `#[path]` leads past this file"),
            ("c/src/tool/start.rs", ""),
            ("c/src/bin/one.rs", ""),
            ("c/src/bin/two/main.rs", "mod part;"),
            ("c/src/bin/two/part.rs", ""),
        ];
        assert_eq!(names(&files).len(), 10);
    }

    #[test]
    fn a_file_is_a_test_unless_something_else_reaches_it_too() {
        let files = [
            ("c/Cargo.toml", ""),
            (
                "c/src/lib.rs",
                "#[cfg(test)] mod t; #[cfg(test)] mod u; mod v;",
            ),
            ("c/src/t.rs", "mod deep;"),
            ("c/src/t/deep.rs", ""),
            ("c/src/u.rs", ""),
            ("c/src/v.rs", "#[path = \"u.rs\"] mod u;"),
            ("c/tests/api.rs", ""),
        ];
        let modules = Modules::of(&Tree::of(&files));
        assert!(modules.is_test("c/src/t.rs") && modules.is_test("c/src/t/deep.rs"));
        assert!(modules.is_test("c/tests/api.rs") && modules.is_test("c/src/x/tests.rs"));
        assert!(!modules.is_test("c/src/u.rs") && !modules.is_test("c/src/lib.rs"));
    }
}
