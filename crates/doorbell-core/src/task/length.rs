//! How long a task's last polls were.

/// Short polls in a row after which a suspicion, or a long poll, is forgotten.
const REMEMBERED: u8 = 4;

/// Whether a task makes long polls, by its last few. A long poll by the wall clock makes a suspect only: the thread may
/// have lost its CPU. A suspect's polls are measured in CPU time.
///
/// | value | meaning |
/// |---|---|
/// | 0 | short |
/// | 1 to `REMEMBERED` | suspect; the count of short polls until it is short again |
/// | up to 2 × `REMEMBERED` | long; less `REMEMBERED`, the same count |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PollLength(u8);

const SUSPECT: u8 = REMEMBERED;
const LONG: u8 = 2 * REMEMBERED;
const _: () = assert!(0 < SUSPECT && SUSPECT < LONG);

impl PollLength {
    /// Whether the task's next poll is to be measured.
    #[inline(always)]
    pub(crate) fn is_measured(self) -> bool {
        self.0 != 0
    }

    /// Whether short tasks go before this one.
    #[inline(always)]
    pub(crate) fn is_long(self) -> bool {
        self.0 > SUSPECT
    }

    /// Whether the last poll was long, or may have been: the next one is expected to be.
    pub(crate) fn was_long(self) -> bool {
        matches!(self.0, SUSPECT | LONG)
    }

    /// After a poll that was long by the wall clock. Its CPU time is not known.
    pub(crate) fn suspected(self) -> Self {
        PollLength(self.0.max(SUSPECT))
    }

    /// After a poll that was long in CPU time.
    pub(crate) fn long() -> Self {
        PollLength(LONG)
    }

    /// After a short poll.
    pub(crate) fn short(self) -> Self {
        let forgotten = self.0 == SUSPECT + 1;
        PollLength(if forgotten {
            0
        } else {
            self.0.saturating_sub(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{PollLength, REMEMBERED};

    #[test]
    fn a_suspect_and_a_long_task_are_forgotten_after_a_few_short_polls() {
        let suspect = PollLength::default().suspected();
        assert!(suspect.is_measured() && !suspect.is_long());
        let long = PollLength::long();
        assert!(long.is_measured() && long.is_long() && long.suspected() == long);
        for mut length in [suspect, long] {
            for _ in 1..REMEMBERED {
                length = length.short();
                assert!(length.is_measured());
            }
            assert_eq!(length.short(), PollLength::default());
        }
        for length in [suspect, long] {
            assert!(length.was_long() && !length.short().was_long());
        }
        assert_eq!(PollLength::default().short(), PollLength::default());
    }
}
