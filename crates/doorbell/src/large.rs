//! Boxing of large futures and closures in the public functions, before they are moved.
//!
//! A value that is passed on is copied from stack frame to stack frame, twice each time in builds without
//! optimization. A worker's stack holds few copies of a large value. After boxing, the inner functions move
//! only a pointer.
//!
//! Source: tokio's `BOX_FUTURE_THRESHOLD`.

/// Futures and closures larger than this, in bytes, are boxed.
pub(crate) const BOXED_ABOVE: usize = if cfg!(debug_assertions) {
    2_048
} else {
    16_384
};

/// Evaluates the call with the future or closure in a box (by `Box::pin` or `Box::new`) if its type is large,
/// and with the value itself if not. Used in the outermost function that a user calls.
macro_rules! boxed_if_large {
    ($given:ident: $type:ty, $boxed:path => $call:expr) => {
        // A constant condition, so that builds without optimization reserve no stack for the other arm.
        if const { size_of::<$type>() > $crate::large::BOXED_ABOVE } {
            let $given = $boxed($given);
            $call
        } else {
            $call
        }
    };
}

pub(crate) use boxed_if_large;
