//! The first seed's own table, reproduced: the cost of a call to a polling target under each way of
//! notifying it, normalised to the seed's baseline.
//!
//! Source: "Introducing `TIF_NOTIFY_IPI`", Linux, February 2024 (ipistorm between two CPUs of a 2 x 64C
//! EPYC). In the seed the baseline's pass runs with interrupts disabled and so delays the next call. Here a
//! pass looks at empty queues, so skipping it gains less.

use super::super::rounds::{Figures, Tape};
use crate::measure::{median, variation_percent};
use crate::report::{SideTable, figure};

/// The setting of `idle_notify`, the seed's name for it, and the seed's normalised runtime.
const SETTINGS: [(&str, &str, f64); 3] = [
    (
        "blocking, spinning, idle_notify=off",
        "tip:sched/core",
        1.00,
    ),
    (
        "blocking, spinning, idle_notify=always_ring",
        "tip + revert",
        0.81,
    ),
    ("blocking, spinning", "tip + TIF_NOTIFY_IPI", 0.20),
];

/// The table, if all three settings were run.
pub(super) fn table<'a>(
    tapes: impl Iterator<Item = (&'a str, &'a str, &'a Tape)>,
) -> Option<SideTable> {
    let own: Vec<(&str, &Tape)> = tapes
        .filter(|(who, _, _)| *who == "doorbell")
        .map(|(_, variant, tape)| (variant, tape))
        .collect();
    let mut measured = Vec::new();
    for (variant, kernel, seed) in SETTINGS {
        let (_, tape) = own.iter().find(|(name, _)| *name == variant)?;
        // Divided by the limit of the same round, so a machine that changes speed between two rounds does
        // not appear as variation.
        let ratios: Vec<f64> = tape.kept.iter().filter_map(Figures::p50_x).collect();
        measured.push((
            variant,
            kernel,
            seed,
            median(&ratios)?,
            variation_percent(&ratios)?,
        ));
    }
    let base = measured[0].3;
    let rows = measured
        .iter()
        .map(|(variant, kernel, seed, ratio, variation)| {
            let normalised = ratio / base;
            vec![
                (*variant).to_owned(),
                (*kernel).to_owned(),
                format!("{normalised:.2} [{:.2}]", 100.0 * (1.0 - normalised)),
                figure(*variation),
                format!("{seed:.2} [{:.2}]", 100.0 * (1.0 - seed)),
            ]
        });
    Some(SideTable {
        caption: "Seed TIF_NOTIFY_IPI: time of a call to a spinning worker, normalised to its \
                  baseline [per cent won]; lower is better",
        titles: vec![
            "doorbell",
            "kernel",
            "time [% won]",
            "CV %",
            "seed's ipistorm",
        ],
        rows: rows.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape(ratios: &[f64]) -> Tape {
        let kept = ratios.iter().map(|ratio| Figures {
            p50_ns: Some(ratio * 100.0),
            limit_ns: 100.0,
            ..Figures::default()
        });
        Tape {
            kept: kept.collect(),
            rounds_dropped: 0,
            passes_dropped: 0,
        }
    }

    #[test]
    fn it_is_normalised_to_the_baseline_in_the_seeds_order() {
        let tapes = [tape(&[4.0, 4.0]), tape(&[2.0, 2.0]), tape(&[1.0, 1.0])];
        let named = SETTINGS
            .iter()
            .zip(&tapes)
            .map(|((name, ..), tape)| ("doorbell", *name, tape));
        let table = table(named).expect("all three settings are there");
        let won: Vec<&str> = table.rows.iter().map(|row| row[2].as_str()).collect();
        assert_eq!(won, ["1.00 [0.00]", "0.50 [50.00]", "0.25 [75.00]"]);
        assert!(table.rows.iter().all(|row| row[3] == "0"));
    }

    #[test]
    fn without_one_of_the_settings_there_is_none() {
        let one = tape(&[1.0]);
        let named = [
            ("doorbell", SETTINGS[0].0, &one),
            ("other", SETTINGS[1].0, &one),
        ];
        assert!(table(named.into_iter()).is_none());
    }
}
