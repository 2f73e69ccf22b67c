//! The resource use of a process and its threads, from its clock and `/proc`.

use std::collections::BTreeMap;
use std::io::Error;
use std::time::Duration;

use anyhow::{Context as _, Result};
use procfs::process::Task;

/// A process of the same user, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(pub(crate) u32);

/// How often each thread of a process, by its number, has left a CPU: to wait, and because it had to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Switches(BTreeMap<i32, [u64; 2]>);

impl Process {
    pub(crate) fn own() -> Self {
        Self(std::process::id())
    }

    /// The CPU time of its threads, including those that have ended.
    pub(crate) fn cpu(self) -> Result<Duration> {
        let mut clock: libc::clockid_t = 0;
        // SAFETY: the pointer is valid for writing one clock id, and the call writes nothing else.
        let status = unsafe { libc::clock_getcpuclockid(self.0.cast_signed(), &raw mut clock) };
        if status != 0 {
            return Err(Error::from_raw_os_error(status)).context("clock_getcpuclockid");
        }
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is valid for writing one `timespec`, and the call writes nothing else.
        if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
            return Err(Error::last_os_error()).context("clock_gettime of another process");
        }
        Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// The size of its resident memory (Rss), in bytes.
    pub(crate) fn resident_bytes(self) -> Result<u64> {
        let rollup = self.files()?.smaps_rollup()?.memory_map_rollup;
        let sizes = rollup.into_iter().map(|map| map.extension.map);
        Ok(sizes.filter_map(|map| map.get("Rss").copied()).sum())
    }

    /// The number of its open descriptors.
    pub(crate) fn descriptors(self) -> Result<usize> {
        Ok(self.files()?.fd_count()?)
    }

    /// How often each of its threads has left a CPU. Each time that it waited ends with a wake-up.
    pub(crate) fn switches(self) -> Result<Switches> {
        // A thread that ends meanwhile is skipped.
        let of_one = |task: Task| {
            let status = task.status().ok()?;
            let forced = status.nonvoluntary_ctxt_switches;
            let both = [status.voluntary_ctxt_switches, forced];
            Some((task.tid, both.map(Option::unwrap_or_default)))
        };
        let tasks = self.files()?.tasks()?;
        Ok(Switches(tasks.flatten().filter_map(of_one).collect()))
    }

    fn files(self) -> Result<procfs::process::Process> {
        let found = procfs::process::Process::new(self.0.cast_signed());
        found.context("looking for a process")
    }
}

impl Switches {
    /// The threads that are not among `earlier`.
    pub(crate) fn threads_since(&self, earlier: &Self) -> Vec<i32> {
        let is_new = |number: &&i32| !earlier.0.contains_key(number);
        self.0.keys().filter(is_new).copied().collect()
    }

    /// Its threads.
    pub(crate) fn threads(&self) -> Vec<i32> {
        self.0.keys().copied().collect()
    }

    /// Those of some threads.
    #[must_use]
    pub(crate) fn only(mut self, threads: &[i32]) -> Self {
        self.0.retain(|number, _| threads.contains(number));
        self
    }

    /// How often threads have left a CPU since `earlier`, summed over threads that still exist.
    pub(crate) fn since(&self, earlier: &Self) -> [u64; 2] {
        let each = self.0.iter().map(|(number, now)| {
            let then = earlier.0.get(number).copied().unwrap_or_default();
            [now[0] - then[0], now[1] - then[1]]
        });
        each.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn this_process_is_one() {
        let this = Process::own();
        let before = this.cpu().expect("it runs");
        let _file = std::fs::File::open("/proc/self/stat").expect("proc is there");
        assert!(this.descriptors().expect("it runs") > 3);
        assert!(this.resident_bytes().expect("it runs") > 100_000);
        assert!(this.cpu().expect("it runs") > before);
    }

    #[test]
    fn nobody_is_an_error() {
        // Larger than any process number of Linux.
        let nobody = Process(1 << 23);
        assert!(nobody.cpu().is_err());
        assert!(nobody.resident_bytes().is_err() && nobody.descriptors().is_err());
        assert!(nobody.switches().is_err());
    }

    #[test]
    fn threads_that_end_are_left_out_and_new_ones_count_from_zero() {
        let of =
            |all: &[(i32, u64)]| Switches(all.iter().map(|(one, n)| (*one, [*n, 1])).collect());
        let (before, after) = (of(&[(1, 5), (2, 7)]), of(&[(1, 8), (3, 2)]));
        assert_eq!(after.since(&before), [5, 1]);
        assert_eq!(after.threads_since(&before), [3]);
        assert_eq!(after.only(&[1]), of(&[(1, 8)]));
    }

    #[test]
    fn a_thread_that_waits_is_counted_by_itself() {
        let (reply, replies) = mpsc::channel();
        let (request, requests) = mpsc::channel::<()>();
        let child = thread::spawn(move || {
            let number = rustix::thread::gettid().as_raw_nonzero().get();
            reply.send(number).expect("the test waits");
            while requests.recv().is_ok() {
                thread::sleep(Duration::from_micros(10));
                reply.send(number).expect("the test waits");
            }
        });
        let number = replies.recv().expect("the child runs");
        let now = || {
            Process::own()
                .switches()
                .expect("proc is there")
                .only(&[number])
        };
        let before = now();
        for _ in 0..20 {
            request.send(()).expect("the child waits");
            replies.recv().expect("the child answers");
        }
        let [waits, _] = now().since(&before);
        assert!(waits >= 20, "{waits}");
        drop(request);
        child.join().expect("the child ends");
    }
}
