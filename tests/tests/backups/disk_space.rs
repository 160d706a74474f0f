//! Disk space that is kept for the next pause.

use std::path::Path;

use dormant_engine::{Allocation, Config, Engine, HostMode, Policy};
use dormant_sim::Sim;

use crate::support::{ZERO, expect_pattern, filled, pause, resume, until};
use crate::{MIB, engine};

fn keeping(directory: &Path, keep: Option<u64>) -> (Engine<Sim>, dormant_engine::Address) {
    let engine = engine(HostMode::Reclaim, |config: &mut Config| {
        config.disk_directory = Some(directory.to_owned());
        config.disk_keep_bytes = keep;
    });
    let allocation = Allocation::new(9 * MIB, ZERO).tag("w").policy(Policy::Disk);
    let block = filled(&engine, &allocation, 9 * MIB, 1);
    (engine, block)
}

#[test]
fn space_is_kept_up_to_a_limit_until_it_is_trimmed() {
    for (limit, kept) in [(None, 9 * MIB), (Some(4 * MIB), 4 * MIB), (Some(0), 0)] {
        let directory = tempfile::tempdir().unwrap();
        let (engine, block) = keeping(directory.path(), limit);
        for _ in 0..3 {
            pause(&engine, "w");
            assert_eq!(engine.stats().disk_file_bytes, 9 * MIB);
            assert_eq!(engine.stats().disk_backup_bytes, 9 * MIB);
            resume(&engine, "w");
            until("the backup is gone", || engine.stats().disk_backup_bytes == 0);
            assert_eq!(engine.stats().disk_file_bytes, kept, "{limit:?}");
            expect_pattern(&engine, block, 9 * MIB, 1);
        }
        engine.trim();
        assert_eq!(engine.stats().disk_file_bytes, 0);
        pause(&engine, "w");
        engine.trim();
        assert_eq!(engine.stats().disk_file_bytes, 9 * MIB, "a backup is in it");
        resume(&engine, "w");
        expect_pattern(&engine, block, 9 * MIB, 1);
    }
}

#[test]
fn a_file_that_is_kept_is_closed_when_its_directory_is_elsewhere_by_now() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("inside");
    let (engine, block) = keeping(&inside, None);
    pause(&engine, "w");
    resume(&engine, "w");
    until("the backup is gone", || engine.stats().disk_backup_bytes == 0);
    std::fs::remove_dir(&inside).unwrap();
    std::os::unix::fs::symlink("/dev/shm", &inside).unwrap();
    pause(&engine, "w");
    assert_eq!(engine.stats().disk_file_bytes, 9 * MIB, "of the new file alone");
    resume(&engine, "w");
    expect_pattern(&engine, block, 9 * MIB, 1);
}
