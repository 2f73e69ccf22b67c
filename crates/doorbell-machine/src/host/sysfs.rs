//! The topology, read from /sys.

use crate::topology::parse_cpu_list;
use crate::{Cpu, Topology};
use std::path::Path;

/// Reads below `sys` what `cpus` share. A part whose files are missing or unreadable is flat, and is named in
/// [`Topology::unknown`].
pub(super) fn topology(sys: &Path, cpus: &[usize]) -> Topology {
    let mut unknown = Vec::new();
    let mut found: Vec<Cpu> = cpus.iter().map(|&os_id| Cpu::flat(os_id)).collect();
    for cpu in &mut found {
        let dir = sys.join(format!("devices/system/cpu/cpu{}", cpu.os_id));
        match first_of(&dir.join("topology/thread_siblings_list")) {
            Some(first) => cpu.smt = first,
            None => note(&mut unknown, "SMT siblings (topology/thread_siblings_list)"),
        }
        match last_level_cache(&dir.join("cache")) {
            Some(first) => cpu.llc = first,
            None => note(
                &mut unknown,
                "last-level caches (cache/index*/shared_cpu_list)",
            ),
        }
    }
    if !read_nodes(sys, &mut found) {
        note(
            &mut unknown,
            "NUMA nodes (devices/system/node/node*/cpulist)",
        );
    }
    Topology {
        cpus: found,
        unknown,
    }
}

/// How many CPUs are online; `None` if that cannot be read.
pub(super) fn online_cpus(sys: &Path) -> Option<usize> {
    let text = std::fs::read_to_string(sys.join("devices/system/cpu/online")).ok()?;
    parse_cpu_list(&text).map(|cpus| cpus.len())
}

fn note(unknown: &mut Vec<String>, what: &str) {
    if !unknown.iter().any(|known| known == what) {
        unknown.push(what.to_owned());
    }
}

/// The lowest CPU of the list in a file. It stands for the set.
fn first_of(file: &Path) -> Option<usize> {
    let text = std::fs::read_to_string(file).ok()?;
    parse_cpu_list(&text)?.into_iter().min()
}

/// The lowest CPU of the set that shares the highest-level cache.
fn last_level_cache(dir: &Path) -> Option<usize> {
    let mut best: Option<(u32, usize)> = None;
    for entry in std::fs::read_dir(dir).ok()?.flatten() {
        let level = std::fs::read_to_string(entry.path().join("level"))
            .ok()
            .and_then(|text| text.trim().parse().ok());
        if let (Some(level), Some(first)) = (level, first_of(&entry.path().join("shared_cpu_list")))
            && best.is_none_or(|(highest, _)| level > highest)
        {
            best = Some((level, first));
        }
    }
    best.map(|(_, first)| first)
}

fn read_nodes(sys: &Path, cpus: &mut [Cpu]) -> bool {
    let Ok(entries) = std::fs::read_dir(sys.join("devices/system/node")) else {
        return false;
    };
    let mut any = false;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|n| n.strip_prefix("node")?.parse().ok());
        let list = std::fs::read_to_string(entry.path().join("cpulist"))
            .ok()
            .and_then(|text| parse_cpu_list(&text));
        if let (Some(node), Some(list)) = (number, list) {
            any = true;
            for cpu in cpus.iter_mut().filter(|cpu| list.contains(&cpu.os_id)) {
                cpu.node = node;
            }
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::{online_cpus, topology};
    use std::path::{Path, PathBuf};

    /// A small directory like /sys for one test, removed at the end.
    struct Sys(PathBuf);

    impl Sys {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("doorbell-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Sys(dir)
        }
        fn file(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    impl Drop for Sys {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn siblings_caches_and_nodes_are_read() {
        let sys = Sys::new("full");
        for cpu in 0..4usize {
            let dir = format!("devices/system/cpu/cpu{cpu}");
            let pair = [0, 2][cpu / 2];
            sys.file(
                &format!("{dir}/topology/thread_siblings_list"),
                &format!("{pair}-{}\n", pair + 1),
            );
            sys.file(&format!("{dir}/cache/index0/level"), "1\n");
            sys.file(
                &format!("{dir}/cache/index0/shared_cpu_list"),
                &format!("{cpu}\n"),
            );
            sys.file(&format!("{dir}/cache/index3/level"), "3\n");
            sys.file(&format!("{dir}/cache/index3/shared_cpu_list"), "0-3\n");
        }
        sys.file("devices/system/node/node0/cpulist", "0-1\n");
        sys.file("devices/system/node/node1/cpulist", "2-3\n");
        let found = topology(&sys.0, &[0, 3]);
        let of = |os_id| found.cpu(os_id).map(|c| (c.smt, c.llc, c.node));
        assert_eq!(of(0), Some((0, 0, 0)));
        assert_eq!(of(3), Some((2, 0, 1)));
        assert!(found.unknown.is_empty(), "{:?}", found.unknown);
        assert_eq!(online_cpus(&sys.0), None);
        sys.file("devices/system/cpu/online", "0-3\n");
        assert_eq!(online_cpus(&sys.0), Some(4));
    }

    #[test]
    fn missing_files_make_it_flat_and_are_named() {
        let found = topology(Path::new("/nonexistent"), &[1, 5]);
        assert_eq!(found.cpus.len(), 2);
        assert_eq!(
            found.cpu(5).map(|c| (c.smt, c.llc, c.node)),
            Some((5, 0, 0))
        );
        assert_eq!(
            found.unknown.len(),
            3,
            "each missing part once: {:?}",
            found.unknown
        );
    }

    #[test]
    fn this_machine_can_be_read() {
        let here = <super::super::Host as crate::Machine>::topology();
        assert!(!here.cpus.is_empty());
    }
}
