//! Many blocks, a process that is killed, and one that forks.

use std::io::{BufRead, BufReader, Write};
use std::mem::ManuallyDrop;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use dormant_engine::{Config, Engine};
use dormant_sim::Sim;

use crate::child::in_its_own_process;
use crate::support::{
    GRANULE, ONE, ZERO, engine_over, expect_pattern, pause, resume, small, until,
};
use crate::{filled, names_in, open_files};

in_its_own_process! {
    /// F20: a rank of a job that keeps thousands of tensors on disk.
    fn two_thousand_blocks_take_two_files_of_a_directory_that_was_removed_and_made_again() {
        let above = tempfile::tempdir().unwrap();
        let directory = above.path().join("rank 0");
        std::fs::create_dir(&directory).unwrap();
        let limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
        // SAFETY: `limit` is a valid limit; this process runs this one test.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        let sim = Arc::new(Sim::new(small().capacity_bytes(1000 * GRANULE)).unwrap());
        let mut settings = Config::default();
        settings.workers = Some(16);
        settings.disk_keep_bytes = Some(0);
        settings.idle_timeout = Duration::from_secs(600);
        let engine = Engine::new(Arc::clone(&sim), settings);
        let blocks: Vec<_> = (0..2000_u64)
            .map(|index| {
                let device = if index % 2 == 0 { ZERO } else { ONE };
                let seed = u8::try_from(index % 251).unwrap();
                let bytes = GRANULE - index;
                (filled(&engine, "w", device, bytes, seed, &directory), bytes, seed)
            })
            .collect();
        std::fs::remove_dir(&directory).unwrap();
        for round in 0..10 {
            if round == 3 {
                std::fs::remove_dir(&directory).unwrap();
                std::fs::create_dir(&directory).unwrap();
            }
            let report = pause(&engine, "w");
            assert_eq!((report.moved().blocks, report.copied().blocks), (2000, 2000));
            assert_eq!(open_files("self", &directory).len(), 2, "one for each device");
            assert_eq!(resume(&engine, "w").copied().blocks, 2000);
            assert!(sim.registered_bytes() <= 64 << 20, "{} of staging", sim.registered_bytes());
            // Ten rounds are only as good as what the last one brings back.
            let looked_at = if round % 3 == 0 { &blocks[..] } else { &blocks[..50] };
            for (address, bytes, seed) in looked_at {
                expect_pattern(&engine, *address, *bytes, *seed);
            }
        }
        until("the files are closed", || open_files("self", &directory).is_empty());
        assert_eq!(names_in(&directory), 0);
    }
}

const KILLED: &str = "DORMANT_TEST_KILLED";

#[test]
fn nothing_is_left_of_a_process_that_is_killed_while_its_blocks_sleep() {
    if let Some(directory) = std::env::var_os(KILLED) {
        let (_sim, engine) = engine_over(small());
        filled(&engine, "w", ZERO, 10 * GRANULE, 1, directory.as_ref());
        pause(&engine, "w");
        writeln!(std::io::stdout(), "\nasleep").unwrap();
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let name = "processes::nothing_is_left_of_a_process_that_is_killed_while_its_blocks_sleep";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(KILLED, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let asleep = lines.map_while(Result::ok).any(|line| line == "asleep");
    let open = open_files(&child.id().to_string(), directory.path()).len();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(asleep, "the child did not come so far");
    assert_eq!(open, 1);
    assert_eq!(names_in(directory.path()), 0);
}

#[test]
fn a_forked_child_that_drops_everything_leaves_its_parents_file_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (_sim, engine) = engine_over(small());
    let address = filled(&engine, "w", ZERO, 10 * GRANULE, 1, directory.path());
    pause(&engine, "w");
    let engine = ManuallyDrop::new(engine);
    // SAFETY: the child takes no lock that another thread may hold, and calls nobody's code.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = i32::from(engine.backup(address).is_ok());
        drop(ManuallyDrop::into_inner(engine));
        // SAFETY: ends the child at once, without its parent's exit handlers.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: the child is ours, and `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    let engine = ManuallyDrop::into_inner(engine);
    resume(&engine, "w");
    expect_pattern(&engine, address, 10 * GRANULE, 1);
}

#[test]
fn an_engine_that_is_dropped_closes_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let (_sim, engine) = engine_over(small());
    filled(&engine, "w", ZERO, GRANULE, 1, directory.path());
    pause(&engine, "w");
    assert_eq!(open_files("self", directory.path()).len(), 1);
    drop(engine);
    assert!(open_files("self", directory.path()).is_empty());
}
