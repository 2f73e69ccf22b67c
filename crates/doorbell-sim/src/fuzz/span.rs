//! Ranges of numbers, as written on a command line.

use std::fmt;
use std::str::FromStr;

use doorbell_machine::sim::CPUS_MAX;

/// The most cores that a run may have.
pub const CORES_MAX: u64 = CPUS_MAX as u64;

/// Numbers from a first to a last one, both included, so at least one number.
///
/// The notation is Rust's: `A..B` without B, `A..=B` with it, and `A` alone.
///
/// ```
/// use doorbell_sim::fuzz::Span;
///
/// let span: Span = "2..256".parse().expect("it is right");
/// assert_eq!((span.first(), span.last()), (2, 255));
/// assert_eq!("7".parse::<Span>().expect("it is right").count(), 1);
/// let error = "9..2".parse::<Span>().expect_err("it ends before it begins");
/// assert!(error.to_string().contains("2..9"), "{error}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    first: u64,
    last: u64,
}

/// Why a text is not a range, with what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// It is not a range of numbers.
    #[error("`{0}` is no range; write `A..B`, `A..=B` or one number")]
    NoRange(String),
    /// It ends before it begins.
    #[error("`{0}` ends before it begins; write `{1}`")]
    Backwards(String, String),
    /// It has no number in it.
    #[error("`{0}` is empty, as B is not part of `A..B`; write `{1}`")]
    Empty(String, String),
    /// No run can have that many cores.
    #[error("a run has 1 to {CORES_MAX} cores, and `{0}` has others; write `{1}`")]
    Cores(Span, Span),
}

impl Span {
    /// The least number of the range.
    #[must_use]
    pub fn first(self) -> u64 {
        self.first
    }

    /// The greatest number of the range.
    #[must_use]
    pub fn last(self) -> u64 {
        self.last
    }

    /// How many numbers the range has; `u64::MAX` if it has 2^64.
    #[must_use]
    pub fn count(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// All numbers of the range, in order.
    pub fn iter(self) -> impl Iterator<Item = u64> {
        self.first..=self.last
    }

    /// One number of the range, chosen by a seed. It chooses one of the doublings first and then a number
    /// within it, so small numbers are as likely as large ones.
    #[must_use]
    pub fn pick(self, seed: u64) -> u64 {
        let first = self.first.max(1);
        if self.last <= first {
            return self.last;
        }
        let doublings = u64::from((self.last / first).ilog2()) + 1;
        let low = first << (mix(seed) % doublings);
        let high = low.saturating_mul(2).saturating_sub(1).min(self.last);
        low + mix(!seed) % (high - low).saturating_add(1)
    }

    /// Checks that the range is one of core counts.
    ///
    /// # Errors
    /// [`SpanError::Cores`] if a run cannot have this many cores, or the range contains 0.
    pub fn of_cores(self) -> Result<Self, SpanError> {
        if self.first >= 1 && self.last <= CORES_MAX {
            return Ok(self);
        }
        let first = self.first.clamp(1, CORES_MAX);
        let last = self.last.clamp(first, CORES_MAX);
        Err(SpanError::Cores(self, Self { first, last }))
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let number = |part: &str| part.trim().parse::<u64>().ok();
        let none = || SpanError::NoRange(text.to_owned());
        let Some((first, last)) = text.split_once("..") else {
            let one = number(text).ok_or_else(none)?;
            return Ok(Self {
                first: one,
                last: one,
            });
        };
        let (last, with_last) = match last.strip_prefix('=') {
            Some(last) => (last, true),
            None => (last, false),
        };
        let first = number(first).ok_or_else(none)?;
        let last = number(last).ok_or_else(none)?;
        let dots = if with_last { "..=" } else { ".." };
        if first > last {
            let other = format!("{last}{dots}{first}");
            return Err(SpanError::Backwards(text.to_owned(), other));
        }
        if first == last && !with_last {
            let other = format!("{first}..={last}");
            return Err(SpanError::Empty(text.to_owned(), other));
        }
        let last = if with_last { last } else { last - 1 };
        Ok(Self { first, last })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(out, "{}", self.first)
        } else {
            write!(out, "{}..={}", self.first, self.last)
        }
    }
}

/// Spreads consecutive seeds (the finaliser of `MurmurHash3`).
fn mix(seed: u64) -> u64 {
    let mut bits = seed ^ 0x9E37_79B9_7F4A_7C15;
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    bits ^ (bits >> 33)
}
