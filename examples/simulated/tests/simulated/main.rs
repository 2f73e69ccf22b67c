//! Programs on simulated cores. One program: each has the whole runtime in it, and takes longer to build than to run. Runs that
//! fail are in a program of their own.

mod options;
mod os;
mod program;
mod service;
mod settings;
