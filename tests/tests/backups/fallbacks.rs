//! What works less well than it could is said once.

use dormant_engine::{Allocation, HostMode, Notice, Policy, PrepareOptions};
use dormant_sim::Fault;

use crate::support::{ZERO, expect_pattern, filled, pause, resume};
use crate::{MIB, device, engine, engine_on, host};

#[test]
fn refused_registration_is_said_once_and_every_mode_works_without_it() {
    for mode in [HostMode::Reclaim, HostMode::Retain, HostMode::Auto] {
        let refusing = device().fault(Fault::RefuseHostRegistration);
        let engine = engine_on(refusing, mode, |_| ());
        let block = filled(&engine, &host("w", 9 * MIB), 9 * MIB, 1);
        if mode == HostMode::Retain {
            let prepared = engine.prepare("w", &PrepareOptions::default()).unwrap();
            assert_eq!((prepared.bytes, prepared.registered), (9 * MIB, false));
        }
        let said = pause(&engine, "w").notices;
        assert!(said.contains(&Notice::RegistrationRefused), "{said:?}");
        assert!(resume(&engine, "w").notices.is_empty());
        for _ in 0..3 {
            assert!(pause(&engine, "w").notices.is_empty());
            resume(&engine, "w");
        }
        expect_pattern(&engine, block, 9 * MIB, 1);
    }
}

#[test]
fn a_directory_in_memory_is_said_once() {
    let shm = tempfile::tempdir_in("/dev/shm").unwrap();
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let engine = engine(HostMode::Reclaim, |_| ());
    let block = |tag: &str, directory: &std::path::Path| {
        let allocation = Allocation::new(MIB, ZERO).tag(tag).policy(Policy::Disk);
        filled(&engine, &allocation.directory(directory), MIB, 1)
    };
    let blocks = [block("disk", disk.path()), block("memory", shm.path())];
    assert!(!pause(&engine, "disk").notices.contains(&Notice::DiskInMemory));
    assert_eq!(pause(&engine, "memory").notices, [Notice::DiskInMemory]);
    resume(&engine, "memory");
    assert!(pause(&engine, "memory").notices.is_empty());
    resume(&engine, dormant_engine::Selection::All);
    blocks.iter().for_each(|block| expect_pattern(&engine, *block, MIB, 1));
}

crate::child::in_its_own_process! {
    /// As in an ordinary pod: not root, no huge pages, and little memory may be locked.
    fn without_huge_pages_and_locked_memory_all_works_and_is_said_once() {
        let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
        // SAFETY: `limit` is a valid limit; this process runs this one test.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) }, 0);
        // SAFETY: this request takes no pointers.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) }, 0);
        // SAFETY: asks who we are.
        if unsafe { libc::geteuid() } == 0 {
            // SAFETY: changes this process alone, which runs this one test.
            assert_eq!(unsafe { libc::setgid(1000) }, 0);
            // SAFETY: as above.
            assert_eq!(unsafe { libc::setuid(1000) }, 0);
        }
        let refusing = device().fault(Fault::RefuseHostRegistration);
        let engine = engine_on(refusing, HostMode::Auto, |_| ());
        let blocks = [Policy::Host, Policy::Disk, Policy::Zero].map(|policy| {
            filled(&engine, &host("w", 20 * MIB).policy(policy), 20 * MIB, 1)
        });
        let mut said = pause(&engine, "w").notices;
        said.retain(|notice| *notice != Notice::DiskInMemory);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said.contains(&Notice::HugePagesOff) && said.contains(&Notice::RegistrationRefused));
        resume(&engine, "w");
        assert!(pause(&engine, "w").notices.is_empty());
        resume(&engine, "w");
        expect_pattern(&engine, blocks[0], 20 * MIB, 1);
        expect_pattern(&engine, blocks[1], 20 * MIB, 1);
    }
}
