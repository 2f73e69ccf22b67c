//! Tests of the server whose clients and handlers only wait. They are one program, so that they wait at the same time
//! and are linked once. Tests that look at the whole process (its allocations, descriptors, threads, signals) are
//! programs of their own.

#[path = "../common/mod.rs"]
mod common;
mod two;

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
mod tireless;
mod tower;
mod version;
