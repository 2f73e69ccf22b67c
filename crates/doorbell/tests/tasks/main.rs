//! What tasks, calls and timers do, from a user's view. One program: each is linked by itself, and takes longer to build
//! than to run.
//!
//! All of it is run once more with shuffled turns: see the step `shuffled` of `.ci/run`.

mod basics;
mod blocking;
mod call_many;
mod calls;
mod coop;
mod entered;
mod inversion;
mod join_set;
mod local;
mod posts;
mod room;
mod scope;
mod task_local;
mod time;
mod worker_local;

#[path = "../hostile/mod.rs"]
mod hostile;
#[path = "../shuffled/mod.rs"]
mod shuffled;

/// A runtime that is shuffled if the environment says so.
fn runtime(cores: usize) -> doorbell::Runtime {
    shuffled::Builder::new().cores(cores).build().unwrap()
}

/// Waits far longer than it can take for something that happens by itself.
#[allow(
    clippy::disallowed_methods,
    reason = "it waits as a user's thread does"
)]
fn eventually(what: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if what() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("it did not come");
}
