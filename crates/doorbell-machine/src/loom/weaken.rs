//! The hooks for the sweep of orderings, which runs one access of a protocol with a weaker ordering.
//!
//! The name of an access has three parts: its place in the sources, which `#[track_caller]` on this backend's
//! methods passes down; which of its orderings is meant (`first`; for a failed compare-exchange `second`; for
//! a fence `fence`); and the ordering that it asks for. For example:
//! `crates/doorbell-core/src/bell/mod.rs:189:18 first AcqRel`. Two environment variables, read once per
//! process, turn the hooks on:
//!
//! * [`WEAKEN`] holds such a name, followed by a weaker ordering. That access runs with the weaker ordering;
//!   a fence that is weakened to `Relaxed` does nothing.
//! * [`REACHED`] holds the path of a file. Each access appends its name to the file when it first runs.

use crate::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::panic::Location;
use std::str::FromStr;
use std::sync::{LazyLock, Mutex};

/// The variable that names the access to weaken.
const WEAKEN: &str = "DOORBELL_WEAKEN";

/// The variable with the path of the file of reached accesses.
const REACHED: &str = "DOORBELL_REACHED";

/// The orderings by their names.
const NAMES: [(&str, Ordering); 5] = [
    ("Relaxed", Ordering::Relaxed),
    ("Acquire", Ordering::Acquire),
    ("Release", Ordering::Release),
    ("AcqRel", Ordering::AcqRel),
    ("SeqCst", Ordering::SeqCst),
];

/// Which ordering of an access is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Which {
    /// The only one, or the one of a successful compare-exchange.
    First,
    /// The one of a failed compare-exchange.
    Second,
    /// The one of a fence.
    Fence,
}

impl Which {
    const ALL: [(&'static str, Which); 3] = [
        ("first", Which::First),
        ("second", Which::Second),
        ("fence", Which::Fence),
    ];
}

/// The ordering with which the access at the caller's caller runs.
#[track_caller]
pub(super) fn ordering(given: Ordering, which: Which) -> Ordering {
    static HOOKS: LazyLock<Option<Hooks>> = LazyLock::new(Hooks::from_env);
    match &*HOOKS {
        None => given,
        Some(hooks) => hooks.ordering(Location::caller(), which, given),
    }
}

/// What the environment asks for.
struct Hooks {
    weaken: Option<(Access<String>, Ordering)>,
    reached: Option<Mutex<Reached>>,
}

/// The file of reached accesses, and which accesses are in it.
struct Reached {
    file: File,
    seen: BTreeSet<(&'static str, u32, u32, Which, &'static str)>,
}

/// One ordering of one access.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Access<P> {
    path: P,
    line: u32,
    column: u32,
    which: Which,
    given: Ordering,
}

impl Hooks {
    /// # Panics
    /// If a variable cannot be parsed or its file cannot be opened: a sweep that weakens nothing would show
    /// nothing.
    fn from_env() -> Option<Hooks> {
        let weaken = std::env::var(WEAKEN).ok().map(|text| {
            parse(&text)
                .unwrap_or_else(|| panic!("{WEAKEN}: `{text}` names no access and ordering"))
        });
        let reached = std::env::var_os(REACHED).map(|path| {
            let file = File::options().append(true).create(true).open(&path);
            let file =
                file.unwrap_or_else(|error| panic!("{REACHED}: {}: {error}", path.display()));
            Mutex::new(Reached {
                file,
                seen: BTreeSet::new(),
            })
        });
        (weaken.is_some() || reached.is_some()).then_some(Hooks { weaken, reached })
    }

    fn ordering(&self, at: &'static Location<'static>, which: Which, given: Ordering) -> Ordering {
        let access = Access {
            path: at.file(),
            line: at.line(),
            column: at.column(),
            which,
            given,
        };
        if let Some(reached) = &self.reached {
            let mut reached = reached.lock().expect("no panic under this lock");
            reached.add(&access);
        }
        match &self.weaken {
            Some((weakened, to)) if access.is(weakened) => *to,
            _ => given,
        }
    }
}

impl Reached {
    fn add(&mut self, access: &Access<&'static str>) {
        let (path, given) = (access.path, name_of(access.given));
        let key = (path, access.line, access.column, access.which, given);
        if self.seen.insert(key) {
            writeln!(self.file, "{access}").unwrap_or_else(|error| panic!("{REACHED}: {error}"));
        }
    }
}

impl Access<&'static str> {
    fn is(&self, other: &Access<String>) -> bool {
        // Compares the numbers first, because most accesses differ in them.
        (self.line, self.column) == (other.line, other.column)
            && (self.which, self.given) == (other.which, other.given)
            && self.path == other.path
    }
}

impl<P: fmt::Display> fmt::Display for Access<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = Which::ALL.iter().find(|(_, which)| *which == self.which);
        let which = which.map_or("", |(name, _)| name);
        let (path, line, column) = (&self.path, self.line, self.column);
        write!(f, "{path}:{line}:{column} {which} {}", name_of(self.given))
    }
}

/// The access that `text` names, and the ordering that follows the name.
fn parse(text: &str) -> Option<(Access<String>, Ordering)> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [place, which, given, to] = parts[..] else {
        return None;
    };
    let (place, column) = place.rsplit_once(':')?;
    let (path, line) = place.rsplit_once(':')?;
    let access = Access {
        path: path.to_owned(),
        line: u32::from_str(line).ok()?,
        column: u32::from_str(column).ok()?,
        which: Which::ALL.iter().find(|(name, _)| *name == which)?.1,
        given: ordering_of(given)?,
    };
    Some((access, ordering_of(to)?))
}

fn ordering_of(name: &str) -> Option<Ordering> {
    NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, order)| *order)
}

fn name_of(order: Ordering) -> &'static str {
    NAMES
        .iter()
        .find(|(_, known)| *known == order)
        .map_or("", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Loom, Machine, Word};

    fn hooks(weaken: &str) -> Hooks {
        Hooks {
            weaken: parse(weaken),
            reached: None,
        }
    }

    #[test]
    fn only_the_named_access_is_weakened() {
        let here = Location::caller();
        let place = format!("{}:{}:{}", here.file(), here.line(), here.column());
        let hooks = hooks(&format!("{place} first AcqRel Acquire"));
        let given = |which, order| hooks.ordering(here, which, order);
        assert_eq!(given(Which::First, Ordering::AcqRel), Ordering::Acquire);
        assert_eq!(given(Which::First, Ordering::SeqCst), Ordering::SeqCst);
        assert_eq!(given(Which::Second, Ordering::AcqRel), Ordering::AcqRel);
        let elsewhere = hooks.ordering(Location::caller(), Which::First, Ordering::AcqRel);
        assert_eq!(elsewhere, Ordering::AcqRel);
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let text = "crates/a/src/b.rs:12:3 second Acquire";
        let (access, to) = parse(&format!("{text} Relaxed")).expect("a name and an ordering");
        assert_eq!((access.to_string().as_str(), to), (text, Ordering::Relaxed));
        for wrong in [
            "",
            text,
            "a.rs:1 first AcqRel Relaxed",
            "a.rs:1:1 third AcqRel Relaxed",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    /// Of use only in the child process of the next test.
    #[test]
    fn accesses_of_a_child() {
        ::loom::model(|| {
            let word = <Loom as Machine>::U32::new(0);
            let word: &dyn Fn() -> u32 = &|| Word::swap(&word, 1, Ordering::AcqRel);
            assert_eq!(word(), 0);
            Loom::<0>::fence_announce();
        });
    }

    #[test]
    fn what_is_reached_is_written_with_the_place_of_the_caller() {
        let file = std::env::temp_dir().join(format!("doorbell-reached-{}", std::process::id()));
        let child = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "loom::weaken::tests::accesses_of_a_child"])
            .env(REACHED, &file)
            .status()
            .expect("this program starts again");
        let reached = std::fs::read_to_string(&file).expect("the child wrote it");
        std::fs::remove_file(&file).expect("the file is there");
        assert!(child.success());
        let lines: Vec<&str> = reached.lines().collect();
        assert_eq!(lines.len(), 2, "{reached}");
        assert!(
            lines.iter().all(|line| line.starts_with(file!())),
            "{reached}"
        );
        assert!(lines[0].ends_with(" first AcqRel") && lines[1].ends_with(" fence SeqCst"));
    }
}
