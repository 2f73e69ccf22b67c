//! The runtime as its users call it. One program, because each would link the runtime anew. Tests that measure the whole
//! process, change what it has, or are about urgent threads are programs of their own.

// Where a macro is used, clippy looks only here.
#![allow(
    clippy::disallowed_macros,
    reason = "thread locals of the user's own threads"
)]

mod abort_handle;
mod auto_traits;
mod bad_input;
mod bugs;
mod call_class;
mod cancel;
mod cores;
mod dump;
mod features;
mod groups;
mod hooks;
mod large;
mod last_posts;
mod macros;
mod net_fd;
mod net_names;
mod paused;
mod poll_times;
mod relief;
mod shuffle;
mod shutdown;
mod spin_steal;
