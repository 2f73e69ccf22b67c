//! The resource use of another process, from its clock and `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::threads::count_of;
use crate::error::{LabError, last_system_error};

/// A process of the same user, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(pub(crate) u32);

/// How often each thread of a process has left a CPU to wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Switches(BTreeMap<String, u64>);

impl Process {
    /// The CPU time of its threads, including those that have ended.
    ///
    /// # Errors
    /// [`LabError::System`] if there is no such process.
    pub(crate) fn cpu(self) -> Result<Duration, LabError> {
        let mut clock: libc::clockid_t = 0;
        // SAFETY: the pointer is valid for writing one clock id, and the call writes nothing else.
        let status = unsafe { libc::clock_getcpuclockid(self.0.cast_signed(), &raw mut clock) };
        if status != 0 {
            return Err(LabError::System {
                what: "clock_getcpuclockid",
                source: std::io::Error::from_raw_os_error(status),
            });
        }
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is valid for writing one `timespec`, and the call writes nothing else.
        if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
            return Err(last_system_error("clock_gettime of another process"));
        }
        Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// The size of its resident memory (Rss), in bytes.
    ///
    /// # Errors
    /// [`LabError::File`] if there is no such process.
    pub(crate) fn resident_bytes(self) -> Result<u64, LabError> {
        let path = self.path("smaps_rollup");
        let text = fs::read_to_string(&path).map_err(LabError::reading(path))?;
        Ok(1024 * count_of(&text, "Rss:"))
    }

    /// The number of its open descriptors.
    ///
    /// # Errors
    /// [`LabError::File`] if there is no such process.
    pub(crate) fn descriptors(self) -> Result<usize, LabError> {
        let path = self.path("fd");
        let entries = fs::read_dir(&path).map_err(LabError::reading(path))?;
        Ok(entries.count())
    }

    /// How often each of its threads has left a CPU to wait. Each time ends with a wake-up.
    ///
    /// # Errors
    /// [`LabError::File`] if there is no such process.
    pub(crate) fn switches(self) -> Result<Switches, LabError> {
        let folder = self.path("task");
        let entries = fs::read_dir(&folder).map_err(LabError::reading(folder))?;
        let mut all = BTreeMap::new();
        for entry in entries.flatten() {
            // A thread that ends meanwhile is skipped.
            if let Ok(status) = fs::read_to_string(entry.path().join("status")) {
                let thread = entry.file_name().to_string_lossy().into_owned();
                all.insert(thread, count_of(&status, "voluntary_ctxt_switches:"));
            }
        }
        Ok(Switches(all))
    }

    fn path(self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.0.to_string()).join(name)
    }
}

impl Switches {
    /// How often threads have left a CPU since `earlier`, summed over threads that still exist.
    pub(crate) fn since(&self, earlier: &Self) -> u64 {
        let each = self.0.iter();
        each.map(|(thread, now)| now - earlier.0.get(thread).copied().unwrap_or(0))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_one() {
        let this = Process(std::process::id());
        let before = this.cpu().expect("it runs");
        let _file = fs::File::open("/proc/self/stat").expect("proc is there");
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
        let of = |all: &[(&str, u64)]| {
            let all = all.iter();
            Switches(
                all.map(|(name, count)| ((*name).to_owned(), *count))
                    .collect(),
            )
        };
        let (before, after) = (of(&[("1", 5), ("2", 7)]), of(&[("1", 8), ("3", 2)]));
        assert_eq!(after.since(&before), 5);
    }
}
