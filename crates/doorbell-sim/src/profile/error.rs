//! What can be wrong with a profile, each with what to do about it.

use std::fmt;
use std::io;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No built-in profile has this name, and it is no path.
    #[error(
        "there is no profile `{name}`{}; there are {}, or give the path of a file (`./{name}.toml`)",
        nearest_words(nearest.as_deref()),
        known.join(", ")
    )]
    UnknownName {
        /// What was asked for.
        name: String,
        /// The built-in name that is most like it.
        nearest: Option<String>,
        /// All built-in names.
        known: Vec<&'static str>,
    },

    /// The file could not be read.
    #[error("{file}: cannot read the profile: {source}; check the path and its permissions")]
    Unreadable {
        /// Which.
        file: String,
        /// What the system said.
        source: io::Error,
    },

    /// The file is no text.
    #[error("{file}:{line}: this line is not UTF-8; save the file as UTF-8")]
    NotUtf8 {
        /// Which.
        file: String,
        /// Where the first bad byte is.
        line: usize,
    },

    /// The file is no TOML.
    #[error("{file}:{line}: `{text}`: {message}; correct the line, as TOML wants it")]
    Syntax {
        /// Which.
        file: String,
        /// Where.
        line: usize,
        /// What stands there.
        text: String,
        /// What the parser says.
        message: String,
    },

    /// A key or its value is not what a profile has.
    #[error("{file}:{line}: `{key}`: {problem}")]
    Invalid {
        /// Which file.
        file: String,
        /// Where: for what is missing, the table in which it is.
        line: usize,
        /// The key, with its tables.
        key: String,
        /// What is wrong.
        problem: Problem,
    },
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Profiles have no such key.
    UnknownKey {
        /// The one that is most like it.
        nearest: Option<String>,
    },
    /// Every profile has this key; this one does not.
    Missing {
        /// What it would say.
        about: &'static str,
        /// What to write there.
        add: String,
    },
    /// It is something else than it has to be.
    WrongType {
        /// What it has to be.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A number that cannot be.
    OutOfRange {
        /// As it stands in the file.
        value: String,
        /// The least that may be.
        least: u64,
        /// The most that may be.
        most: u64,
    },
    /// Nobody says where the value is from.
    NoSource {
        /// The value, as it stands in the file.
        value: String,
    },
    /// More CPUs than can be simulated.
    TooManyCpus {
        /// How many.
        cpus: usize,
        /// How many there may be.
        most: usize,
    },
    /// A range that ends before it begins.
    EmptyRange {
        /// The key of its begin.
        begin: &'static str,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::UnknownKey { nearest } => {
                let nearest = nearest_words(nearest.as_deref());
                write!(out, "no such key{nearest}; rename or remove it")
            }
            Problem::Missing { about, add } => {
                write!(out, "is missing ({about}); add `{add}`")
            }
            Problem::WrongType { wanted, found } => {
                write!(out, "is {found}; it must be {wanted}")
            }
            Problem::OutOfRange { value, least, most } => {
                write!(out, "is {value}; write a number from {least} to {most}")
            }
            Problem::NoSource { value } => write!(
                out,
                "has no source; write `{{ value = {value}, source = \"…\" }}` and say where the \
                 value is from, or \"assumed: …, because …\""
            ),
            Problem::TooManyCpus { cpus, most } => write!(
                out,
                "the machine has {cpus} CPUs; at most {most} can be simulated, so lower one of its \
                 numbers"
            ),
            Problem::EmptyRange { begin } => {
                write!(out, "is less than `{begin}`; write the smaller value there")
            }
        }
    }
}

/// `, but …` where something is near enough.
fn nearest_words(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// The candidate that is most like `word`, if one is like it at all.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let alike = |name: &&str| strsim::jaro_winkler(word, name);
    let best = known
        .into_iter()
        .max_by(|one, other| alike(one).total_cmp(&alike(other)))?;
    (alike(&best) > 0.75).then(|| best.to_owned())
}
