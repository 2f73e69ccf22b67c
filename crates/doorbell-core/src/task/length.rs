//! How long a task's last polls were.

/// Short polls in a row after which a suspicion, or a long poll, is forgotten.
const REMEMBERED: u8 = 4;

/// Whether a task makes long polls, by its last few. A long poll by the wall clock makes a suspect only: the thread may
/// have lost its CPU. A suspect's polls are measured in CPU time.
///
/// | bits | name | meaning |
/// |---|---|---|
/// | 0–6 | `COUNT` | 0: short; up to `REMEMBERED`: suspect, the count of short polls until it is short again; up to 2 × `REMEMBERED`: long, and less `REMEMBERED` the same count |
/// | 7 | `WATCHED` | the last poll was so long that the next one is watched |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PollLength(u8);

const SUSPECT: u8 = REMEMBERED;
const LONG: u8 = 2 * REMEMBERED;
const COUNT: u8 = 0x7f;
const WATCHED: u8 = 0x80;
const _: () = assert!(0 < SUSPECT && SUSPECT < LONG && LONG <= COUNT && COUNT == !WATCHED);

impl PollLength {
    /// Whether the task's next poll is to be measured.
    #[inline(always)]
    pub(crate) fn is_measured(self) -> bool {
        self.0 != 0
    }

    /// Whether short tasks go before this one.
    #[inline(always)]
    pub(crate) fn is_long(self) -> bool {
        self.0 & COUNT > SUSPECT
    }

    /// Whether another worker is to look after what waits behind the next poll.
    pub(crate) fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    /// Notes whether the last poll was so long by the clock that the next one is watched.
    pub(crate) fn watched(self, is_watched: bool) -> Self {
        let bit = if is_watched { WATCHED } else { 0 };
        PollLength(self.0 & COUNT | bit)
    }

    /// After a poll that was long by the wall clock. Its CPU time is not known.
    pub(crate) fn suspected(self) -> Self {
        PollLength((self.0 & COUNT).max(SUSPECT))
    }

    /// After a poll that was long in CPU time.
    pub(crate) fn long() -> Self {
        PollLength(LONG)
    }

    /// After a short poll.
    pub(crate) fn short(self) -> Self {
        let count = self.0 & COUNT;
        let forgotten = count == SUSPECT + 1;
        PollLength(if forgotten {
            0
        } else {
            count.saturating_sub(1)
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
            assert!(!length.is_watched());
            let watched = length.watched(true);
            assert!(watched.is_watched() && watched.is_long() == length.is_long());
            assert_eq!(watched.short(), length.short());
            assert_eq!(watched.suspected(), length);
        }
        assert_eq!(PollLength::default().short(), PollLength::default());
    }
}
