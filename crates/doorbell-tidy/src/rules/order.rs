//! `order`: every memory ordering that is passed has a reason, including `Relaxed`.
//!
//! The comment names the partner of the access and what becomes visible: `// ORDER: pairs with …`. A
//! variable named `order` or `…_order` that is passed to an atomic operation counts as an ordering.
//! Exception: doorbell-machine, whose words forward the ordering that they are given.

use crate::parsed::{Call, Parsed, Passed};
use crate::tree::is_test;
use crate::{Finding, Tree};

const RULE: &str = "order";
/// Begins the comment.
pub const TAG: &str = "ORDER:";

/// A shorter text cannot name a partner.
const TEXT_MIN: usize = 15;

/// The folders in which the rule holds.
const HOLDS: [&str; 3] = [
    "crates/doorbell-core/",
    "crates/doorbell/",
    "crates/doorbell-machine/src/",
];

/// The simulator and the model checker implement orderings and do not rely on them.
const MODELS: [&str; 4] = [
    "crates/doorbell-machine/src/sim/",
    "crates/doorbell-machine/src/sim.rs",
    "crates/doorbell-machine/src/loom/",
    "crates/doorbell-machine/src/loom.rs",
];

/// The crate in which a variable is a forwarded parameter.
const FORWARDS: &str = "crates/doorbell-machine/";

/// The orderings of memory.
const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// Orderings that are passed to a call without an `// ORDER:` comment.
pub fn order(tree: &Tree) -> Vec<Finding> {
    tree.each_rust(RULE, |path, parsed, findings| {
        let mut last = 0;
        for (call, site) in sites(path, parsed) {
            let reason = call.note(TAG);
            let said = match reason.map(|text| text.chars().count()) {
                Some(TEXT_MIN..) => continue,
                Some(_) => format!("with an `// {TAG}` comment that says too little"),
                None => format!("without an `// {TAG}` comment at its statement"),
            };
            // Several orderings on one line are one finding.
            if site.line == last {
                continue;
            }
            last = site.line;
            let name = site.path.last().map_or("", String::as_str);
            let what = format!("`{name}` {said}");
            let remedy = "name the partner of the access and what becomes visible";
            findings.push(Finding::new(RULE, path, last, what, remedy));
        }
    })
}

/// How many orderings the rule checks. Without any it would pass vacuously.
pub fn order_sites(tree: &Tree) -> usize {
    let mut count = 0;
    tree.each_rust(RULE, |path, parsed, _| {
        count += sites(path, parsed).len();
    });
    count
}

fn holds(path: &str) -> bool {
    let within = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    within(&HOLDS) && !within(&MODELS) && !is_test(path)
}

/// The orderings that are passed to calls, outside of test code.
fn sites<'a>(path: &str, parsed: &'a Parsed) -> Vec<(&'a Call, &'a Passed)> {
    let forwards = path.starts_with(FORWARDS);
    let calls = parsed.calls.iter().filter(|call| !call.in_test);
    let passed = calls.flat_map(|call| call.passed.iter().map(move |site| (call, site)));
    let sites = passed.filter(|(call, site)| match &site.path[..] {
        [.., kind, name] => kind.ends_with("Ordering") && is_ordering(name),
        [name] if site.argument.is_some() => {
            let is_variable = name == "order" || name.ends_with("_order");
            is_ordering(name) || (is_variable && !forwards && is_atomic(&call.name))
        }
        _ => false,
    });
    sites.filter(|_| holds(path)).collect()
}

fn is_ordering(name: &str) -> bool {
    ORDERINGS.contains(&name)
}

/// Whether it is the name of an atomic operation.
fn is_atomic(name: &str) -> bool {
    let prefixes = ["fetch_", "compare_exchange"];
    let exact = ["load", "store", "swap", "fence"];
    exact.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    const CORE: &str = "crates/doorbell-core/src/x.rs";

    fn check(body: &str) -> Vec<usize> {
        lines(order, CORE, &format!("fn f() {{\n{body}\n}}\n"))
    }

    #[test]
    fn orderings_without_a_reason_are_caught() {
        let bad = [
            ("x.load(Ordering::Acquire);", 2),
            ("x.load(atomic::Ordering::Acquire);", 2),
            ("x.load(Acquire);", 2),
            ("x.store(1, Release);", 2),
            ("x.fetch_or(1, SeqCst,);", 2),
            ("fence(Ordering::SeqCst);", 2),
            (
                "x.cas(a, b,\n    Ordering::AcqRel,\n    Ordering::Relaxed);",
                3,
            ),
            ("assert_eq!(x.load(Ordering::Relaxed), 0);", 2),
            (
                "x.load(if y { Ordering::Acquire } else { Ordering::Relaxed });",
                2,
            ),
            ("// ORDER: above but not directly.\n\nx.load(Acquire);", 4),
            ("// ORDER: too short\nx.load(Acquire);", 3),
            ("// ORDER:\nx.load(Acquire);", 3),
            (
                "// ORDER: for the first of two statements.\na();\nx.load(Acquire);",
                4,
            ),
            (
                "// ORDER: above the loop is too far away.\nloop {\n    x.load(Acquire);\n}",
                4,
            ),
            (
                "if a {\n    // ORDER: of another branch, inside.\n} else if x.load(Acquire) {}",
                4,
            ),
            ("a(); // ORDER: beside the line above.\nx.load(Acquire);", 3),
            (
                "m! {\n    // ORDER: of the first statement.\n    a();\n    x.load(Acquire);\n}",
                5,
            ),
        ];
        for (body, line) in bad {
            let found = check(body);
            assert_eq!(found.first(), Some(&line), "{body}: {found:?}");
        }
        assert_eq!(check("let order = pick();\nx.fetch_or(1, order);"), [3]);
        assert_eq!(check("x.compare_exchange(a, b, order, fail_order);"), [2]);
        let twice = "x.load(Acquire);\nx.load(Acquire);";
        assert_eq!(check(twice), [2, 3]);
    }

    #[test]
    fn orderings_with_a_reason_pass() {
        let good = [
            "// ORDER: pairs with the Release in post.\nx.load(Ordering::Acquire);",
            "x.load(Acquire); // ORDER: pairs with the Release in post.",
            "// ORDER: pairs with the Release in post,\n// so that the item is seen.\nlet y = x\n    .cas(a, b, Ordering::AcqRel, Ordering::Relaxed);",
            "x.cas(\n    a,\n    // ORDER: publishes the item to take.\n    Ordering::AcqRel,\n    Ordering::Relaxed,\n);",
            "x.cas(\n    a,\n    Ordering::AcqRel, // ORDER: publishes the item.\n    Ordering::Relaxed,\n);",
            "x.cas(\n    Ordering::AcqRel,\n    Ordering::Relaxed,\n); // ORDER: publishes the item.",
            "loop {\n    // ORDER: pairs with the Release in post.\n    match x.cas(a, b, AcqRel, Relaxed) {\n        Ok(_) => return,\n        Err(now) => a = now,\n    }\n}",
            "match y {\n    // ORDER: pairs with the Release in post.\n    1 => x.load(Acquire),\n}",
            "// ORDER: pairs with the Release in post.\nwhile x.load(Acquire) == 0 {\n    relax();\n}",
            "// Story.\n// ORDER: pairs with the Release in post.\n#[cfg(unix)]\nx.load(Acquire);",
            "// ORDER:\n// pairs with the Release in post.\nx.load(Acquire);",
        ];
        for body in good {
            assert_eq!(check(body), Vec::<usize>::new(), "{body}");
        }
    }

    #[test]
    fn what_passes_no_ordering_is_free() {
        let good = [
            "use Ordering::{Acquire, Release};",
            "let y = \"x.load(Acquire)\";",
            "self.sort(order);",
            "let order = Ordering::Release;",
            "a.cmp(b) == Ordering::Less;",
            "match order { Ordering::Acquire | Ordering::SeqCst => 1, Ordering::Relaxed => 2 };",
            "g(order == Ordering::SeqCst);",
            "matches!(order, Ordering::Relaxed);",
            "Some(Acquire);",
            "g(Acquire { x });",
        ];
        for body in good {
            assert_eq!(check(body), Vec::<usize>::new(), "{body}");
        }
        assert_eq!(
            lines(order, CORE, "fn load(&self, order: Ordering) -> u32;"),
            [] as [usize; 0]
        );
    }

    #[test]
    fn the_rule_holds_where_it_should() {
        let text = "fn f() { x.load(Acquire); }";
        let holds = [
            "doorbell-core/src/x.rs",
            "doorbell/src/x.rs",
            "doorbell-machine/src/host.rs",
        ];
        for path in holds {
            let path = format!("crates/{path}");
            assert_eq!(lines(order, &path, text), [1], "{path}");
            assert_eq!(order_sites(&Tree::of(&[(&path, text)])), 1);
        }
        let free = [
            "doorbell-core/src/bell/tests.rs",
            "doorbell-core/src/bell/tests/loom.rs",
            "doorbell/tests/torture.rs",
            "doorbell-machine/src/sim/memory.rs",
            "doorbell-machine/src/loom.rs",
            "doorbell-lab/src/x.rs",
        ];
        for path in free {
            let path = format!("crates/{path}");
            assert_eq!(lines(order, &path, text), [] as [usize; 0], "{path}");
        }
        let forward = "fn load(&self, order: Ordering) -> u32 { self.0.load(order) }";
        assert_eq!(
            lines(order, "crates/doorbell-machine/src/host.rs", forward),
            [] as [usize; 0]
        );
        assert_eq!(lines(order, CORE, forward), [1]);
        let inline = "#[cfg(test)]\nmod loom { fn f() { x.load(Acquire); } }";
        assert_eq!(lines(order, CORE, inline), [] as [usize; 0]);
    }
}
