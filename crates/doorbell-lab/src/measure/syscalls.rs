//! Counts the system calls of a contestant with the kernel's tracepoint `raw_syscalls:sys_enter`.
//!
//! A counter covers the thread that opens it and, recursively, every thread started from then on. Reading
//! it sums up running and ended threads. While a counter is open, every system call of the machine takes
//! the kernel's slower path, about 100 ns longer. So calls are counted in a separate pass and never while
//! they are timed.

use anyhow::{Context as _, Result, anyhow};
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};

use super::machine::line_of;

/// The folder of tracepoints.
const EVENTS: &str = "/sys/kernel/tracing/events";
/// The tracepoint of each system call, and those of the calls that ask an epoll set for events.
const ALL: &str = "raw_syscalls/sys_enter";
const POLLS: [&str; 3] = [
    "syscalls/sys_enter_epoll_wait",
    "syscalls/sys_enter_epoll_pwait",
    "syscalls/sys_enter_epoll_pwait2",
];
/// The file with the kernel's restriction level for perf.
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Opens counters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyscallSource(Tracepoint);

impl SyscallSource {
    /// Finds the tracepoint and opens a counter once, as a test.
    pub(crate) fn find() -> Result<Self> {
        let source = tracepoint(EVENTS, ALL)?;
        source.open()?;
        Ok(source)
    }

    /// The calls that ask an epoll set for events; `None` where they cannot be counted.
    pub(crate) fn of_polls() -> Option<[Self; 3]> {
        let [first, second, third] = POLLS.map(|event| tracepoint(EVENTS, event).ok());
        Some([first?, second?, third?])
    }

    /// Counts from now on, in the calling thread and in threads that it starts.
    pub(crate) fn open(self) -> Result<SyscallCounter> {
        self.counter(|counter| {
            counter.inherit(true);
        })
    }

    /// Counts from now on in one thread, also of another process, but not in threads that it starts.
    pub(crate) fn open_for(self, thread: i32) -> Result<SyscallCounter> {
        self.counter(|counter| {
            counter.observe_pid(thread);
        })
    }

    fn counter(self, set: impl FnOnce(&mut Builder<'_>)) -> Result<SyscallCounter> {
        let mut counter = Builder::new(self.0);
        counter
            .any_cpu()
            .include_kernel()
            .include_hv()
            .enabled(true);
        set(&mut counter);
        let refused = |error| {
            let level = line_of(PARANOID);
            anyhow!(
                "perf_event_open was refused ({error}): run as root, or lower kernel.perf_event_paranoid (now {level}) \
                 to -1"
            )
        };
        counter.build().map(SyscallCounter).map_err(refused)
    }
}

/// A running count.
#[derive(Debug)]
pub(crate) struct SyscallCounter(Counter);

impl SyscallCounter {
    /// The number of system calls so far, by running and ended threads.
    pub(crate) fn read(&mut self) -> Result<u64> {
        let count = self.0.read();
        count.context("reading a perf counter")
    }
}

/// A tracepoint, by its number in a folder of events.
fn tracepoint(events: &str, event: &str) -> Result<SyscallSource> {
    let text = crate::read(format!("{events}/{event}/id")).context(
        "tracefs cannot be read: run as root, and if it is not mounted, `mount -t tracefs nodev /sys/kernel/tracing`",
    )?;
    Ok(SyscallSource(Tracepoint::with_id(text.trim().parse()?)))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_missing_tracefs_says_what_to_do() {
        let error = tracepoint("/nowhere/at/all", ALL).expect_err("it does not exist");
        let error = format!("{error:#}");
        assert!(error.contains("mount -t tracefs"), "{error}");
        assert!(error.contains("/nowhere/at/all"), "{error}");
    }

    #[test]
    fn one_thread_can_be_counted_by_itself() {
        const CALLS: u64 = 500;
        // Some more: the thread waits for the other one, and answers.
        const CEILING: u64 = CALLS + 50;
        let source = match SyscallSource::find() {
            Ok(source) => source,
            Err(reason) => {
                eprintln!("not tested here: {reason}");
                return;
            }
        };
        let (answer, answers) = mpsc::channel();
        let (request, requests) = mpsc::channel::<()>();
        let child = thread::spawn(move || {
            // SAFETY: takes nothing and always succeeds.
            answer.send(unsafe { libc::gettid() }).expect("it is heard");
            while requests.recv().is_ok() {
                for _ in 0..CALLS {
                    let _ = rustix::process::getppid();
                }
                answer.send(0).expect("it is heard");
            }
        });
        let number = answers.recv().expect("the child says its number");
        let mut counter = source.open_for(number).expect("this process may count");
        request.send(()).expect("the child waits");
        answers.recv().expect("the child calls");
        // The calls of this thread are not counted.
        for _ in 0..CALLS {
            let _ = rustix::process::getppid();
        }
        let count = counter.read().expect("the counter can be read");
        assert!((CALLS..CEILING).contains(&count), "{count}");
        drop(request);
        child.join().expect("the child ends");
    }

    #[test]
    fn a_child_is_counted_while_it_runs_and_after() {
        const CALLS: u64 = 1_000;
        // Some more: the threads start, wait for each other and read the counter.
        const CEILING: u64 = CALLS + 200;
        let mut counter = match SyscallSource::find().and_then(SyscallSource::open) {
            Ok(counter) => counter,
            Err(reason) => {
                eprintln!("not tested here: {reason}");
                return;
            }
        };
        let (done, called) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let before = counter.read().expect("the counter can be read");
        let child = thread::spawn(move || {
            for _ in 0..CALLS {
                let _ = rustix::process::getppid();
            }
            done.send(()).expect("the parent waits");
            ended.recv().expect_err("the parent only hangs up");
        });
        called.recv().expect("the child calls");
        let running = counter.read().expect("the counter can be read") - before;
        assert!(
            (CALLS..CEILING).contains(&running),
            "{running} while the child runs"
        );
        drop(end);
        child.join().expect("the child ends");
        let ended = counter.read().expect("the counter can be read") - before;
        assert!(
            (running..CEILING).contains(&ended),
            "{ended} after the child ended"
        );
    }
}
