//! What can be wrong with a profile, and how to correct it.

use std::fmt;
use std::io;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No built-in profile has this name, and the name is not a path.
    #[error(
        "there is no profile `{name}`{}; there are {}, or give the path of a file (`./{name}.toml`)",
        nearest_words(nearest.as_deref()),
        known.join(", ")
    )]
    UnknownName {
        /// What was asked for.
        name: String,
        /// The most similar built-in name.
        nearest: Option<String>,
        /// All built-in names.
        known: Vec<&'static str>,
    },

    /// The file could not be read.
    #[error("{file}: cannot read the profile: {source}; check the path and its permissions")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },

    /// The file is not text.
    #[error("{file}:{line}: this line is not UTF-8; save the file as UTF-8")]
    NotUtf8 {
        /// Which.
        file: String,
        /// Where the first bad byte is.
        line: usize,
    },

    /// The file is not TOML.
    #[error("{file}:{line}: `{text}`: {message}; correct the line, as TOML wants it")]
    Syntax {
        /// Which.
        file: String,
        /// Where.
        line: usize,
        /// The text of that line.
        text: String,
        /// The parser's message.
        message: String,
    },

    /// A profile has no such key, or not with such a value.
    #[error("{file}:{line}: `{key}`: {problem}")]
    Invalid {
        /// The file.
        file: String,
        /// The line; for a missing key, the line of its table.
        line: usize,
        /// The key, with its tables.
        key: String,
        /// The problem.
        problem: Problem,
    },
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Profiles have no such key.
    UnknownKey {
        /// The most similar key.
        nearest: Option<String>,
    },
    /// A key that every profile must have is missing.
    Missing {
        /// What the key describes.
        about: &'static str,
        /// What to write there.
        add: String,
    },
    /// The value has the wrong type.
    WrongType {
        /// The type that it must have.
        wanted: &'static str,
        /// The type that it has.
        found: &'static str,
    },
    /// A number out of range.
    OutOfRange {
        /// The number as written in the file.
        value: String,
        /// The least allowed value.
        least: u64,
        /// The greatest allowed value.
        most: u64,
    },
    /// The value has no source.
    NoSource {
        /// The value, as it stands in the file.
        value: String,
    },
    /// More CPUs than the simulator supports.
    TooManyCpus {
        /// CPUs of this profile.
        cpus: usize,
        /// The most that the simulator supports.
        most: usize,
    },
    /// A range that ends before it begins.
    EmptyRange {
        /// The key of its lower end.
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

/// `, but …` if a known name is similar enough.
fn nearest_words(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// The candidate that is most similar to `word`, if any is similar at all.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let alike = |name: &&str| strsim::jaro_winkler(word, name);
    let best = known
        .into_iter()
        .max_by(|one, other| alike(one).total_cmp(&alike(other)))?;
    (alike(&best) > 0.75).then(|| best.to_owned())
}
