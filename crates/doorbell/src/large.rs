//! Large futures and closures are boxed where a user gives them away, before they are moved.
//!
//! A value that is passed on is copied from frame to frame, in builds without optimization twice each time. A
//! worker's stack holds few copies of a large one. The functions below the public ones then move a pointer.
//!
//! Source: tokio's `BOX_FUTURE_THRESHOLD`.

/// What is larger, in bytes, is boxed.
pub(crate) const BOXED_ABOVE: usize = if cfg!(debug_assertions) {
    2_048
} else {
    16_384
};

/// Evaluates the call with the future or closure in a box, by `Box::pin` or `Box::new`, if its type is large;
/// with itself if not. The outermost function that a user calls has this.
macro_rules! boxed_if_large {
    ($given:ident: $type:ty, $boxed:path => $call:expr) => {
        // A constant, so that builds without optimization have no place on the stack for the other arm.
        if const { size_of::<$type>() > $crate::large::BOXED_ABOVE } {
            let $given = $boxed($given);
            $call
        } else {
            $call
        }
    };
}

pub(crate) use boxed_if_large;
