//! Servers and their clients, on sockets of this machine. One program, because each would link the same crates anew.
//! Tests that measure the whole process, or wait for their turn, are programs of their own.

#[path = "../common/mod.rs"]
mod common;

mod client;
mod ends;
mod held;
mod hello;
mod info;
mod io;
mod limits;
mod listeners;
mod owed;
mod settings;
mod timeouts;
mod tower;
mod version;
