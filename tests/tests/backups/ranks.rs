//! Eight processes in one container that has room for four backups.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dormant_engine::{HostMode, PauseOptions, ResumeOptions};

use crate::support::until;
use crate::{MIB, engine, host};

const RANKS: usize = 8;
const BYTES: u64 = 96 * MIB;
const MARGIN: u64 = 32 * MIB;
const PLACE: &str = "DORMANT_TEST_RANKS";
const RANK: &str = "DORMANT_TEST_RANK";
const KNOWN: &str = "DORMANT_TEST_RANKS_KNOWN";

/// A group of processes with a limit on their memory, as a container has one.
struct Group {
    folder: PathBuf,
    limit: &'static str,
    usage: &'static str,
}

impl Group {
    /// Below this process's own group, with version 1 or 2 of the interface; nothing where the system
    /// does not let us.
    fn make(known: bool) -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let at = |controllers: &str| {
            groups.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (names, path) = rest.split_once(':')?;
                (names == controllers).then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let versions = [
            ("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            ("", "/sys/fs/cgroup", "memory.max", "memory.current"),
        ];
        versions.into_iter().find_map(|(controllers, mount, limit, usage)| {
            let name = format!("dormant-test-{}-{known}", std::process::id());
            let folder = Path::new(mount).join(at(controllers)?).join(name);
            std::fs::create_dir(&folder).ok()?;
            let group = Self { folder, limit, usage };
            // Without a limit there is nothing to be seen.
            group.set(64 << 30).then_some(group)
        })
    }

    fn set(&self, bytes: u64) -> bool {
        std::fs::write(self.folder.join(self.limit), bytes.to_string()).is_ok()
    }

    fn usage(&self) -> u64 {
        let text = std::fs::read_to_string(self.folder.join(self.usage)).expect("usage");
        text.trim().parse().expect("a number")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has ended may be in it for a moment longer.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// What one rank does, in step with the others.
fn rank(place: &Path, number: &str) {
    let engine = engine(HostMode::Reclaim, |config| {
        config.workers = Some(1);
        config.host_margin_bytes = MARGIN;
        config.idle_timeout = std::time::Duration::from_secs(600);
        if std::env::var_os(KNOWN).is_some() {
            config.ranks_on_node = RANKS;
        }
    });
    let block = engine.allocate(&host("w", BYTES)).expect("allocation");
    // Piece by piece: the contents are not to take host memory of their own.
    let mut piece = vec![0; 1 << 20];
    let of = |offset: u64| u8::try_from(offset / MIB % 251).expect("a byte");
    for offset in (0..BYTES).step_by(1 << 20) {
        piece.fill(of(offset));
        engine.write(block.offset(offset), &piece).expect("write");
    }
    let say = |what: &str, text: &str| {
        // Whoever looks finds all of it or nothing.
        let name = place.join(format!("{what}-{number}"));
        std::fs::write(name.with_extension("new"), text).expect("a file");
        std::fs::rename(name.with_extension("new"), name).expect("a file");
    };
    say("ready", "");
    until("all are ready", || place.join("go").exists());
    let plan = engine.plan("w", &PauseOptions::default()).expect("plan");
    let paused = engine.pause("w", &PauseOptions::default());
    let outcome = match &paused {
        Ok(_) => "paused".to_owned(),
        Err(error) => error.kind().name().to_owned(),
    };
    say("done", &format!("{outcome} {}", u8::from(plan.host_short_bytes == 0)));
    until("all are done", || place.join("end").exists());
    engine.resume("w", &ResumeOptions::default()).expect("resume");
    for offset in (0..BYTES).step_by(1 << 20) {
        engine.read(block.offset(offset), &mut piece).expect("read");
        assert!(piece.iter().all(|byte| *byte == of(offset)), "other contents at {offset}");
    }
}

/// Runs the ranks; how each pause ended, and whether its plan had said that it fits.
fn run(test: &str, known: bool) -> Option<Vec<(String, bool)>> {
    let Some(group) = Group::make(known) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: no memory limit can be set here");
        return None;
    };
    let place = tempfile::tempdir().expect("a directory");
    let children: Vec<Child> = (0..RANKS)
        .map(|number| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]);
            command.arg(&group.folder).arg(std::env::current_exe().expect("this program"));
            command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
            command.env(PLACE, place.path()).env(RANK, number.to_string());
            if known {
                command.env(KNOWN, "1");
            }
            command.stdout(Stdio::null()).stdin(Stdio::null()).spawn().expect("a child")
        })
        .collect();
    let all = |what: &str| (0..RANKS).all(|n| place.path().join(format!("{what}-{n}")).exists());
    until("all are ready", || all("ready"));
    assert!(group.set(group.usage() + 4 * BYTES + MARGIN + 48 * MIB), "the limit");
    std::fs::write(place.path().join("go"), "").expect("a file");
    until("all are done", || all("done"));
    let outcomes = (0..RANKS).map(|n| {
        let text = std::fs::read_to_string(place.path().join(format!("done-{n}")));
        let text = text.expect("an outcome");
        let (outcome, fits) = text.split_once(' ').expect("two words");
        (outcome.to_owned(), fits == "1")
    });
    let outcomes = outcomes.collect();
    std::fs::write(place.path().join("end"), "").expect("a file");
    for mut child in children {
        let status = child.wait().expect("wait");
        assert!(status.success(), "a rank was killed, or lost contents: {status}");
    }
    Some(outcomes)
}

#[test]
fn four_of_eight_ranks_pause_and_the_others_get_an_error_and_nobody_is_killed() {
    if let (Some(place), Ok(number)) = (std::env::var_os(PLACE), std::env::var(RANK)) {
        return rank(Path::new(&place), &number);
    }
    let test = "ranks::four_of_eight_ranks_pause_and_the_others_get_an_error_and_nobody_is_killed";
    let Some(outcomes) = run(test, false) else { return };
    let paused = outcomes.iter().filter(|(outcome, _)| outcome == "paused").count();
    let refused = outcomes.iter().filter(|(outcome, _)| outcome == "host_memory").count();
    // Other tests take memory at the same time, so that it may be fewer than four.
    assert!((1..=4).contains(&paused) && paused + refused == RANKS, "{outcomes:?}");
}

#[test]
fn ranks_that_know_of_each_other_have_equal_shares_as_their_plans_say() {
    if let (Some(place), Ok(number)) = (std::env::var_os(PLACE), std::env::var(RANK)) {
        return rank(Path::new(&place), &number);
    }
    let test = "ranks::ranks_that_know_of_each_other_have_equal_shares_as_their_plans_say";
    let Some(outcomes) = run(test, true) else { return };
    let refused = ("host_memory".to_owned(), false);
    assert!(outcomes.iter().all(|outcome| *outcome == refused), "{outcomes:?}");
}
