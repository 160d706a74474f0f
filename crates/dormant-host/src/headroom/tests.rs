//! On trees of files like those of real systems.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::*;

mod each;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// What version 1 shows where there is no limit.
const NONE: u64 = 9_223_372_036_854_771_712;

const V2: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const V1: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
    32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
    35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
    41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

/// The files of one group.
struct Group<'a>(&'a Fake, PathBuf);

/// A system's files, in a folder of their own.
struct Fake(tempfile::TempDir);

impl Fake {
    /// A machine with 64 GiB available of 100.
    fn new(groups: &str, mounts: &str) -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        fake.write("proc/self/cgroup", groups);
        fake.write("proc/self/mountinfo", mounts);
        fake.write("proc/meminfo", "MemTotal: 104857600 kB\nMemAvailable:   67108864 kB\n");
        fake
    }

    fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn group(&self, path: impl AsRef<Path>) -> Group<'_> {
        Group(self, path.as_ref().to_owned())
    }

    fn read(&self) -> Headroom {
        Headroom::read_at(self.0.path()).unwrap()
    }

    /// The limit that is reached first: its folder without the fake root, and its name.
    fn nearest(&self) -> (String, &'static str) {
        match self.read().source {
            HeadroomSource::Cgroup(limit) => {
                let folder = limit.folder.strip_prefix(self.0.path()).unwrap();
                (folder.display().to_string(), limit.name)
            }
            HeadroomSource::Machine { .. } => (String::new(), "machine"),
        }
    }
}

impl Group<'_> {
    fn file(&self, name: &str, value: impl ToString) -> &Self {
        self.0.write(self.1.join(name), value.to_string() + "\n");
        self
    }

    /// Version 2: a limit, what is used, and how much of that is page cache, a quarter of it active.
    fn v2(&self, max: impl ToString, current: u64, cache: u64) -> &Self {
        let (inactive, active) = (cache - cache / 4, cache / 4);
        let stat = format!("anon 5\nfile 7\ninactive_file {inactive}\nactive_file {active}");
        self.file("memory.max", max).file("memory.high", "max");
        self.file("memory.current", current).file("memory.stat", stat)
    }

    /// Version 1. What the group has without its children is not to be looked at.
    fn v1(&self, limit: u64, usage: u64, cache: u64) -> &Self {
        let (inactive, active) = (cache - cache / 4, cache / 4);
        let stat =
            format!("inactive_file 1\ntotal_inactive_file {inactive}\ntotal_active_file {active}");
        self.file("memory.limit_in_bytes", limit).file("memory.usage_in_bytes", usage);
        self.file("memory.stat", stat)
    }
}

#[test]
fn the_least_headroom_on_the_way_up_counts_and_not_the_least_limit() {
    let fake = Fake::new("0::/outer/inner\n", V2);
    fake.group("sys/fs/cgroup/outer/inner").v2(8 * GIB, 2 * GIB, GIB);
    fake.group("sys/fs/cgroup/outer").v2(32 * GIB, 30 * GIB, GIB);
    // A group beside ours has nothing to say.
    fake.group("sys/fs/cgroup/other").v2(MIB, MIB, 0);
    let headroom = fake.read();
    assert_eq!(headroom.bytes, 3 * GIB);
    assert_eq!(
        headroom.source,
        HeadroomSource::Cgroup(CgroupLimit {
            folder: fake.0.path().join("sys/fs/cgroup/outer"),
            id: Some(fake.id("sys/fs/cgroup/outer")),
            name: "memory.max",
            limit_bytes: 32 * GIB,
            current_bytes: 30 * GIB,
            reclaimable_bytes: GIB,
        })
    );
    fake.group("sys/fs/cgroup/outer/inner").v2(8 * GIB, 6 * GIB, GIB);
    assert_eq!(fake.nearest(), ("sys/fs/cgroup/outer/inner".to_owned(), "memory.max"));
}

#[test]
fn without_a_limit_the_machine_is_what_ends_it() {
    let fake = Fake::new("0::/a\n", V2);
    fake.group("sys/fs/cgroup/a").v2("max", 90 * GIB, 0);
    assert_eq!(fake.read().bytes, 64 * GIB);
    assert_eq!(fake.read().source, HeadroomSource::Machine { total_bytes: 100 * GIB });
}

#[test]
fn a_machine_with_less_than_the_group_may_take_is_what_ends_it() {
    let fake = Fake::new("0::/a\n", V2);
    fake.group("sys/fs/cgroup/a").v2(99 * GIB, GIB, 0);
    assert_eq!((fake.read().bytes, fake.nearest().1), (64 * GIB, "machine"));
    fake.group("sys/fs/cgroup/a").v2(64 * GIB, GIB, 0);
    assert_eq!((fake.read().bytes, fake.nearest().1), (63 * GIB, "memory.max"));
}

#[test]
fn a_page_cache_full_of_dirty_pages_is_headroom() {
    let fake = Fake::new("0::/a\n", V2);
    let group = fake.group("sys/fs/cgroup/a");
    let (inactive, dirty) = (7 * GIB, 7 * GIB);
    group.v2(8 * GIB, 8 * GIB, inactive);
    group.file("memory.stat", format!("file_dirty {dirty}\ninactive_file {inactive}"));
    assert_eq!(fake.read().bytes, 7 * GIB);
}

#[test]
fn the_limit_that_only_slows_counts_and_says_so() {
    let fake = Fake::new("0::/a\n", V2);
    fake.group("sys/fs/cgroup/a").v2(8 * GIB, 2 * GIB, 0).file("memory.high", 6 * GIB);
    let headroom = fake.read();
    assert_eq!((headroom.bytes, fake.nearest().1), (4 * GIB, "memory.high"));
    assert!(headroom.to_string().contains("before it is slowed down"), "{headroom}");
}

#[test]
fn a_group_over_its_limit_has_no_headroom() {
    let fake = Fake::new("0::/a\n", V2);
    fake.group("sys/fs/cgroup/a").v2(GIB, 2 * GIB, MIB);
    assert_eq!(fake.read().bytes, 0);
    // The two files are not read at the same moment.
    fake.group("sys/fs/cgroup/a").v2(GIB, MIB, 2 * MIB);
    assert_eq!(fake.read().bytes, GIB);
}

#[test]
fn version_1_is_read_also_beside_a_version_2_without_memory() {
    let fake = Fake::new("9:name=systemd:/\n4:memory:/a/b\n1:cpu:/\n0::/\n", V1);
    // Hybrid: the folder is there, without files for memory.
    fake.write("sys/fs/cgroup/unified/cgroup.procs", "1\n");
    // The other controllers have groups of the same name.
    fake.write("sys/fs/cgroup/cpu/a/b/cgroup.procs", "1\n");
    fake.group("sys/fs/cgroup/memory").v1(NONE, 80 * GIB, 0);
    fake.group("sys/fs/cgroup/memory/a").v1(16 * GIB, 10 * GIB, GIB);
    fake.group("sys/fs/cgroup/memory/a/b").v1(NONE, 9 * GIB, GIB);
    assert_eq!(fake.read().bytes, 7 * GIB);
    let nearest = "sys/fs/cgroup/memory/a".to_owned();
    assert_eq!(fake.nearest(), (nearest, "memory.limit_in_bytes"));
    // The largest number stands for no limit.
    fake.group("sys/fs/cgroup/memory/a").v1(NONE, 10 * GIB, GIB);
    std::fs::remove_file(fake.0.path().join("proc/meminfo")).unwrap();
    assert_eq!(Headroom::read_at(fake.0.path()), None);
}

#[test]
fn in_a_container_the_mount_shows_the_group_itself() {
    // Without a cgroup namespace the names are the host's.
    let mounts =
        "35 31 0:32 /docker/f0 /sys/fs/cgroup/memory ro master:9 - cgroup cgroup rw,memory\n";
    let fake = Fake::new("4:memory:/docker/f0\n", mounts);
    fake.group("sys/fs/cgroup/memory").v1(2 * GIB, GIB, 0);
    assert_eq!(fake.read().bytes, GIB);
    // A group that was made inside.
    fake.write("proc/self/cgroup", "4:memory:/docker/f0/job\n");
    fake.group("sys/fs/cgroup/memory/job").v1(2 * GIB, GIB + MIB, 0);
    assert_eq!(fake.read().bytes, GIB - MIB);
    // One that the mount does not show, and one outside of the namespace.
    for outside in ["4:memory:/kubepods/x\n", "4:memory:/../f1\n", "4:memory:/\n"] {
        fake.write("proc/self/cgroup", outside);
        assert_eq!(fake.nearest().0, "sys/fs/cgroup/memory");
    }
}

#[test]
fn a_group_that_is_not_below_the_mount_is_the_mount_itself() {
    let fake = Fake::new("0::/system.slice/docker-f0.scope\n", V2);
    fake.group("sys/fs/cgroup").v2(2 * GIB, GIB, 0);
    assert_eq!(fake.read().bytes, GIB);
    // A name may not lead out of the file system of the groups.
    fake.group("sys/fs").v2(MIB, MIB, 0);
    fake.write("proc/self/cgroup", "0::/..\n");
    assert_eq!(fake.nearest().0, "sys/fs/cgroup");
}

#[test]
fn of_several_mounts_the_one_that_shows_our_group_and_most_around_it_is_taken() {
    let mounts = "50 23 0:26 /other /mnt/other rw - cgroup2 none rw\n\
        51 23 0:26 /a/b /mnt/own rw - cgroup2 none rw\n\
        52 23 0:26 / /mnt/all rw - cgroup2 none rw\n";
    let fake = Fake::new("0::/a/b\n", mounts);
    fake.group("mnt/other").v2(MIB, MIB, 0);
    fake.group("mnt/own").v2(4 * GIB, GIB, 0);
    assert_eq!(fake.nearest().0, "mnt/own");
    fake.group("mnt/all/a/b").v2(4 * GIB, GIB, 0);
    fake.group("mnt/all/a").v2(4 * GIB, 2 * GIB, 0);
    assert_eq!(fake.nearest().0, "mnt/all/a");
}

#[test]
fn names_with_escapes_colons_and_bytes_that_are_no_text_are_followed() {
    let mounts = "29 23 0:26 /a\\134x2db /mnt/c\\040d rw - cgroup2  rw\n";
    let fake = Fake::new("0::/a\\x2db/e:f\n", mounts);
    fake.group("mnt/c d/e:f").v2(2 * GIB, GIB, 0);
    assert_eq!(fake.read().bytes, GIB);

    fake.write("proc/self/cgroup", b"0::/a\\x2db/\xff\n");
    fake.group(Path::new("mnt/c d").join(OsStr::from_bytes(b"\xff"))).v2(3 * GIB, GIB, 0);
    assert_eq!(fake.read().bytes, 2 * GIB);
}

#[test]
fn what_is_missing_is_skipped() {
    let fake = Fake::new("0::/a\n", V2);
    assert_eq!(fake.nearest().1, "machine");
    // A limit alone says nothing; without the statistics nothing counts as given back.
    let group = fake.group("sys/fs/cgroup/a");
    group.file("memory.max", 2 * GIB);
    assert_eq!(fake.nearest().1, "machine");
    group.file("memory.current", GIB);
    assert_eq!(fake.read().bytes, GIB);

    std::fs::remove_file(fake.0.path().join("proc/meminfo")).unwrap();
    assert_eq!(fake.read().bytes, GIB);
    for file in ["mountinfo", "cgroup"] {
        std::fs::remove_file(fake.0.path().join("proc/self").join(file)).unwrap();
        assert_eq!(Headroom::read_at(fake.0.path()), None);
    }
}

#[test]
fn garbage_is_skipped() {
    let garbage: [&[u8]; 9] =
        [b"", b"\n\n", b"-", b" - - - - ", b"::", b"0::", b"\xff\xfe\x00", b"max max", b"-1\n"];
    let fake = Fake::new("0::/a\n", V2);
    let files = ["proc/self/cgroup", "proc/self/mountinfo", "proc/meminfo"];
    let own = ["memory.max", "memory.high", "memory.current", "memory.stat"];
    let own = own.map(|name| format!("sys/fs/cgroup/a/{name}"));
    for file in files.into_iter().chain(own.iter().map(String::as_str)) {
        for text in garbage {
            let fake = Fake::new("0::/a\n", V2);
            fake.group("sys/fs/cgroup/a").v2(2 * GIB, GIB, MIB);
            fake.write(file, text);
            assert!(Headroom::read_at(fake.0.path()).is_some(), "{file} {text:?}");
        }
    }
    // Odd lines hide none of the good ones, and huge numbers do not wrap.
    let odd = "\\ \\9 \\400\nx y z\n29 23 0:26\n29 23 0:26 / /x rw - cgroup2\n";
    fake.write("proc/self/mountinfo", odd.to_owned() + V2);
    fake.write("proc/self/cgroup", "memory\n7:\n::\n0::/a\n");
    fake.group("sys/fs/cgroup/a").v2(2 * GIB, u64::MAX, u64::MAX - GIB);
    fake.write("proc/meminfo", format!("MemTotal: x kB\nMemAvailable: {} kB\n", u64::MAX));
    assert_eq!(fake.read().bytes, GIB);
}

#[test]
fn the_sentence_has_the_numbers() {
    let fake = Fake::new("0::/x\n", V2);
    fake.group("sys/fs/cgroup/x").v2(64 * GIB, 60 * GIB, 2 * GIB);
    let text = fake.read().to_string().replace(&fake.0.path().display().to_string(), "");
    assert_eq!(
        text,
        "6.00 GiB of host memory can still be taken: the container (cgroup /sys/fs/cgroup/x) may \
         use 64.00 GiB (memory.max), and uses 60.00 GiB, of which 2.00 GiB of page cache can be \
         given back"
    );
    fake.group("sys/fs/cgroup/x").v2("max", 0, 0);
    assert_eq!(
        fake.read().to_string(),
        "64.00 GiB of host memory can still be taken: the machine has no more available of its \
         100.00 GiB"
    );
    assert_eq!(Size(1023).to_string(), "1023 B");
    assert_eq!(Size(2 * MIB - 1).to_string(), "1.99 MiB");
}
