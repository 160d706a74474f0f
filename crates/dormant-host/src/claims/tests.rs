//! Several processes are stood for by several `Claims`, by files written and locked by hand, and by
//! forked children.

use std::io::{Read, Write};
use std::sync::mpsc;

use super::*;
use crate::headroom::CgroupLimit;
use crate::process::tests::{Forked, sleep};

const ONE: Claim = Claim { held_bytes: 5, pending_bytes: 3 };
const SOON: Duration = Duration::from_secs(10);
const MACHINE: HeadroomSource = HeadroomSource::Machine { total_bytes: 0 };

fn others(claims: &Claims) -> Claim {
    claims.enter(SOON).unwrap().others().within(&MACHINE)
}

fn group(id: impl Into<Option<u64>>) -> HeadroomSource {
    HeadroomSource::Cgroup(CgroupLimit {
        folder: PathBuf::new(),
        id: id.into(),
        name: "memory.max",
        limit_bytes: 0,
        current_bytes: 0,
        reclaimable_bytes: 0,
    })
}

/// A claim of another process, which lives as long as the file is open.
fn claim_of_another(path: &Path, claim: Claim, groups: &[u64]) -> OwnFile {
    let own = OwnFile::new(options().create_new(true).open(path).unwrap());
    let file = own.get().unwrap();
    file.try_lock().unwrap();
    file.write_all_at(&Record::new(claim, groups).bytes(), 0).unwrap();
    own
}

#[test]
fn claims_of_others_add_up_and_end_when_they_are_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second, third] =
        [(); 3].map(|()| Claims::join_in(&directory.path().join("claims")).unwrap());
    assert_eq!(others(&first), Claim::default());
    first.say(ONE);
    second.say(Claim { held_bytes: u64::MAX - 1, pending_bytes: 1 });
    assert_eq!(others(&first), Claim { held_bytes: u64::MAX - 1, pending_bytes: 1 });
    assert_eq!(others(&third), Claim { held_bytes: u64::MAX, pending_bytes: 4 });
    drop(second);
    assert_eq!(others(&third), ONE);
    assert_eq!(Others::default().within(&MACHINE), Claim::default());
}

#[test]
fn what_the_dead_have_left_does_not_count_and_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let claims = Claims::join_in(directory.path()).unwrap();
    let left = directory.path().join("123456789-0");
    std::fs::write(&left, [1; 160]).unwrap();
    assert_eq!(others(&claims), Claim::default());
    assert!(!left.exists());
}

#[test]
fn what_the_dead_have_left_under_the_own_name_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("7-0");
    std::fs::write(&name, "left").unwrap();
    assert_eq!(own_file(name.clone()).unwrap().0, name);
}

#[test]
fn a_live_claim_of_the_same_number_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let number = std::process::id();
    // Other tests join as well, so the next name is not known.
    let theirs: Vec<OwnFile> = (0..100)
        .map(|count| {
            claim_of_another(&directory.path().join(format!("{number}-{count}")), ONE, &[])
        })
        .collect();
    assert!(own_file(directory.path().join(format!("{number}-0"))).is_none());
    let claims = Claims::join_in(directory.path()).unwrap();
    assert_eq!(others(&claims), Claim { held_bytes: 500, pending_bytes: 300 });
    drop(theirs);
}

#[test]
fn a_file_that_has_lost_its_name_meanwhile_is_nobodys_claim() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("7-0");
    // Takes claims and takes them back over and over, as `drop` does.
    let run = || {
        for _ in 0..3000 {
            if let Some((name, file)) = own_file(name.clone()) {
                let named = std::fs::metadata(&name).unwrap().ino();
                assert_eq!(named, file.get().unwrap().metadata().unwrap().ino());
                std::fs::remove_file(&name).unwrap();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(run);
        run();
    });
}

#[test]
fn only_those_in_a_group_or_below_are_charged_against_its_limit() {
    let directory = tempfile::tempdir().unwrap();
    let claims = Claims::join_in(directory.path()).unwrap();
    let many: Vec<u64> = (100..120).collect();
    let claim = |held_bytes| Claim { held_bytes, pending_bytes: 1 };
    let all =
        [(1, &[21, 20, 1][..]), (10, &[20, 1]), (100, &[30, 1]), (1000, &[]), (10_000, &many)];
    let files = all.map(|(held, groups)| {
        claim_of_another(&directory.path().join(format!("x-{held}")), claim(held), groups)
    });
    let entered = claims.enter(SOON).unwrap();
    let held = |source| entered.others().within(&source).held_bytes;
    // Those of whom it is not known count everywhere.
    assert_eq!(held(group(21)), 11_001);
    assert_eq!(held(group(20)), 11_011);
    assert_eq!(held(group(30)), 11_100);
    assert_eq!(held(group(1)), 11_111);
    assert_eq!(held(group(2)), 11_000);
    assert_eq!((held(group(None)), held(MACHINE)), (11_111, 11_111));
    drop(files);
}

#[test]
fn a_claim_names_the_groups_of_its_process_and_half_a_claim_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = [(); 2].map(|()| Claims::join_in(directory.path()).unwrap());
    first.say(ONE);
    let short = claim_of_another(&directory.path().join("x"), ONE, &[]);
    short.get().unwrap().set_len(16).unwrap();
    let others = second.enter(SOON).unwrap().others();
    for id in groups() {
        assert_eq!(others.within(&group(id)), ONE);
    }
    let known = !groups().is_empty();
    assert_eq!(others.within(&group(u64::MAX)), if known { Claim::default() } else { ONE });
}

#[test]
fn nobody_waits_for_the_gate_longer_than_the_patience() {
    let directory = tempfile::tempdir().unwrap();
    let claims = Claims::join_in(directory.path()).unwrap();
    let stopped = File::open(directory.path().join("gate")).unwrap();
    stopped.lock().unwrap();
    let begun = Instant::now();
    assert!(claims.enter(Duration::ZERO).is_none());
    assert!(claims.enter(Duration::from_millis(50)).is_none());
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert!(Claims::join_in(directory.path()).is_none());
    assert!(begun.elapsed() < SOON);
    stopped.unlock().unwrap();
    assert!(claims.enter(Duration::ZERO).is_some());
}

#[test]
fn threads_of_one_process_keep_each_other_out() {
    let directory = tempfile::tempdir().unwrap();
    let claims = Claims::join_in(directory.path()).unwrap();
    let entered = claims.enter(SOON).unwrap();
    std::thread::scope(|scope| {
        let (say, heard) = mpsc::channel();
        let claims = &claims;
        scope.spawn(move || {
            say.send(claims.enter(Duration::from_millis(50)).is_some()).unwrap();
            say.send(claims.enter(SOON).is_some()).unwrap();
        });
        assert!(!heard.recv().unwrap(), "both are in");
        let other = File::open(directory.path().join("gate")).unwrap();
        assert!(other.try_lock().is_err(), "the gate is open");
        drop(entered);
        assert!(heard.recv().unwrap());
    });
}

/// A process joins, claims, forks a child that lives on, and dies; in the gate if so wanted. Returns the
/// child.
fn dead_with_a_living_child(directory: &Path, in_the_gate: bool) -> Forked {
    let (mut heard, mut say) = std::io::pipe().unwrap();
    let parent = Forked::run(|| {
        let claims = Claims::join_in(directory).unwrap();
        claims.say(ONE);
        let _entered = in_the_gate.then(|| claims.enter(SOON).unwrap());
        let _child = Forked::run(|| {
            say.write_all(&std::process::id().to_ne_bytes()).unwrap();
            sleep()
        });
        // SAFETY: ends the process at once, without any drop.
        unsafe { libc::_exit(0) }
    });
    let mut number = [0; 4];
    heard.read_exact(&mut number).unwrap();
    assert!(parent.was_good());
    Forked::other(i32::from_ne_bytes(number))
}

#[test]
fn a_forked_child_does_not_keep_the_claim_of_its_parent_alive() {
    let directory = tempfile::tempdir().unwrap();
    let claims = Claims::join_in(directory.path()).unwrap();
    let _child = dead_with_a_living_child(directory.path(), false);
    assert_eq!(others(&claims), Claim::default());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn a_forked_child_does_not_keep_the_gate_closed_when_its_parent_ends() {
    let directory = tempfile::tempdir().unwrap();
    let claims = Claims::join_in(directory.path()).unwrap();
    let _child = dead_with_a_living_child(directory.path(), true);
    assert!(claims.enter(Duration::from_secs(2)).is_some());
}

#[test]
fn a_forked_child_changes_nothing_of_what_its_parent_claims() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = [(); 2].map(|()| Claims::join_in(directory.path()).unwrap());
    first.say(ONE);
    let entered = first.enter(SOON).unwrap();
    let mut inherited = Some((&first, entered));
    let child = Forked::run(|| {
        let (first, entered) = inherited.take().unwrap();
        first.say(Claim::default());
        let nothing = entered.others().within(&MACHINE) == Claim::default();
        drop(entered);
        nothing && first.enter(Duration::ZERO).is_none()
    });
    assert!(child.was_good());
    assert!(second.enter(Duration::ZERO).is_none(), "the parent is still in");
    drop(inherited);
    let mut first = Some(first);
    assert!(Forked::run(|| first.take().is_some()).was_good(), "it drops its copy");
    assert_eq!(others(&second), ONE);
    drop(first);
    assert_eq!(others(&second), Claim::default());
}

#[test]
fn a_directory_that_cannot_be_used_is_no_claim() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(Claims::join_in(&file).is_none());
    assert!(Claims::join_in(&file.join("below")).is_none());
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("/dev/shm", &link).unwrap();
    assert!(Claims::join_in(&link).is_none());
}
