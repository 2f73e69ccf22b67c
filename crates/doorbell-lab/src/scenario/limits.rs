//! The goals of a scenario, as a table of their own.

use crate::report::{SideTable, known};

/// A figure, and the bound that it must keep.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Limit {
    /// The name of the figure, such as `p99 by a call`.
    pub(super) what: String,
    /// Its unit, or what it is relative to.
    pub(super) unit: &'static str,
    /// The bound.
    pub(super) wanted: Bound,
    /// The figure found; `None` if there is none.
    pub(super) found: Option<f64>,
}

/// The side of a number on which a figure must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    /// Not above it.
    AtMost(f64),
    /// Not below it.
    AtLeast(f64),
}

impl Limit {
    /// A figure of that name and unit.
    pub(super) fn new(
        what: impl Into<String>,
        unit: &'static str,
        wanted: Bound,
        found: Option<f64>,
    ) -> Limit {
        Limit {
            what: what.into(),
            unit,
            wanted,
            found,
        }
    }

    fn holds(&self) -> &'static str {
        match (self.found, self.wanted) {
            (None, _) => "n/a",
            (Some(found), Bound::AtMost(most)) if found <= most => "yes",
            (Some(found), Bound::AtLeast(least)) if found >= least => "yes",
            (Some(_), _) => "NO",
        }
    }

    fn cells(&self) -> Vec<String> {
        let wanted = match self.wanted {
            Bound::AtMost(most) => format!("at most {}", known(Some(most))),
            Bound::AtLeast(least) => format!("at least {}", known(Some(least))),
        };
        vec![
            self.what.clone(),
            self.unit.to_owned(),
            wanted,
            known(self.found),
            self.holds().to_owned(),
        ]
    }
}

/// All limits as a table; no table without limits.
pub(super) fn table(limits: &[Limit]) -> Vec<SideTable> {
    let rows: Vec<_> = limits.iter().map(Limit::cells).collect();
    let table = (!rows.is_empty()).then(|| SideTable {
        caption: "Goals, and whether this run met them",
        titles: vec!["what", "unit", "goal", "found", "met"],
        rows,
    });
    table.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_says_whether_it_holds() {
        let one = |wanted, found| Limit::new("this", "us", wanted, found);
        let limits = [
            one(Bound::AtMost(2.0), Some(2.0)),
            one(Bound::AtMost(2.0), Some(2.1)),
            one(Bound::AtLeast(2.0), Some(2.0)),
            one(Bound::AtLeast(2.0), Some(1.9)),
            one(Bound::AtLeast(2.0), None),
        ];
        let tables = table(&limits);
        let holds = tables[0].rows.iter().map(|row| row[4].as_str());
        assert!(holds.eq(["yes", "NO", "yes", "NO", "n/a"]));
        assert_eq!(tables[0].rows[3][2..4], ["at least 2.00", "1.90"]);
        assert!(table(&[]).is_empty());
    }
}
