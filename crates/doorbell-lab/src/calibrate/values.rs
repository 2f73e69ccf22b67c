//! Converts the figures of the probes into the values of a profile.

use doorbell_machine::{Host, Machine as _, Policy};
use doorbell_sim::profile::{KEYS, Profile};

use super::probe::{PROBES, Round};
use super::stand::Stand;
use crate::measure::{median, spread_of};
use crate::text::Text;

/// The keys of the machine's shape, in the order of the extent.
const SHAPE: [&str; 4] = ["sockets", "llc_groups_per_socket", "cores_per_llc", "smt"];

/// A profile's value for one key, and its source.
pub(super) type Entry = (u64, String);

/// The data that the values come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) stand: &'a Stand,
    pub(super) rounds: &'a [Round],
    /// The profile whose values stand where nothing could be measured.
    pub(super) like: &'a Profile,
}

impl Sources<'_> {
    /// The entry of the key with this name.
    pub(super) fn entry(&self, name: &str) -> Entry {
        let read = "read by `doorbell calibrate`";
        if let Some(place) = SHAPE.iter().position(|key| *key == name) {
            let mut parts = vec![format!("{read}: /sys, of the CPUs this process may use")];
            parts.extend(self.stand.remarks.iter().cloned());
            return (self.stand.extent[place], parts.join("; "));
        }
        // Kernels before 6.12 do not report it.
        if name == "slice_ns"
            && let Ok(Policy::Other {
                slice_ns: Some(ns), ..
            }) = Host::policy()
        {
            return (ns, format!("{read}: sched_getattr of its own thread"));
        }
        let items = Text(include_str!("probes.md")).items("Values");
        let mut items = items.iter().filter_map(|item| item.split_once(": "));
        let ways = items.find_map(|(key, ways)| (key == name).then_some(ways));
        let mut why = "this host lacks what it takes";
        for way in ways.unwrap_or_default().split(" | ") {
            match way.strip_prefix("assumed: ") {
                Some(reason) => why = reason,
                None => {
                    if let Some(entry) = self.measured(name, way) {
                        return entry;
                    }
                }
            }
        }
        let mut like = self.like.entries();
        let like = like.find(|(key, _, _)| key.name == name);
        let of = self.like.name();
        (
            like.map_or(0, |(_, value, _)| value),
            format!("assumed: not measured, as in profile {of}, because {why}"),
        )
    }

    /// The median, over the rounds, of a formula; `None` if no round has all its probes.
    fn measured(&self, name: &str, formula: &str) -> Option<Entry> {
        let values = self.rounds.iter().filter_map(|round| value(formula, round));
        let values: Vec<f64> = values.collect();
        let (middle, [min, max]) = (median(&values)?, spread_of(&values)?);
        let key = KEYS.iter().find(|key| key.name == name)?;
        // The nearest whole number that the key allows.
        let inside = middle.round().clamp(key.least as f64, key.most as f64);
        let raised = if middle.round().total_cmp(&inside).is_ne() {
            format!("; {middle:.1} was measured, the nearest possible value is taken")
        } else {
            String::new()
        };
        let unit = if name.ends_with("_percent") {
            "per cent"
        } else {
            "ns"
        };
        let (how, count) = (in_words(formula), values.len());
        let source = format!(
            "measured by `doorbell calibrate`: {how}; median of {count} rounds, {min:.1} to {max:.1} {unit}{raised}"
        );
        Some((inside as u64, source))
    }
}

/// The value of a formula in a round: probes and numbers, from left to right.
fn value(formula: &str, round: &Round) -> Option<f64> {
    let (mut sum, mut sign) = (0.0, "+");
    for word in formula.split_whitespace() {
        let number = || word.parse().ok().or_else(|| round.get(word).copied());
        match (word, sign) {
            ("+" | "-" | "*" | "/", _) => sign = word,
            (_, "-") => sum -= number()?,
            (_, "*") => sum *= number()?,
            (_, "/") => sum /= number()?,
            _ => sum += number()?,
        }
    }
    Some(sum)
}

/// A formula with how its probes are measured.
fn in_words(formula: &str) -> String {
    let words = formula.split_whitespace().map(|word| {
        let probe = PROBES.iter().find(|(name, _)| name == word);
        probe.map_or(word.to_owned(), |(name, how)| format!("{name} ({how})"))
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_taken_from_left_to_right_and_needs_all_its_probes() {
        let round = Round::from([("hop", 100.0), ("syscall", 20.0), ("late", 5.0)]);
        assert_eq!(value("hop - syscall - late", &round), Some(75.0));
        assert_eq!(value("hop / syscall * 100", &round), Some(500.0));
        assert_eq!(value("late + gone", &round), None);
    }

    #[test]
    fn each_value_is_of_probes_that_there_are() {
        let items = Text(include_str!("probes.md")).items("Values");
        let known: Round = PROBES
            .iter()
            .map(|(name, _)| (name.as_str(), 1.0))
            .collect();
        for key in KEYS.iter().filter(|key| !SHAPE.contains(&key.name)) {
            let ways = items
                .iter()
                .find_map(|item| item.strip_prefix(key.name)?.strip_prefix(": "));
            for way in ways.unwrap_or_else(|| panic!("{}", key.name)).split(" | ") {
                assert!(
                    way.starts_with("assumed: ") || value(way, &known).is_some(),
                    "{way}"
                );
            }
        }
    }
}
