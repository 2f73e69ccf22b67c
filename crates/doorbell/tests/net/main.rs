//! Sockets and pipes in tasks. One program, as `tests/tasks`.
//!
//! What counts the descriptors of the process, or closes them by their numbers, is a program of its own: `net_*.rs`.

mod backlog;
mod empty;
mod pipe;
mod ready;
mod streams;
mod tcp;
mod traits;
mod turns;
mod udp;
mod unix;

#[path = "../shuffled/mod.rs"]
mod shuffled;

fn runtime() -> doorbell::Runtime {
    doorbell::Builder::new().cores(2).build().unwrap()
}
