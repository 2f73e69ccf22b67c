//! Tests of sockets that look at nothing else of the process: one program, so that they wait at the same time and are
//! linked once.

mod empty;
mod names;
mod streams;
mod traits;
mod turns;
mod udp;
mod unix;
