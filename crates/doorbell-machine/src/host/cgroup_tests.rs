//! Quotas from sample texts.

use super::{cpu_max, quota_cpus, quota_of};
use std::path::Path;

const TWO: &str =
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const ONE: &str = "\
    33 32 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
    34 32 0:31 / /sys/fs/cgroup/cpuset rw shared:10 - cgroup cgroup rw,cpuset\n";

/// The quota if only these files can be read.
fn quota(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<usize> {
    quota_of(groups, mounts, |path: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, text)| (*text).to_owned())
    })
}

#[test]
fn a_line_of_version_two() {
    for (text, cpus) in [
        ("max 100000\n", None),
        ("100000 100000\n", Some(1)),
        ("150000 100000\n", Some(2)),
        ("200000 100000", Some(2)),
        ("200001 100000", Some(3)),
        ("1000 100000", Some(1)),
        ("0 100000", Some(1)),
        ("18446744073709551615 1", Some(usize::MAX)),
    ] {
        assert_eq!(cpu_max(text), cpus, "{text:?}");
    }
    for garbage in [
        "",
        "\n",
        "100000",
        "x y",
        "-1 100000",
        "100000 0",
        "1e5 100000",
        "9 -9",
    ] {
        assert_eq!(cpu_max(garbage), None, "{garbage:?}");
    }
}

#[test]
fn the_least_of_all_nested_groups_counts() {
    let groups = "0::/shop/web/worker\n";
    let files = [
        ("/sys/fs/cgroup/shop/web/worker/cpu.max", "800000 100000\n"),
        ("/sys/fs/cgroup/shop/web/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/shop/cpu.max", "250000 100000\n"),
    ];
    assert_eq!(quota(groups, TWO, &files), Some(3));
    assert_eq!(quota(groups, TWO, &files[..2]), Some(8));
    assert_eq!(quota(groups, TWO, &files[1..2]), None);
    let below = [("/sys/fs/cgroup/shop/web/worker/more/cpu.max", "1 1")];
    assert_eq!(quota(groups, TWO, &below), None, "not one of ours");
}

#[test]
fn the_mount_itself_is_looked_at_and_nothing_above_it() {
    let files = [
        ("/sys/fs/cgroup/cpu.max", "300000 100000\n"),
        ("/sys/fs/cpu.max", "100000 100000\n"),
        ("/cpu.max", "100000 100000\n"),
    ];
    assert_eq!(quota("0::/\n", TWO, &files), Some(3));
    assert_eq!(quota("0::/deep/down\n", TWO, &files), Some(3));
}

#[test]
fn version_one_has_two_files() {
    let groups = "9:name=systemd:/\n4:cpuset:/a\n3:cpu,cpuacct:/a/b\n";
    let folder = "/sys/fs/cgroup/cpu,cpuacct";
    let with = |quota_us: &str, period_us: &str| {
        let names =
            ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map(|name| format!("{folder}/a/{name}"));
        let files = [(&*names[0], quota_us), (&*names[1], period_us)];
        quota(groups, ONE, &files)
    };
    assert_eq!(with("250000\n", "100000\n"), Some(3));
    assert_eq!(with("-1\n", "100000\n"), None);
    assert_eq!(with("250000\n", ""), None);
    assert_eq!(with("250000\n", "0\n"), None);
}

#[test]
fn where_both_versions_are_mounted_the_lesser_quota_counts() {
    let both = format!("{ONE}{TWO}");
    let groups = "3:cpu,cpuacct:/a\n0::/a\n";
    let files = [
        ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "400000"),
        ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000"),
        ("/sys/fs/cgroup/a/cpu.max", "200000 100000"),
    ];
    assert_eq!(quota(groups, &both, &files), Some(2));
    assert_eq!(quota(groups, &both, &files[..2]), Some(4));
}

#[test]
fn a_container_sees_its_own_group_at_the_mount() {
    // The paths in /proc are the host's, and the mount shows a part of them.
    let mounts = "30 24 0:26 /pod/box /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
    let own = [("/sys/fs/cgroup/cpu.max", "200000 100000")];
    assert_eq!(quota("0::/pod/box\n", mounts, &own), Some(2));
    let inner = [("/sys/fs/cgroup/job/cpu.max", "100000 100000")];
    assert_eq!(quota("0::/pod/box/job\n", mounts, &inner), Some(1));
    assert_eq!(quota("0::/elsewhere\n", mounts, &own), Some(2));
    // A cgroup above the root of the namespace.
    assert_eq!(quota("0::/../../other\n", TWO, &own), Some(2));
}

#[test]
fn blanks_in_paths_are_written_as_numbers() {
    let mounts = r"30 24 0:26 / /mnt/my\040groups rw - cgroup2 none rw";
    let files = [("/mnt/my groups/a b/cpu.max", "100000 100000")];
    assert_eq!(quota("0::/a b\n", mounts, &files), Some(1));
}

#[test]
fn what_is_missing_or_garbage_is_no_quota() {
    let files = [("/sys/fs/cgroup/a/cpu.max", "100000 100000")];
    for groups in [
        "",
        "\n",
        "garbage",
        "0:",
        "0::",
        "1:memory:/a",
        ":::",
        "0:cpuset:/a",
    ] {
        assert_eq!(quota(groups, TWO, &files), None, "{groups:?}");
    }
    for mounts in [
        "",
        "garbage",
        "30 24 - cgroup2",
        "a b c d e - ext4 x rw,cpu",
        " - ",
    ] {
        assert_eq!(quota("0::/a", mounts, &files), None, "{mounts:?}");
    }
    let garbage = [("/sys/fs/cgroup/a/cpu.max", "\u{1f514} max")];
    assert_eq!(quota("0::/a", TWO, &garbage), None);
}

#[test]
fn this_machine_can_be_asked() {
    assert!(quota_cpus().is_none_or(|cpus| cpus >= 1));
}
