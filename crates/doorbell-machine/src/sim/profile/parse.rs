//! The parser: from the text of a profile to a machine.

use crate::sim::{CPUS_MAX, MachineSpec, SpecError};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Profile;
use super::error::{Problem, ProfileError, nearest};
use super::keys::{KEYS, Key};

/// The one key outside of the tables.
const ABOUT: &str = "about";
/// The two parts of each key's entry.
const VALUE: &str = "value";
const SOURCE: &str = "source";

/// Reads a profile. `file` is its name in errors.
pub(super) fn parse(name: &str, file: &str, text: &str) -> Result<Profile, ProfileError> {
    let root = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        let line = line_of(text, at);
        let words = text.lines().nth(line - 1).unwrap_or_default().trim();
        ProfileError::Syntax {
            file: file.to_owned(),
            line,
            text: words.to_owned(),
            message: error.message().to_owned(),
        }
    })?;
    let mut reader = Reader {
        text,
        found: Vec::new(),
        spec: MachineSpec::default(),
        sources: vec![String::new(); KEYS.len()],
        about: String::new(),
    };
    reader.root(root.get_ref());
    reader.whole(root.get_ref());
    // The error that comes first in the file, so that a user corrects it from the top down. Missing keys
    // come last, since a missing key is mostly one that is present under a wrong name.
    let order = |(line, _, problem): &(usize, String, Problem)| {
        (matches!(problem, Problem::Missing { .. }), *line)
    };
    let first = reader.found.into_iter().min_by_key(order);
    match first {
        Some((line, key, problem)) => Err(ProfileError::Invalid {
            file: file.to_owned(),
            line,
            key,
            problem,
        }),
        None => Ok(Profile {
            name: name.to_owned(),
            about: reader.about,
            spec: reader.spec,
            sources: reader.sources,
        }),
    }
}

/// What has been read so far, and the errors.
struct Reader<'t> {
    text: &'t str,
    found: Vec<(usize, String, Problem)>,
    spec: MachineSpec,
    /// In the order of [`KEYS`].
    sources: Vec<String>,
    about: String,
}

impl Reader<'_> {
    fn problem(&mut self, at: usize, key: impl Into<String>, problem: Problem) {
        let line = line_of(self.text, at);
        self.found.push((line, key.into(), problem));
    }

    fn root(&mut self, root: &DeTable<'_>) {
        for (key, value) in root {
            let (name, at) = (key.get_ref().as_ref(), key.span().start);
            if name == ABOUT {
                self.about(value);
            } else if KEYS.iter().any(|key| key.table == name) {
                match value.get_ref() {
                    DeValue::Table(table) => self.table(name, at, table),
                    other => {
                        let problem = wrong_type("a table", other);
                        self.problem(at, name, problem);
                    }
                }
            } else {
                let tables = KEYS.iter().map(|key| key.table).chain([ABOUT]);
                let nearest = nearest(name, tables);
                self.problem(at, name, Problem::UnknownKey { nearest });
            }
        }
        if !has(root, ABOUT) {
            let about = "one sentence: which machine this is";
            let add = format!("{ABOUT} = \"…\"");
            self.problem(0, ABOUT, Problem::Missing { about, add });
        }
        for key in KEYS.iter().filter(|key| !has(root, key.table)) {
            // All keys of the table are missing; report only one of them.
            let add = format!("[{}] {}", key.table, entry_of(key));
            let about = key.about;
            self.problem(0, key.path(), Problem::Missing { about, add });
        }
    }

    fn about(&mut self, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::String(text) if !text.trim().is_empty() => self.about = text.to_string(),
            other => {
                let problem = wrong_type("a sentence: which machine this is", other);
                self.problem(value.span().start, ABOUT, problem);
            }
        }
    }

    fn table(&mut self, table: &str, at: usize, inside: &DeTable<'_>) {
        for (key, value) in inside {
            let name = key.get_ref().as_ref();
            let known = KEYS
                .iter()
                .position(|key| key.table == table && key.name == name);
            if let Some(index) = known {
                self.entry(index, key.span().start, value);
            } else {
                let inside = KEYS.iter().filter(|key| key.table == table);
                let nearest = nearest(name, inside.map(|key| key.name));
                let path = format!("{table}.{name}");
                self.problem(key.span().start, path, Problem::UnknownKey { nearest });
            }
        }
        for key in KEYS.iter().filter(|key| key.table == table) {
            if !has(inside, key.name) {
                let (about, add) = (key.about, entry_of(key));
                self.problem(at, key.path(), Problem::Missing { about, add });
            }
        }
    }

    fn entry(&mut self, index: usize, at: usize, value: &Spanned<DeValue<'_>>) {
        let path = KEYS[index].path();
        match value.get_ref() {
            DeValue::Table(parts) => self.parts(index, at, parts),
            DeValue::Integer(number) => {
                let value = number.to_string();
                self.problem(at, path, Problem::NoSource { value });
            }
            other => {
                let problem = wrong_type("a value with its source", other);
                self.problem(at, path, problem);
            }
        }
    }

    /// Reads one key's entry: a value and its source.
    fn parts(&mut self, index: usize, at: usize, parts: &DeTable<'_>) {
        let key = &KEYS[index];
        for (part, _) in parts {
            let name = part.get_ref().as_ref();
            if name != VALUE && name != SOURCE {
                let nearest = nearest(name, [VALUE, SOURCE]);
                let path = format!("{}.{name}", key.path());
                self.problem(part.span().start, path, Problem::UnknownKey { nearest });
            }
        }
        if let Some(value) = part(parts, VALUE) {
            self.value(key, value);
        } else {
            let about = key.about;
            let path = format!("{}.{VALUE}", key.path());
            let add = format!("{VALUE} = …");
            self.problem(at, path, Problem::Missing { about, add });
        }
        let shown = || match part(parts, VALUE).map(Spanned::get_ref) {
            Some(DeValue::Integer(number)) => number.to_string(),
            _ => "…".to_owned(),
        };
        match part(parts, SOURCE).map(|source| (source.span().start, source.get_ref())) {
            Some((_, DeValue::String(text))) if !text.trim().is_empty() => {
                self.sources[index] = text.to_string();
            }
            Some((at, other)) if !matches!(other, DeValue::String(_)) => {
                let problem = wrong_type("a text", other);
                self.problem(at, format!("{}.{SOURCE}", key.path()), problem);
            }
            _ => self.problem(at, key.path(), Problem::NoSource { value: shown() }),
        }
    }

    fn value(&mut self, key: &Key, value: &Spanned<DeValue<'_>>) {
        let at = value.span().start;
        let DeValue::Integer(number) = value.get_ref() else {
            let problem = wrong_type("a whole number", value.get_ref());
            return self.problem(at, key.path(), problem);
        };
        // The parser has checked the digits: a number that does not fit is too large or negative.
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(value) if (key.least..=key.most).contains(&value) => key.set(&mut self.spec, value),
            _ => {
                let problem = Problem::OutOfRange {
                    value: number.to_string(),
                    least: key.least,
                    most: key.most,
                };
                self.problem(at, key.path(), problem);
            }
        }
    }

    /// Checks what only all values together show. It runs after the checks of single values, which may be
    /// the cause.
    fn whole(&mut self, root: &DeTable<'_>) {
        if !self.found.is_empty() {
            return;
        }
        let place = |table: &str, name: &str| {
            let Some(DeValue::Table(inside)) = part(root, table).map(Spanned::get_ref) else {
                return 0;
            };
            let mut keys = inside.keys();
            let key = keys.find(|key| key.get_ref().as_ref() == name);
            key.map_or(0, |key| key.span().start)
        };
        match self.spec.check() {
            Ok(()) => {}
            Err(SpecError::TooManyCpus(cpus)) => {
                let most = CPUS_MAX;
                let at = place("shape", "sockets");
                self.problem(at, "shape", Problem::TooManyCpus { cpus, most });
            }
            // Any other error concerns a key whose range was checked, except the order of these two.
            Err(_) => {
                let begin = "tso.drain_min_ns";
                let at = place("tso", "drain_max_ns");
                self.problem(at, "tso.drain_max_ns", Problem::EmptyRange { begin });
            }
        }
    }
}

fn part<'t, 'i>(table: &'t DeTable<'i>, name: &str) -> Option<&'t Spanned<DeValue<'i>>> {
    let mut parts = table.iter();
    let found = parts.find(|(key, _)| key.get_ref().as_ref() == name);
    found.map(|(_, value)| value)
}

fn has(table: &DeTable<'_>, name: &str) -> bool {
    part(table, name).is_some()
}

fn wrong_type(wanted: &'static str, found: &DeValue<'_>) -> Problem {
    let found = match found {
        DeValue::String(text) if text.trim().is_empty() => "empty",
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    Problem::WrongType { wanted, found }
}

/// How a file writes a key.
fn entry_of(key: &Key) -> String {
    format!("{} = {{ {VALUE} = …, {SOURCE} = \"…\" }}", key.name)
}

/// The line, counted from 1, that contains the byte `at`.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    before.split(|byte| *byte == b'\n').count()
}
