//! Each limit for itself, the groups that a process is in, and the system that this runs on.

use std::os::unix::fs::MetadataExt;

use super::*;

impl Fake {
    pub(super) fn id(&self, path: &str) -> u64 {
        std::fs::metadata(self.0.path().join(path)).unwrap().ino()
    }
}

/// The folders, names and ids of all limits.
fn limits(fake: &Fake) -> Vec<(String, &'static str, Option<u64>)> {
    let all = Headroom::read_all_at(fake.0.path());
    let limits = all.into_iter().filter_map(|headroom| match headroom.source {
        HeadroomSource::Cgroup(limit) => Some(limit),
        HeadroomSource::Machine { .. } => None,
    });
    let text = |limit: CgroupLimit| {
        let folder = limit.folder.strip_prefix(fake.0.path().join("sys/fs/cgroup")).unwrap();
        (folder.display().to_string(), limit.name, limit.id)
    };
    limits.map(text).collect()
}

#[test]
fn every_limit_is_read_from_the_nearest_outwards_and_the_machine_last() {
    let fake = Fake::new("0::/a/b\n", V2);
    fake.group("sys/fs/cgroup/a/b").v2(8 * GIB, 2 * GIB, GIB);
    fake.group("sys/fs/cgroup/a").v2(6 * GIB, 2 * GIB, GIB).file("memory.high", 5 * GIB);
    let all = Headroom::read_all_at(fake.0.path());
    let bytes: Vec<u64> = all.iter().map(|headroom| headroom.bytes).collect();
    assert_eq!(bytes, [7 * GIB, 5 * GIB, 4 * GIB, 64 * GIB]);
    assert!(matches!(all[3].source, HeadroomSource::Machine { .. }));
    assert_eq!(all[2], fake.read(), "the least of all is the one that is read");
    let [inner, outer] = ["a/b", "a"].map(|group| {
        (group.to_owned(), "memory.max", Some(fake.id(&format!("sys/fs/cgroup/{group}"))))
    });
    let high = (outer.0.clone(), "memory.high", outer.2);
    assert_eq!(limits(&fake), [inner, outer, high]);
}

#[test]
fn a_limit_of_a_group_that_is_not_visible_has_no_id_and_is_not_read_twice() {
    let mounts = "35 31 0:32 /pod/f0 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
    let fake = Fake::new("4:memory:/pod/f0\n", mounts);
    let group = fake.group("sys/fs/cgroup/memory");
    for (least, outside) in [(8 * GIB, true), (9 * GIB, false)] {
        group.v1(9 * GIB, 3 * GIB, 0);
        group.file("memory.stat", format!("hierarchical_memory_limit {least}"));
        let id = Some(fake.id("sys/fs/cgroup/memory"));
        let own = ("memory".to_owned(), "memory.limit_in_bytes", id);
        let hidden = ("memory".to_owned(), "hierarchical_memory_limit", None);
        let expected: Vec<_> = [own].into_iter().chain(outside.then_some(hidden)).collect();
        assert_eq!(limits(&fake), expected);
    }
}

#[test]
fn a_process_is_in_its_group_and_in_all_around_it_with_or_without_limits() {
    let fake = Fake::new("4:memory:/a/b\n0::/c\n", V1);
    for folder in ["memory/a/b", "unified/c"] {
        fake.write(format!("sys/fs/cgroup/{folder}/cgroup.procs"), "1\n");
    }
    // Version 2 has no memory here, and other numbers.
    let ids =
        ["memory/a/b", "memory/a", "memory"].map(|at| fake.id(&format!("sys/fs/cgroup/{at}")));
    assert_eq!(cgroup::groups(fake.0.path()), ids);
    let alone = Fake::new("0::/c\n", V2);
    alone.write("sys/fs/cgroup/c/cgroup.procs", "1\n");
    let ids = ["/c", ""].map(|at| alone.id(&format!("sys/fs/cgroup{at}")));
    assert_eq!(cgroup::groups(alone.0.path()), ids);
}

#[test]
fn this_process_is_in_the_groups_that_it_has_limits_of() {
    let groups = groups();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!groups.is_empty() || !mounts.contains(" - cgroup"));
    for headroom in Headroom::read_all() {
        if let HeadroomSource::Cgroup(CgroupLimit { id: Some(id), .. }) = headroom.source {
            assert!(groups.contains(&id));
        }
    }
}

#[test]
fn version_1_names_the_limits_of_groups_that_are_not_visible() {
    let mounts = "35 31 0:32 /pod/f0 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
    let fake = Fake::new("4:memory:/pod/f0\n", mounts);
    let group = fake.group("sys/fs/cgroup/memory");
    group.v1(NONE, 3 * GIB, 0);
    let stat = format!("hierarchical_memory_limit {}\ntotal_inactive_file {GIB}", 8 * GIB);
    group.file("memory.stat", stat);
    assert_eq!((fake.read().bytes, fake.nearest().1), (6 * GIB, "hierarchical_memory_limit"));
}

#[test]
fn version_1_counts_memory_with_swap_where_that_is_nearer() {
    let fake = Fake::new("4:cpu,memory:/a\n", V1);
    let group = fake.group("sys/fs/cgroup/memory/a");
    group.v1(8 * GIB, 4 * GIB, GIB);
    group.file("memory.memsw.limit_in_bytes", 8 * GIB);
    group.file("memory.memsw.usage_in_bytes", 7 * GIB);
    assert_eq!((fake.read().bytes, fake.nearest().1), (2 * GIB, "memory.memsw.limit_in_bytes"));
}

#[test]
fn this_system_has_some_headroom_and_no_more_than_its_memory() {
    let headroom = Headroom::read().expect("a system with /proc/meminfo");
    let meminfo = files::read(Path::new("/proc/meminfo")).unwrap();
    let total = files::value_of(&meminfo, b"MemTotal:").unwrap() * 1024;
    assert!((1..=total).contains(&headroom.bytes), "{headroom}");
}
