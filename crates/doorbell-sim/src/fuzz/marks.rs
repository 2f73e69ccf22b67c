//! Marks that hardly a seed reaches, and why that is so.
//!
//! A run of all shapes reaches each mark by one seed in a hundred at least, or there is a reason
//! here why it cannot be more. Where a mark is rare because programs rarely do what it takes, let
//! them do it more often instead.

use doorbell_machine::Mark;

use super::{Fuzzed, MarkRow};

/// A mark is rare that fewer seeds in a hundred reach.
pub const RARE_PERCENT: f64 = 1.0;

/// The marks that are rare in a run of all shapes, each with the reason, in one line.
const EXPLAINED: &[(Mark, &str)] = &[];

/// Why a mark is rare in a run of all shapes; none if it is not, or should not be.
#[must_use]
pub fn why_rare(mark: Mark) -> Option<&'static str> {
    let mut explained = EXPLAINED.iter();
    explained.find(|(it, _)| *it == mark).map(|(_, why)| *why)
}

impl Fuzzed {
    /// How many seeds in a hundred reached a mark.
    #[must_use]
    pub fn percent(&self, row: &MarkRow) -> f64 {
        100.0 * row.seeds as f64 / self.tally.seeds.max(1) as f64
    }

    /// Whether a mark was rare in this run.
    #[must_use]
    pub fn is_rare(&self, row: &MarkRow) -> bool {
        self.percent(row) < RARE_PERCENT
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Plan, SHAPES, fuzz};
    use super::*;
    use doorbell_machine::sim::Memory;

    /// Both ways: a reason for a mark that is not rare any more is out of date.
    #[test]
    fn marks_that_are_rare_are_explained_and_no_others() {
        for (seeds, memory) in [("0..200", Memory::Sc), ("200..400", Memory::Tso)] {
            let plan = Plan {
                seeds: seeds.parse().expect("it is a range"),
                cores: "2..16".parse().expect("it is a range"),
                memory,
                profile: None,
                shapes: &SHAPES,
            };
            let done = fuzz(&plan, |_, _| ()).expect("the machine can be simulated");
            assert!(done.found.is_none(), "{:?}", done.found);
            for row in &done.marks {
                let percent = done.percent(row);
                assert_eq!(
                    done.is_rare(row),
                    why_rare(row.mark).is_some(),
                    "{:?} was reached by {percent} % of the seeds",
                    row.mark
                );
            }
        }
    }
}
