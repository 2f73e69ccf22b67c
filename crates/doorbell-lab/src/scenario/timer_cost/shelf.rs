//! Pinned futures side by side, without an allocation for each.

use std::pin::Pin;

/// Room for a fixed number of futures. A future stays in place until it is dropped.
#[derive(Debug)]
pub(crate) struct Shelf<F> {
    /// Never grows beyond its first capacity, and hands out pinned references only.
    places: Vec<F>,
}

impl<F> Shelf<F> {
    /// Room for `count` futures.
    pub(crate) fn with_room_for(count: usize) -> Self {
        Self {
            places: Vec::with_capacity(count),
        }
    }

    /// Adds a future.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn put(&mut self, future: F) -> Pin<&mut F> {
        assert!(
            self.places.len() < self.places.capacity(),
            "the shelf is full"
        );
        self.places.push(future);
        let last = self.places.len() - 1;
        // SAFETY: the vector never grows (asserted above), so it does not move its elements. No code moves
        // one out: they are dropped in place, by `clear` or with the vector. Moving the shelf leaves them
        // where they are, on the heap.
        unsafe { Pin::new_unchecked(&mut self.places[last]) }
    }

    /// Drops all futures, in the order in which they were added.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_there_stays_in_place() {
        let mut shelf = Shelf::with_room_for(3);
        let capacity = shelf.places.capacity();
        let mut addresses = Vec::new();
        for value in 0..capacity {
            addresses.push(&raw const *shelf.put(value));
        }
        let moved = shelf;
        let now: Vec<_> = moved.places.iter().map(|value| &raw const *value).collect();
        assert_eq!(addresses, now);
    }

    #[test]
    #[should_panic(expected = "full")]
    fn there_is_only_so_much_room() {
        let mut shelf = Shelf::with_room_for(1);
        let capacity = shelf.places.capacity();
        for value in 0..=capacity {
            shelf.put(value);
        }
    }
}
