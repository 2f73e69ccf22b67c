//! Profiles: files that describe a machine's parts and the cost of each operation on it.
//!
//! A profile is TOML. Every number stands beside its source, in the same pair of braces:
//!
//! ```toml
//! about = "one sentence: which machine this is"
//!
//! [shape]
//! sockets = { value = 2, source = "the seed: a dual socket system" }
//! ```
//!
//! A number without a source is an error, as is a missing or unknown key. So every profile that loads is
//! complete.

mod error;
mod keys;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::sim::MachineSpec;

pub use error::{Problem, ProfileError};
pub use keys::{KEYS, Key};

/// The profiles that come with Doorbell: their names and texts.
const BUILT_IN: [(&str, &str); 6] = [
    (
        "epyc-2x64",
        include_str!("../../../profiles/epyc-2x64.toml"),
    ),
    (
        "broadwell-2x22-smt",
        include_str!("../../../profiles/broadwell-2x22-smt.toml"),
    ),
    ("xeon-40", include_str!("../../../profiles/xeon-40.toml")),
    ("smt-20", include_str!("../../../profiles/smt-20.toml")),
    (
        "zen3-2x64",
        include_str!("../../../profiles/zen3-2x64.toml"),
    ),
    ("vm-2", include_str!("../../../profiles/vm-2.toml")),
];

/// A machine, and the source of each of its numbers.
#[derive(Clone, Debug)]
pub struct Profile {
    name: String,
    about: String,
    spec: MachineSpec,
    /// In the order of [`KEYS`].
    sources: Vec<String>,
}

impl Profile {
    /// The names of the profiles that come with Doorbell.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        BUILT_IN.into_iter().map(|(name, _)| name)
    }

    /// Loads the built-in profile of this name, or the file at this path.
    ///
    /// # Errors
    /// [`ProfileError`] names the file, the line and the problem.
    ///
    /// ```
    /// use doorbell_machine::sim::profile::Profile;
    ///
    /// let profile = Profile::load("epyc-2x64").expect("it is built in");
    /// assert_eq!(profile.spec().sockets, 2);
    /// let error = Profile::load("epyc-64").expect_err("nobody knows it");
    /// assert!(error.to_string().contains("did you mean `epyc-2x64`"), "{error}");
    /// ```
    pub fn load(name: &str) -> Result<Self, ProfileError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, &format!("profiles/{name}.toml"), text);
        }
        let path = Path::new(name);
        let is_toml = path.extension().is_some_and(|ending| ending == "toml");
        if is_toml || name.contains('/') || path.exists() {
            Self::read(path)
        } else {
            Err(ProfileError::UnknownName {
                name: name.to_owned(),
                nearest: error::nearest(name, Self::built_in()),
                known: Self::built_in().collect(),
            })
        }
    }

    /// Reads a profile from a file.
    ///
    /// # Errors
    /// [`ProfileError`] names the line and the problem.
    pub fn read(path: &Path) -> Result<Self, ProfileError> {
        let file = path.display().to_string();
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(source) => return Err(ProfileError::Unreadable { file, source }),
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.split(|byte| *byte == b'\n').count();
            ProfileError::NotUtf8 {
                file: file.clone(),
                line,
            }
        })?;
        let stem = path.file_stem().unwrap_or_default();
        Self::parse(&stem.to_string_lossy(), &file, &text)
    }

    /// Parses the text of a profile; `file` is its name in errors.
    ///
    /// # Errors
    /// [`ProfileError`] names the line and the problem.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, ProfileError> {
        parse::parse(name, file, text)
    }

    /// Builds a profile from values and their sources, in the order of [`KEYS`].
    ///
    /// # Errors
    /// [`ProfileError::Invalid`] if a value is out of range or has no source. Its line is the one in the
    /// text of [`Profile::to_toml`].
    pub fn from_parts(
        name: &str,
        about: &str,
        parts: &[(u64, String); KEYS.len()],
    ) -> Result<Self, ProfileError> {
        let mut spec = MachineSpec::default();
        for (key, (value, _)) in KEYS.iter().zip(parts) {
            key.set(&mut spec, *value);
        }
        let profile = Self {
            name: name.to_owned(),
            about: about.to_owned(),
            spec,
            sources: parts.iter().map(|(_, source)| source.clone()).collect(),
        };
        // Parsing the written text finds every error now, not when the text is read back.
        Self::parse(name, &format!("{name}.toml"), &profile.to_toml())
    }

    /// Its name: that of its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One sentence that says which machine this is.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The machine.
    pub fn spec(&self) -> &MachineSpec {
        &self.spec
    }

    /// Each key with its value and the source of the value.
    pub fn entries(&self) -> impl Iterator<Item = (&'static Key, u64, &str)> {
        let keys = KEYS.iter().zip(&self.sources);
        keys.map(|(key, source)| (key, key.get(&self.spec), source.as_str()))
    }

    /// The profile as text that [`Profile::parse`] reads.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut table = "";
        // Writing to a string does not fail.
        let _ = writeln!(text, "about = {}", quoted(&self.about));
        for (key, value, source) in self.entries() {
            if key.table != table {
                table = key.table;
                let _ = writeln!(text, "\n[{table}]");
            }
            let (name, source) = (key.name, quoted(source));
            let _ = writeln!(text, "{name} = {{ value = {value}, source = {source} }}");
        }
        text
    }
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
