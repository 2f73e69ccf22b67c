//! An async program on simulated cores.
//!
//! [`run()`] and `#[doorbell::test(sim)]` run a program on a machine of 1 to 1,024 simulated cores, with the schedulers,
//! classes, timers and idle states of doorbell, a cost for each cache line that moves, and simulated time. One seed
//! decides everything that is left open, so a seed is one run. All cores are simulated on one thread of the OS.
//!
//! ```
//! use doorbell::sim::{self, Config};
//! use doorbell::time::{Duration, sleep};
//!
//! let report = sim::run(Config::new().cores(16).seeds(0..3), || async {
//!     let tasks = (0..32).map(|number| {
//!         doorbell::spawn(async move {
//!             sleep(Duration::from_micros(number)).await;
//!             sim::work(Duration::from_micros(3));
//!         })
//!     });
//!     for task in tasks.collect::<Vec<_>>() {
//!         task.await.unwrap();
//!     }
//! })?;
//! assert_eq!(report.seeds, 3);
//! # Ok::<(), doorbell::sim::Failed>(())
//! ```
//!
//! A poll is one step: no other simulated thread runs before it has returned, except where it calls [`work`] or blocks
//! in a function of doorbell. The same holds for wakers, destructors and closures. `docs/guide/simulation.md` says what
//! is simulated, what is not seen, and what a program may not do.

mod config;
mod offline;
mod oracle;
mod plan;
mod run;
mod watch;

pub use config::Config;
#[doc(hidden)]
pub use doorbell_machine::sim::os;
#[doc(hidden)]
pub use doorbell_machine::sim::seeds::Place;
#[doc(inline)]
pub use doorbell_machine::sim::seeds::{Failed, Fault, Found, Problem, Report, Verdict};
pub use doorbell_machine::sim::{Costs, MachineSpec, NotSimulated, Range as CostRange};
pub use run::run;
#[doc(hidden)]
pub use run::test;

use crate::here::on_its_machine;
use doorbell_machine::{Machine, sim as machine};
use std::panic::Location;
use std::time::Duration;

/// Computes for this long, in simulated time, as a part of the current poll. Other cores run meanwhile. Outside of a
/// simulation it does nothing.
///
/// Hold no lock over it that blocks its thread, such as one of std: another simulated thread that waits for it would wait in
/// the OS for ever, and the run fails. [`sync::Mutex`](crate::sync::Mutex) and other locks that wake their waiters are fine.
pub fn work(time: Duration) {
    machine::work(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// A random number. Inside a simulation it follows from the seed.
pub fn random() -> u64 {
    on_its_machine!(M => M::random())
}

/// Fails the run if `holds` is `false`: the run ends here, and [`Failed`] has the text and the caller's line.
///
/// # Panics
/// Outside of a simulation, if `holds` is `false`.
#[track_caller]
pub fn check(holds: bool, what: &str) {
    if holds {
        return;
    }
    let text = format!("{what} ({})", Location::caller());
    assert!(is_inside(), "{text}");
    machine::fail(text);
}

/// Has std and all other crates of the program take the time, and random bytes, from the simulation while one runs: the
/// clocks of std and of `async-lock`, the order of a `HashMap`, the crate `rand`. Without this, a program that uses them
/// may have two runs that differ. Write it once in the crate of a test, outside of functions.
///
/// It defines the functions `clock_gettime` and `getrandom`, so that these are called in place of the C library's. They
/// do the same as those on threads that are not simulated. A crate that makes the syscalls itself is not reached.
///
/// ```
/// doorbell::simulate_std!();
///
/// # fn main() -> Result<(), doorbell::sim::Failed> {
/// use doorbell::sim::{self, Config};
///
/// sim::run(Config::new().seeds(0..2), || async {
///     let begun = std::time::Instant::now();
///     sim::work(std::time::Duration::from_secs(1));
///     assert!(begun.elapsed().as_millis() / 10 == 100);
/// })?;
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! simulate_std {
    () => {
        const _: () = {
            use ::core::ffi::c_void;

            // SAFETY: it does what the C library's function does.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn clock_gettime(clock: i32, to: *mut c_void) -> i32 {
                // SAFETY: passed on from the caller.
                unsafe { $crate::sim::os::clock_gettime(clock, to.cast()) }
            }

            // SAFETY: as above.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn getrandom(to: *mut c_void, len: usize, flags: u32) -> isize {
                // SAFETY: passed on from the caller.
                unsafe { $crate::sim::os::getrandom(to, len, flags) }
            }
        };
    };
}

/// Whether the caller is inside a simulation.
pub fn is_inside() -> bool {
    machine::is_inside()
}
