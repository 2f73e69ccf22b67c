//! Which files only tests compile.

use std::collections::BTreeSet;

use crate::parsed::Module;
use crate::tree::{Tree, folder_of, join, name_of};

/// Folders of test code, at any depth.
const TEST_FOLDERS: [&str; 3] = ["tests", "examples", "benches"];

/// Files whose modules are beside them, not in a folder of the file's name.
const BESIDE: [&str; 3] = ["mod.rs", "lib.rs", "main.rs"];

/// The modules under `#[cfg(test)]`, and what these declare, as paths without `.rs`. What lies in folders of these
/// names is theirs.
pub fn of_tests(tree: &Tree) -> BTreeSet<String> {
    let mut all = Vec::new();
    tree.each_rust("modules", |path, parsed, _| {
        let file = |module: &Module| Some((path.to_owned(), file_of(path, module)?, module.test));
        all.extend(parsed.modules.iter().filter_map(file));
    });
    let mut stems = BTreeSet::new();
    loop {
        let known = stems.len();
        for (path, stem, test) in &all {
            if *test || is_test(path, &stems) {
                stems.insert(stem.clone());
            }
        }
        if stems.len() == known {
            return stems;
        }
    }
}

/// The file of a module that `path` declares, without `.rs`.
fn file_of(path: &str, module: &Module) -> Option<String> {
    if let Some(given) = &module.path {
        return Some(stem(&join(folder_of(path), given)?).to_owned());
    }
    let beside = BESIDE.contains(&name_of(path));
    let own = if beside { folder_of(path) } else { stem(path) };
    join(own, &module.name)
}

/// Whether the whole file is test code: by its name, its folder, or one of the declarations.
pub fn is_test(path: &str, declared: &BTreeSet<String>) -> bool {
    let in_folder = |part: &str| TEST_FOLDERS.contains(&part);
    let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
    let mut stems = folders.chain([stem(path)]);
    folder_of(path).split('/').any(in_folder)
        || name_of(path) == "tests.rs"
        || stems.any(|stem| declared.contains(stem))
}

fn stem(path: &str) -> &str {
    path.trim_end_matches(".rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_tests_are_found_in_both_layouts() {
        let files = [
            (
                "c/src/lib.rs",
                "#[cfg(test)] mod t; mod v; mod b; #[cfg(all(test, unix))] pub(crate) mod w; \
                 #[cfg(any(test, feature = \"x\"))] mod x; wrapped! { #[cfg(test)] mod y; } mod i { #[cfg(test)] mod z; }",
            ),
            (
                "c/src/v.rs",
                "#[cfg(test)] #[path = \"odd.rs\"] mod own; #[cfg(not(test))] mod real;",
            ),
            (
                "c/src/b/mod.rs",
                "#[cfg(test)]\n#[allow(unused)]\nmod beside; #[cfg(test)] mod inline { mod deep; }",
            ),
            ("c/src/all.rs", "#![cfg(test)] mod part;"),
            ("c/src/t.rs", "#[path = \"far.rs\"] mod far;"),
        ];
        let tree = Tree::of(&files);
        let tests = [
            "t.rs",
            "t/deep.rs",
            "t/mod.rs",
            "w.rs",
            "y.rs",
            "i/z.rs",
            "odd.rs",
            "far.rs",
            "b/beside.rs",
            "b/inline/deep.rs",
            "all/part.rs",
            "x/tests.rs",
            "x/tests/any.rs",
        ];
        for path in tests {
            assert!(tree.is_test(&format!("c/src/{path}")), "{path}");
        }
        assert!(tree.is_test("c/tests/api.rs"));
        for path in ["lib.rs", "v.rs", "x.rs", "v/own.rs", "v/real.rs", "to.rs"] {
            assert!(!tree.is_test(&format!("c/src/{path}")), "{path}");
        }
    }
}
