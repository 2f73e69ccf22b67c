//! The result of a calibration.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use doorbell_sim::profile::Profile;
use serde::Serialize;

use super::probe::{PROBES, Round};
use super::stand::Stand;
use crate::error::LabError;
use crate::measure::{Spread, median};

/// The figures, and the profile made from them.
#[derive(Debug)]
pub(crate) struct Calibration {
    profile: Profile,
    rounds: Vec<Round>,
    out: Option<PathBuf>,
}

/// The figures of one probe over the rounds.
struct Figures {
    median_ns: f64,
    spread: Spread,
}

#[derive(Serialize)]
struct Json<'a> {
    program: &'a str,
    about: &'a str,
    rounds: usize,
    probes: Vec<JsonProbe>,
    entries: Vec<JsonEntry<'a>>,
    profile: String,
}

#[derive(Serialize)]
struct JsonProbe {
    probe: &'static str,
    how: &'static str,
    /// Absent where this host lacks what the probe needs.
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

    fn figures(&self, index: usize) -> Option<Figures> {
        let values: Vec<f64> = self
            .rounds
            .iter()
            .filter_map(|round| round.0[index])
            .collect();
        Some(Figures {
            median_ns: median(&values)?,
            spread: Spread::of(&values)?,
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
        for (index, probe) in PROBES.iter().enumerate() {
            let _ = match self.figures(index) {
                Some(of) => writeln!(
                    text,
                    "{:<13} {:>11.1} {:>11.1} {:>11.1}  {}",
                    probe.name, of.median_ns, of.spread.min, of.spread.max, probe.how
                ),
                None => writeln!(
                    text,
                    "{:<13} {:>11} {:>11} {:>11}  {}: not on this host",
                    probe.name, "-", "-", "-", probe.how
                ),
            };
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
    ///
    /// # Errors
    /// [`LabError::Json`] if a figure has no JSON form.
    pub(crate) fn to_json(&self) -> Result<String, LabError> {
        let probes = PROBES.iter().enumerate().map(|(index, probe)| {
            let of = self.figures(index);
            JsonProbe {
                probe: probe.name,
                how: probe.how,
                median_ns: of.as_ref().map(|of| of.median_ns),
                min_ns: of.as_ref().map(|of| of.spread.min),
                max_ns: of.as_ref().map(|of| of.spread.max),
            }
        });
        let entries = self.profile.entries();
        let json = Json {
            program: "calibrate",
            about: self.profile.about(),
            rounds: self.rounds.len(),
            probes: probes.collect(),
            entries: entries
                .map(|(key, value, source)| JsonEntry {
                    key: key.path(),
                    value,
                    source,
                })
                .collect(),
            profile: self.profile.to_toml(),
        };
        Ok(serde_json::to_string_pretty(&json)? + "\n")
    }
}

/// One sentence about this host, for the profile.
pub(super) fn about_this_host(stand: &Stand) -> String {
    let line = |path: &str| {
        fs::read_to_string(path)
            .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
    };
    let cpuidle = |file: &str| line(&format!("/sys/devices/system/cpu/cpuidle/current_{file}"));
    let info = line("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("an unknown processor", |(_, model)| model.trim());
    let guest = info
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    format!(
        "{model}{}, {} CPUs of it, Linux {}, idle {}/{}",
        if guest { " under a hypervisor" } else { "" },
        stand.extent.cpus(),
        line("/proc/sys/kernel/osrelease"),
        cpuidle("driver"),
        cpuidle("governor")
    )
}
