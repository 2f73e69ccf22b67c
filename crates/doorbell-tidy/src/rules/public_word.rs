//! `public_word`: every Markdown file has one title, and its links have a target.

use crate::markdown::{links, titles};
use crate::tree::{folder_of, join};
use crate::{Finding, Tree};

const RULE: &str = "public_word";

/// Markdown files without a title or with several, and links to files that do not exist.
pub fn public_word(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("md") {
        let titles = titles(text);
        if titles.len() != 1 {
            let line = titles.get(1).copied().unwrap_or(1);
            let what = format!("has {} titles (`# …`), not one", titles.len());
            let remedy = "keep one, and use `##` below it";
            findings.push(Finding::new(RULE, path, line, what, remedy));
        }
        for (line, link) in links(text) {
            if is_broken(tree, path, &link) {
                let what = format!("link to `{link}` leads nowhere");
                let remedy = "name a file of the tree";
                findings.push(Finding::new(RULE, path, line, what, remedy));
            }
        }
    }
    findings
}

/// Whether the target of a relative link does not exist. A link that starts with `/` is relative to the
/// root of the tree. Links with a scheme, or within their own page, are not checked.
fn is_broken(tree: &Tree, path: &str, link: &str) -> bool {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
    let scheme = link.split_once(':').map(|(name, _)| name);
    let outside = scheme.is_some_and(|name| name.chars().all(is_of_scheme));
    let file = link.split(['#', '?']).next().unwrap_or_default();
    if outside || file.is_empty() {
        return false;
    }
    let from_root = file.starts_with('/');
    let folder = if from_root { "" } else { folder_of(path) };
    let target = join(folder, &file.replace("%20", " "));
    !target.is_some_and(|target| tree.contains(&target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<usize> {
        let files = [
            ("docs/a.md", text),
            ("docs/b.md", "# B\n"),
            ("src/c d.rs", ""),
        ];
        let findings = public_word(&Tree::of(&files));
        assert!(
            findings.iter().all(|finding| finding.path == "docs/a.md"),
            "{findings:?}"
        );
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn one_title_passes_none_and_two_do_not() {
        assert_eq!(
            check("# A\n\n## B\n\n```sh\n# comment\n```\n"),
            Vec::<usize>::new()
        );
        assert_eq!(check("## A\n"), [1]);
        assert_eq!(check("# A\ntext\n# B\n"), [3]);
        assert_eq!(check("```\n# A\n```\n"), [1]);
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let good = [
            "[b](b.md) [b](./b.md#part) [b](../docs/b.md?x)",
            "[c](<../src/c d.rs>) [c](../src/c%20d.rs)",
            "[root](/docs/b.md) [folder](../src/) [root](..)",
            "[web](https://x.org/y.md) [mail](mailto:a@b.c) [here](#part)",
            "`[no](link.md)`",
            "```\n[no](link.md)\n```",
        ];
        for text in good {
            assert_eq!(
                check(&format!("# A\n{text}\n")),
                Vec::<usize>::new(),
                "{text}"
            );
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_caught() {
        let bad = [
            "[x](x.md)",
            "![x](x.png)",
            "[x](../b.md)",
            "[x](../../b.md)",
            "[id]: x.md",
            "[x](/x)",
        ];
        for text in bad {
            assert_eq!(check(&format!("# A\n{text}\n")), [2], "{text}");
        }
    }
}
