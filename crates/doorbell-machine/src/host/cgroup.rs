//! How much CPU time the process's control groups (cgroups) allow it.
//!
//! A quota bounds the CPU time that all threads of a cgroup get in each period: `200000 100000` allows two
//! CPUs. The quotas of all cgroups above apply too, so the least of them counts. Version 2 has the quota in
//! `cpu.max`, version 1 in two files. A file that is missing or cannot be read counts as no quota.
//!
//! Source: the kernel's `Documentation/admin-guide/cgroup-v2.rst` and
//! `Documentation/scheduler/sched-bwc.rst`; `proc_pid_mountinfo(5)`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// How many CPUs' worth of time this process may use; `None` if no quota bounds it.
pub(super) fn quota_cpus() -> Option<usize> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    quota_of(&groups, &mounts, |file| std::fs::read_to_string(file).ok())
}

/// The least quota of the process's cgroups and all cgroups above them, in CPUs, rounded up.
///
/// `groups` is the text of /proc/self/cgroup, `mounts` that of /proc/self/mountinfo, and `read` reads a file.
fn quota_of(groups: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<usize> {
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::of).collect();
    let mut least: Option<usize> = None;
    for (version, path) in groups.lines().filter_map(group_of) {
        for mount in mounts.iter().filter(|mount| mount.version == version) {
            let group = mount.folder_of(path);
            for folder in group.ancestors() {
                let quota = match version {
                    Version::One => one(folder, &read),
                    Version::Two => read(&folder.join("cpu.max")).and_then(|text| cpu_max(&text)),
                };
                least = least.into_iter().chain(quota).min();
                if folder == mount.point {
                    break;
                }
            }
        }
    }
    least
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The version and path of a line of /proc/self/cgroup, if its hierarchy bounds CPU time.
fn group_of(line: &str) -> Option<(Version, &str)> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    if number == "0" && controllers.is_empty() {
        Some((Version::Two, path))
    } else if controllers.split(',').any(|name| name == "cpu") {
        Some((Version::One, path))
    } else {
        None
    }
}

/// A mount of a hierarchy that bounds CPU time.
#[derive(Debug)]
struct Mount {
    version: Version,
    /// The cgroup whose folder is mounted at `point`.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// Parses a line of /proc/self/mountinfo; `None` for other mounts.
    fn of(line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1).unwrap_or_default());
        let version = match kind {
            "cgroup2" => Version::Two,
            "cgroup" if options.split(',').any(|name| name == "cpu") => Version::One,
            _ => return None,
        };
        Some(Mount {
            version,
            root: unescaped(root),
            point: unescaped(point),
        })
    }

    /// The folder of a cgroup. If the cgroup lies outside of the mount, as in a container whose /proc shows
    /// the host's paths, the folder is the mount point.
    fn folder_of(&self, group: &str) -> PathBuf {
        let inside = Path::new(group).strip_prefix(&self.root).ok();
        let seen = inside.filter(|inside| {
            let mut parts = inside.components();
            parts.all(|part| matches!(part, std::path::Component::Normal(_)))
        });
        match seen {
            // Joining nothing would add a slash.
            Some(inside) if inside.as_os_str().is_empty() => self.point.clone(),
            Some(inside) => self.point.join(inside),
            None => self.point.clone(),
        }
    }
}

/// Decodes a path of mountinfo, which has octal codes such as `\040` for blanks and backslashes.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..3).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match code {
            Some(code) if byte == b'\\' => {
                bytes.push(code);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// The quota of version 2: `cpu.max` holds `QUOTA PERIOD` or `max PERIOD`, in microseconds.
fn cpu_max(text: &str) -> Option<usize> {
    let mut words = text.split_whitespace();
    let (quota, period) = (words.next()?, words.next()?);
    cpus(quota.parse().ok()?, period.parse().ok()?)
}

/// The quota of version 1: quota and period have a file each, in microseconds; a quota of -1 means none.
fn one(folder: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<usize> {
    let number = |name| read(&folder.join(name))?.trim().parse::<u64>().ok();
    cpus(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

/// A quota in CPUs, rounded up, at least one.
fn cpus(quota_us: u64, period_us: u64) -> Option<usize> {
    if period_us == 0 {
        return None;
    }
    let cpus = quota_us.div_ceil(period_us).max(1);
    Some(usize::try_from(cpus).unwrap_or(usize::MAX))
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
