//! The resource use of single threads of this process, from `/proc/self/task`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::error::LabError;

const TASKS: &str = "/proc/self/task";

/// Threads of this process, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Threads(BTreeSet<i32>);

impl Threads {
    /// The threads that exist now.
    ///
    /// # Errors
    /// [`LabError::File`] if the directory cannot be read.
    pub(crate) fn now() -> Result<Self, LabError> {
        let entries = fs::read_dir(TASKS).map_err(LabError::reading(TASKS))?;
        let names = entries.flatten().map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str()?.parse().ok());
        Ok(Self(numbers.collect()))
    }

    /// The threads that are not among `earlier`.
    #[must_use]
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self(self.0.difference(&earlier.0).copied().collect())
    }

    /// The number of threads.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Their numbers.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = i32> {
        self.0.iter().copied()
    }

    /// The sum of what the threads have used since they started.
    ///
    /// # Errors
    /// [`LabError::File`] if one of them has ended.
    pub(crate) fn used(&self) -> Result<ThreadsUse, LabError> {
        let mut all = ThreadsUse::default();
        for number in &self.0 {
            let folder = PathBuf::from(TASKS).join(number.to_string());
            let read = |name: &str| {
                let path = folder.join(name);
                fs::read_to_string(&path).map_err(LabError::reading(path))
            };
            let status = read("status")?;
            all.voluntary_switches += count_of(&status, "voluntary_ctxt_switches:");
            all.involuntary_switches += count_of(&status, "nonvoluntary_ctxt_switches:");
            // Some kernels are built without schedstat.
            all.cpu_ns = all
                .cpu_ns
                .zip(read("schedstat").ok().and_then(|text| first_number(&text)))
                .map(|(sum, one)| sum + one);
        }
        Ok(all)
    }
}

/// The resource use of several threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadsUse {
    /// How often one of them left a CPU to wait.
    pub(crate) voluntary_switches: u64,
    /// How often one of them had to leave a CPU to another thread.
    pub(crate) involuntary_switches: u64,
    /// Their CPU time; `None` if the kernel does not report it.
    pub(crate) cpu_ns: Option<u64>,
}

impl Default for ThreadsUse {
    fn default() -> Self {
        Self {
            voluntary_switches: 0,
            involuntary_switches: 0,
            cpu_ns: Some(0),
        }
    }
}

impl ThreadsUse {
    /// What was used since `earlier`.
    #[must_use]
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
            cpu_ns: self
                .cpu_ns
                .zip(earlier.cpu_ns)
                .map(|(now, then)| now - then),
        }
    }
}

/// The number after `label` at the start of a line of a status file; 0 if there is none.
pub(super) fn count_of(status: &str, label: &str) -> u64 {
    let found = status.lines().find_map(|line| line.strip_prefix(label));
    found.and_then(first_number).unwrap_or(0)
}

pub(super) fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const STATUS: &str = "Name:\tlab-0\nThreads:\t3\nvoluntary_ctxt_switches:\t17\n\
        nonvoluntary_ctxt_switches:\t4\n";

    #[test]
    fn the_two_counts_are_told_apart() {
        assert_eq!(count_of(STATUS, "voluntary_ctxt_switches:"), 17);
        assert_eq!(count_of(STATUS, "nonvoluntary_ctxt_switches:"), 4);
        assert_eq!(count_of("Name:\tx\n", "voluntary_ctxt_switches:"), 0);
        assert_eq!(first_number("350975 0 2\n"), Some(350_975));
        assert_eq!(first_number(""), None);
    }

    #[test]
    fn a_difference_needs_both_ends() {
        let before = ThreadsUse {
            voluntary_switches: 1,
            involuntary_switches: 0,
            cpu_ns: Some(5),
        };
        let after = ThreadsUse {
            voluntary_switches: 4,
            involuntary_switches: 2,
            cpu_ns: Some(25),
        };
        let used = after.since(before);
        assert_eq!((used.voluntary_switches, used.involuntary_switches), (3, 2));
        assert_eq!(used.cpu_ns, Some(20));
        let unknown = ThreadsUse {
            cpu_ns: None,
            ..before
        };
        assert_eq!(after.since(unknown).cpu_ns, None);
    }

    #[test]
    fn a_thread_that_waits_is_counted_by_itself() {
        let (reply, replies) = mpsc::channel();
        let (request, requests) = mpsc::channel::<()>();
        let child = thread::spawn(move || {
            // SAFETY: takes nothing and always succeeds.
            let number = unsafe { libc::gettid() };
            reply.send(number).expect("the test waits");
            while requests.recv().is_ok() {
                thread::sleep(std::time::Duration::from_micros(10));
                reply.send(number).expect("the test waits");
            }
        });
        let number = replies.recv().expect("the child runs");
        assert!(Threads::now().expect("proc is there").0.contains(&number));
        let only = Threads(BTreeSet::from([number]));
        let before = only.used().expect("it lives");
        for _ in 0..20 {
            request.send(()).expect("the child waits");
            replies.recv().expect("the child answers");
        }
        let used = only.used().expect("it lives").since(before);
        assert!(used.voluntary_switches >= 20, "{used:?}");
        drop(request);
        child.join().expect("the child ends");
    }
}
