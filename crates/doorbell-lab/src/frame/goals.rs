//! The goals of a scenario, as a table of their own.

use crate::report::{SideTable, known};

/// A goal, and what a run found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Goal {
    what: String,
    unit: &'static str,
    wanted: Bound,
    found: Option<f64>,
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    pub(crate) fn new(
        what: impl Into<String>,
        unit: &'static str,
        wanted: Bound,
        found: Option<f64>,
    ) -> Self {
        Self {
            what: what.into(),
            unit,
            wanted,
            found,
        }
    }

    fn cells(&self) -> Vec<String> {
        let (wanted, bound, holds) = match self.wanted {
            Bound::AtMost(most) => ("at most", most, self.found.map(|found| found <= most)),
            Bound::AtLeast(least) => ("at least", least, self.found.map(|found| found >= least)),
        };
        let holds = match holds {
            None => "n/a",
            Some(true) => "yes",
            Some(false) => "NO",
        };
        vec![
            self.what.clone(),
            self.unit.to_owned(),
            format!("{wanted} {}", known(Some(bound))),
            known(self.found),
            holds.to_owned(),
        ]
    }
}

/// The table, if there are any.
pub(super) fn table(goals: &[Goal]) -> Option<SideTable> {
    let rows: Vec<_> = goals.iter().map(Goal::cells).collect();
    (!rows.is_empty()).then(|| SideTable {
        caption: "Goals, and whether this run met them",
        titles: vec!["what", "unit", "goal", "found", "met"],
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_or_not_or_not_known() {
        let cells = |wanted, found| Goal::new("it", "us", wanted, found).cells()[2..].join(", ");
        assert_eq!(
            cells(Bound::AtMost(2.0), Some(2.0)),
            "at most 2.00, 2.00, yes"
        );
        assert_eq!(
            cells(Bound::AtLeast(2.0), Some(1.0)),
            "at least 2.00, 1.00, NO"
        );
        assert_eq!(cells(Bound::AtMost(2.0), None), "at most 2.00, n/a, n/a");
        assert!(table(&[]).is_none());
    }
}
