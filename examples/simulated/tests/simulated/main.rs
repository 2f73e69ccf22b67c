//! Programs on simulated cores. One program: each has the whole runtime in it, and takes longer to build than to run. What
//! failures say is in programs of its own.

mod options;
mod os;
mod program;
mod service;
mod settings;
