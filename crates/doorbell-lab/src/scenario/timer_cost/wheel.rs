//! The floor: a single-threaded array of lists, one for each millisecond.

use std::time::Duration;

/// How many milliseconds have a slot of their own. Later deadlines share slots with earlier ones; a wheel
/// that fires would tell them apart by a round count.
const SLOTS: usize = 1 << 16;
/// No entry.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    slot: u32,
    before: u32,
    after: u32,
}

/// Entries in doubly linked lists, with a list of the free ones.
#[derive(Debug)]
pub(super) struct Wheel {
    slots: Vec<u32>,
    entries: Vec<Entry>,
    free: u32,
}

impl Wheel {
    /// A wheel without entries.
    pub(super) fn new() -> Self {
        Self {
            slots: vec![NONE; SLOTS],
            entries: Vec::new(),
            free: NONE,
        }
    }

    /// Adds an entry that is due in `ahead`, and returns its number.
    pub(super) fn arm(&mut self, ahead: Duration) -> u32 {
        let slot = (ahead.as_millis() as usize % SLOTS) as u32;
        let first = self.slots[slot as usize];
        let entry = Entry {
            slot,
            before: NONE,
            after: first,
        };
        let number = self.place(entry);
        if first != NONE {
            self.entries[first as usize].before = number;
        }
        self.slots[slot as usize] = number;
        number
    }

    /// Removes an entry.
    pub(super) fn disarm(&mut self, number: u32) {
        let Entry {
            slot,
            before,
            after,
        } = self.entries[number as usize];
        if before == NONE {
            self.slots[slot as usize] = after;
        } else {
            self.entries[before as usize].after = after;
        }
        if after != NONE {
            self.entries[after as usize].before = before;
        }
        self.entries[number as usize].after = self.free;
        self.free = number;
    }

    fn place(&mut self, entry: Entry) -> u32 {
        if self.free == NONE {
            self.entries.push(entry);
            return self.entries.len() as u32 - 1;
        }
        let number = self.free;
        self.free = self.entries[number as usize].after;
        self.entries[number as usize] = entry;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(wheel: &Wheel, ms: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        let mut at = wheel.slots[ms];
        while at != NONE {
            numbers.push(at);
            at = wheel.entries[at as usize].after;
        }
        numbers
    }

    #[test]
    fn entries_come_and_go_in_any_order() {
        let mut wheel = Wheel::new();
        let five = Duration::from_millis(5);
        let numbers = [(); 3].map(|()| wheel.arm(five));
        assert_eq!(slot(&wheel, 5), [2, 1, 0]);
        wheel.disarm(numbers[1]);
        assert_eq!(slot(&wheel, 5), [2, 0]);
        wheel.disarm(numbers[2]);
        assert_eq!(slot(&wheel, 5), [0]);
        // The slot freed last is reused first.
        assert_eq!(wheel.arm(Duration::from_millis(7)), numbers[2]);
        wheel.disarm(numbers[0]);
        assert!(slot(&wheel, 5).is_empty());
        assert_eq!(slot(&wheel, 7), [2]);
        assert_eq!(wheel.entries.len(), 3);
    }

    #[test]
    fn deadlines_wrap_around() {
        let mut wheel = Wheel::new();
        let number = wheel.arm(Duration::from_millis(SLOTS as u64 + 3));
        assert_eq!(slot(&wheel, 3), [number]);
    }
}
