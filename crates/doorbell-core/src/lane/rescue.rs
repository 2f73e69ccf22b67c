//! What a lane above does for a ward, a lane of its core that is stuck in long polls: it looks at the ward's
//! descriptors. When, and how much of its time that may take, is told by [`Pace`] and [`Window`]. Whoever calls
//! this is a task of the lane above.

use crate::io::Driver;
use crate::mailbox::Front;
use crate::task::Local;
use doorbell_machine::{Machine, PollEvents};

/// After so long inside one poll a ward is taken to be stuck; and it stays so while its polls take as long on average.
pub const STUCK_NS: u64 = 250_000;

/// Over so long, at the least, it is judged what polls take.
const JUDGED_NS: u64 = 2 * STUCK_NS;

/// How long the rescues of a lane are counted together, and how much of that they may take.
const WINDOW_NS: u64 = 2_000_000;
const PART_NS: u64 = WINDOW_NS / 2;
const _: () = assert!(2 * PART_NS <= WINDOW_NS);

/// What a ward was doing at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    now_ns: u64,
    pulse: u64,
    sleeps: u64,
    is_inside: bool,
}

impl Seen {
    /// Looks at the ward.
    pub fn of<M: Machine>(ward: &Front<M>) -> Self {
        Seen {
            now_ns: M::now_ns(),
            pulse: ward.pulse(),
            sleeps: ward.sleeps(),
            is_inside: ward.is_inside(),
        }
    }

    /// Whether it is inside of a poll or a call.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.is_inside
    }

    /// Whether it has been inside of one poll since then.
    #[must_use]
    pub fn is_same_poll(&self, before: &Seen) -> bool {
        self.is_inside && self.pulse == before.pulse && self.sleeps == before.sleeps
    }
}

/// How long the polls of a ward that was stuck take.
#[derive(Debug)]
pub struct Pace(Seen);

impl Pace {
    /// Of a ward that is stuck.
    #[must_use]
    pub fn new(seen: Seen) -> Self {
        Pace(seen)
    }

    /// Whether they are still long: it is inside one, has not slept, and they took long on average.
    pub fn is_slow(&mut self, now: Seen) -> bool {
        if !now.is_inside || now.sleeps != self.0.sleeps {
            return false;
        }
        let took_ns = now.now_ns.saturating_sub(self.0.now_ns);
        if took_ns < JUDGED_NS {
            return true;
        }
        let polls = now.pulse.wrapping_sub(self.0.pulse).saturating_add(1);
        self.0 = now;
        took_ns / polls >= STUCK_NS
    }
}

/// How much of its time a lane spends on rescues: half at most.
#[derive(Debug, Default)]
pub struct Window {
    end_ns: u64,
}

impl Window {
    /// How much the lane may spend from that time on, if another window begins.
    pub fn begin(&mut self, now_ns: u64) -> Option<u64> {
        (now_ns >= self.end_ns).then(|| {
            self.end_ns = now_ns.saturating_add(WINDOW_NS);
            PART_NS
        })
    }

    /// When the next one begins.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }
}

/// Brings what is ready at the descriptors of the ward to its tasks, on the lane that the caller is; how much that
/// was. Rescuable ones are lent to that lane, if it [rescues](Local::rescue_for).
pub fn look_for<M: Machine>(ward: &Front<M>, events: &mut PollEvents) -> usize {
    Local::<M>::bring_mail(|| Driver::look(ward, events))
}

#[cfg(test)]
mod tests {
    use super::{JUDGED_NS, PART_NS, Pace, STUCK_NS, Seen, WINDOW_NS, Window};

    fn seen(now_ns: u64, pulse: u64) -> Seen {
        Seen {
            now_ns,
            pulse,
            sleeps: 3,
            is_inside: true,
        }
    }

    #[test]
    fn a_ward_is_slow_as_long_as_its_polls_are() {
        let mut pace = Pace::new(seen(0, 7));
        // Nothing is judged of a short time.
        assert!(pace.is_slow(seen(JUDGED_NS - 1, 1_000)));
        // One poll that has lasted from then on.
        assert!(pace.is_slow(seen(JUDGED_NS, 7)));
        // As many as take just so long, the one that goes on among them; then one more.
        assert!(pace.is_slow(seen(JUDGED_NS + 4 * STUCK_NS, 7 + 3)));
        assert!(!pace.is_slow(seen(JUDGED_NS + 8 * STUCK_NS, 7 + 3 + 4)));
    }

    #[test]
    fn a_ward_that_slept_or_idles_is_not_slow() {
        let mut pace = Pace::new(seen(0, 7));
        let slept = Seen {
            sleeps: 4,
            ..seen(1, 7)
        };
        let idles = Seen {
            is_inside: false,
            ..seen(1, 7)
        };
        assert!(!pace.is_slow(slept) && !pace.is_slow(idles));
        assert!(!slept.is_same_poll(&seen(0, 7)) && !idles.is_same_poll(&seen(0, 7)));
        assert!(seen(1, 7).is_same_poll(&seen(0, 7)) && !seen(1, 8).is_same_poll(&seen(0, 7)));
    }

    #[test]
    fn rescues_take_half_of_the_time_at_most() {
        let mut window = Window::default();
        assert_eq!(window.begin(5), Some(PART_NS));
        assert_eq!(window.end_ns(), 5 + WINDOW_NS);
        assert_eq!(window.begin(4 + WINDOW_NS), None);
        assert_eq!(window.begin(9 * WINDOW_NS), Some(PART_NS));
        assert_eq!(window.end_ns(), 10 * WINDOW_NS);
    }
}
