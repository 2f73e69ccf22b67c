//! `ground`: only doorbell-machine names atomics, locks, threads, thread-locals, clocks and syscalls.
//!
//! A protocol uses the machine only through the trait `Machine`, so that the simulator and the model
//! checker see every step. A call past the trait would be a step that they miss.

use crate::modules::Modules;
use crate::parsed::Parsed;
use crate::{Finding, Tree};

const RULE: &str = "ground";

/// Folders that may name everything: the ground itself, tools that are not part of a runtime, and the bridge to the
/// threads of another runtime.
const FREE: [&str; 5] = [
    "crates/doorbell-machine/",
    "crates/doorbell-lab/",
    "crates/doorbell-torture/",
    "crates/doorbell-tidy/",
    "crates/doorbell-tokio/",
];

/// Where a relevant path starts.
const ROOTS: [&str; 5] = ["std", "core", "alloc", "libc", "rustix"];

/// The items of `std::sync` that are no synchronisation.
const SYNC_FREE: [&str; 2] = ["Arc", "Weak"];

/// The items of `std::time` that are no clock.
const TIME_FREE: [&str; 2] = ["Duration", "TryFromFloatSecsError"];

/// Names of the ground that are used above it.
pub fn ground(tree: &Tree) -> Vec<Finding> {
    let modules = Modules::of(tree);
    tree.each_rust(RULE, |path, parsed, findings| {
        if FREE.iter().any(|folder| path.starts_with(folder)) || modules.is_test(path) {
            return;
        }
        let mut found = names(parsed);
        found.sort();
        found.dedup_by_key(|(line, _, remedy)| (*line, *remedy));
        for (line, name, remedy) in found {
            let what = format!("names `{name}` above the ground");
            findings.push(Finding::new(RULE, path, line, what, remedy));
        }
    })
}

/// Line, name and remedy of everything forbidden in a file.
fn names(parsed: &Parsed) -> Vec<(usize, String, &'static str)> {
    let mut found = Vec::new();
    for index in 0..parsed.tokens.len() {
        let Some(name) = parsed.ident(index).filter(|_| !parsed.in_test(index)) else {
            continue;
        };
        let line = parsed.tokens[index].start.line;
        if name == "thread_local" && parsed.is_punct(index + 1, '!') {
            found.push((line, "thread_local!".to_owned(), SLOTS));
        }
        if ROOTS.contains(&name) && is_root(parsed, index) {
            let import = index > 0 && matches!(parsed.ident(index - 1), Some("use" | "crate"));
            for (line, path) in parsed.paths(index) {
                if let Some(remedy) = forbidden(&path, import) {
                    found.push((line, path.join("::"), remedy));
                }
            }
        } else if name == "SystemTime" && is_root(parsed, index) {
            found.push((line, name.to_owned(), CLOCK));
        }
    }
    found
}

/// Whether a path starts at the identifier, rather than passes through it or is a field.
fn is_root(parsed: &Parsed, index: usize) -> bool {
    let after_dot = index > 0 && parsed.is_punct(index - 1, '.');
    // In `a::std` the name touches the `::`; a leading `::std` has a space before it.
    let touches = || parsed.tokens[index - 3].end == parsed.tokens[index - 2].start;
    let after_name = index > 2
        && parsed.is_path_sep(index - 2)
        && (parsed.ident(index - 3).is_some() || parsed.is_punct(index - 3, '>'))
        && touches();
    !(after_dot || after_name)
}

const ATOMICS: &str = "use M::U32, M::U64, M::Ptr or the fences of doorbell_machine::Machine, and \
                       the `Ordering` that doorbell_machine re-exports";
const LOCKS: &str = "use a word of doorbell_machine::Machine; of std::sync only Arc and Weak";
const THREADS: &str = "use M::spawn, M::Parker and M::relax of doorbell_machine::Machine";
const SLOTS: &str = "use M::worker_slot of doorbell_machine::Machine";
const CLOCK: &str = "use M::now_ns of doorbell_machine::Machine; of std::time only Duration";
const CALLS: &str = "move the call into doorbell-machine";
const WHOLE: &str = "import the names themselves, so that this rule sees them";

/// The remedy, if the path is forbidden. `import` distinguishes `use std;` from a mere mention.
fn forbidden(path: &[String], import: bool) -> Option<&'static str> {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let std = matches!(parts.first(), Some(&("std" | "core" | "alloc")));
    match parts[..] {
        ["libc" | "rustix"] => import.then_some(CALLS),
        ["libc" | "rustix", ..] => Some(CALLS),
        [_] => import.then_some(WHOLE),
        [_, "*" | "sync" | "time"] | [_, "sync" | "time", "*"] if std => Some(WHOLE),
        [_, "sync", "atomic", ..] => Some(ATOMICS),
        [_, "sync", name, ..] => (!SYNC_FREE.contains(&name)).then_some(LOCKS),
        [_, "thread", ..] => Some(THREADS),
        [_, "thread_local"] => Some(SLOTS),
        [_, "time", name, ..] => (!TIME_FREE.contains(&name)).then_some(CLOCK),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    const ABOVE: &str = "crates/doorbell-core/src/x.rs";

    #[test]
    fn every_forbidden_name_is_caught() {
        let bad = [
            "use std::sync::atomic::AtomicU32;",
            "use core::sync::atomic::Ordering;",
            "use std::sync::{Arc, Mutex};",
            "use std::{fmt, sync::{self}};",
            "use std::{sync::{Arc as A, OnceLock as O}, fmt};",
            "use ::std::sync::mpsc::channel;",
            "use std::sync;",
            "use std::sync::*;",
            "use std as s;",
            "fn f() -> ::std::thread::Thread {}",
            "fn f() { return ::std::thread::current() }",
            "use std::time::{Duration, Instant};",
            "use std::time;",
            "use std::thread;",
            "use libc as c;",
            "extern crate rustix;",
            "use rustix::thread::gettid;",
            "fn f(x: std::sync::atomic::Ordering) {}",
            "fn f() { std::thread::yield_now() }",
            "fn f() { let _ = std::time::Instant::now(); }",
            "fn f() { let _ = SystemTime::now(); }",
            "fn f() { unsafe { libc::getpid() }; }",
            "fn f(x: Vec<std::sync::Mutex<u8>>) {}",
            "fn f(x: <std::sync::RwLock<u8> as T>::X) {}",
            "thread_local! { static X: u8 = 0; }",
            "std::thread_local!(static X: u8 = 0);",
            "macro_rules! m { () => { std::sync::Barrier::new(1) } }",
        ];
        for text in bad {
            let found = lines(ground, ABOVE, &format!("\n{text}\n"));
            assert!(
                !found.is_empty() && found.iter().all(|&line| line == 2),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn what_is_free_passes() {
        let good = [
            "use std::sync::{Arc, Weak};",
            "use alloc::sync::Arc;",
            "use std::{collections::BTreeMap, time::Duration};",
            "use doorbell_machine::{Machine, Ordering};",
            "use doorbell_machine::sync::atomic::fence;",
            "use crate::thread::Thread;",
            "use crate::libc::getpid;",
            "fn f(x: <T as U>::std::sync::Mutex) {}",
            "fn f(libc: u8) -> u8 { self.std.sync + libc }",
            "// std::sync::Mutex\nfn f() { g(\"std::thread\") }",
            "/// See [`std::time::Instant`].\nfn f() {}",
            "fn f(x: std::vec::Vec<u8>) {}",
            "fn f() { core::mem::swap(a, b) }",
            "#[cfg(test)]\nmod t { use std::thread; }",
        ];
        for text in good {
            assert_eq!(lines(ground, ABOVE, text), Vec::<usize>::new(), "{text}");
        }
    }

    #[test]
    fn a_group_is_reported_on_the_line_of_the_name() {
        let text = "use std::{\n    fmt,\n    sync::{\n        Arc,\n        Mutex,\n    },\n};\n";
        assert_eq!(lines(ground, ABOVE, text), [5]);
    }

    #[test]
    fn the_ground_tools_and_tests_are_free() {
        let text = "use std::thread;";
        let free = [
            "crates/doorbell-machine/src/host.rs",
            "crates/doorbell-lab/src/x.rs",
            "crates/doorbell-tidy/src/x.rs",
            "crates/doorbell/tests/api.rs",
            "crates/doorbell/examples/a.rs",
            "crates/doorbell-core/benches/b.rs",
            "crates/doorbell-core/src/bell/tests.rs",
            "crates/doorbell-core/src/bell/tests/loom.rs",
        ];
        for path in free {
            assert_eq!(lines(ground, path, text), Vec::<usize>::new(), "{path}");
        }
        let above = [
            "doorbell-core",
            "doorbell",
            "doorbell-macros",
            "doorbell-sim",
            "doorbell-hyper",
        ];
        for name in above {
            assert_eq!(
                lines(ground, &format!("crates/{name}/src/x.rs"), text),
                [1],
                "{name}"
            );
        }
    }
}
