//! The result of a calibration.

use std::fmt::Write as _;
use std::path::PathBuf;

use doorbell_sim::profile::Profile;
use serde::Serialize;

use super::probe::{PROBES, Round};
use super::stand::Stand;
use crate::measure::{Spread, idle_driver, line_of, median, processor};

/// The figures, and the profile made from them.
#[derive(Debug)]
pub(crate) struct Calibration {
    profile: Profile,
    rounds: Vec<Round>,
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Json<'a> {
    program: &'a str,
    about: &'a str,
    rounds: usize,
    probes: Vec<Figures>,
    entries: Vec<JsonEntry<'a>>,
    profile: String,
}

/// The figures of one probe over the rounds; absent where this host lacks what the probe needs.
#[derive(Serialize)]
struct Figures {
    probe: &'static str,
    how: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    median_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ns: Option<f64>,
}

#[derive(Serialize)]
struct JsonEntry<'a> {
    key: String,
    value: u64,
    source: &'a str,
}

impl Calibration {
    pub(super) fn new(profile: Profile, rounds: Vec<Round>, out: Option<PathBuf>) -> Self {
        Self {
            profile,
            rounds,
            out,
        }
    }

    /// The profile of this host.
    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    fn figures(&self) -> impl Iterator<Item = Figures> {
        PROBES.iter().enumerate().map(|(index, probe)| {
            let values = self.rounds.iter().filter_map(|round| round.0[index]);
            let values: Vec<f64> = values.collect();
            let spread = Spread::of(&values);
            Figures {
                probe: probe.name,
                how: probe.how(),
                median_ns: median(&values),
                min_ns: spread.map(|spread| spread.min),
                max_ns: spread.map(|spread| spread.max),
            }
        })
    }

    /// A table for people.
    pub(crate) fn to_table(&self) -> String {
        let mut text = format!("{}\n\n", self.profile.about());
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{:<13} {:>11} {:>11} {:>11}  measured",
            "probe", "median ns", "least", "most"
        );
        for one in self.figures() {
            let [middle, least, most] = [one.median_ns, one.min_ns, one.max_ns]
                .map(|ns| ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1}")));
            let lacking = if one.median_ns.is_none() {
                ": not on this host"
            } else {
                ""
            };
            let (name, how) = (one.probe, one.how);
            let _ = writeln!(
                text,
                "{name:<13} {middle:>11} {least:>11} {most:>11}  {how}{lacking}"
            );
        }
        let _ = writeln!(text, "\n{:<28} {:>10}", "key of the profile", "value");
        for (key, value, source) in self.profile.entries() {
            let assumed = if source.starts_with("assumed") {
                "  assumed, not measured"
            } else {
                ""
            };
            let _ = writeln!(text, "{:<28} {value:>10}{assumed}", key.path());
        }
        let _ = match &self.out {
            Some(path) => writeln!(text, "\nwritten to {}", path.display()),
            None => writeln!(
                text,
                "\n`doorbell calibrate --out host.toml` writes this as a profile, with how each \
                 value was measured"
            ),
        };
        text
    }

    /// One JSON object.
    pub(crate) fn json(&self) -> impl Serialize + use<'_> {
        let entries = self.profile.entries();
        Json {
            program: "calibrate",
            about: self.profile.about(),
            rounds: self.rounds.len(),
            probes: self.figures().collect(),
            entries: entries
                .map(|(key, value, source)| JsonEntry {
                    key: key.path(),
                    value,
                    source,
                })
                .collect(),
            profile: self.profile.to_toml(),
        }
    }
}

/// One sentence about this host, for the profile.
pub(super) fn about_this_host(stand: &Stand) -> String {
    let (model, is_virtual) = processor();
    format!(
        "{model}{}, {} CPUs of it, Linux {}, idle {}",
        if is_virtual {
            " under a hypervisor"
        } else {
            ""
        },
        stand.extent.cpus(),
        line_of("/proc/sys/kernel/osrelease"),
        idle_driver(),
    )
}
