//! What the environment says.

use std::path::PathBuf;

use dormant_tests::c::said;
use dormant_tests::hooked::Hooked;

/// The program, with each runtime under each of our files.
struct Programs(Vec<(Hooked, PathBuf)>);

impl Programs {
    fn new() -> Self {
        let compiled = Hooked::everywhere().map(|hooked| {
            let program = hooked.compile("environment.c", &[]);
            (hooked, program)
        });
        Self(compiled.collect())
    }

    /// Runs a case with an environment; it is to say these lines, and on standard error one line for
    /// each of the complaints, which has all its words.
    fn say(
        &self,
        case: &str,
        environment: &[(&str, &str)],
        lines: &[&str],
        complaints: &[&[&str]],
    ) {
        for (hooked, program) in &self.0 {
            let mut command = hooked.command(program);
            let output = command.arg(case).envs(environment.iter().copied()).output();
            let output = output.expect("a run");
            let what = format!("{environment:?}: {}", said(&output));
            assert!(output.status.success(), "{what}");
            let words = String::from_utf8_lossy(&output.stdout);
            let have: Vec<_> = words.lines().collect();
            assert_eq!(have, [lines, &["all is well"]].concat(), "{what}");
            let words = String::from_utf8_lossy(&output.stderr);
            let have: Vec<_> = words.lines().collect();
            assert_eq!(have.len(), complaints.len(), "{what}");
            for (line, complaint) in have.iter().zip(complaints) {
                assert!(line.starts_with("dormant: "), "{what}");
                assert!(complaint.iter().all(|word| line.contains(word)), "{what}");
            }
        }
    }
}

const OFF: &str = "off default cpu=0 pinned disk=0 retain=0 directory=none block=foreign";
const ON: &str = "on default cpu=0 pinned disk=0 retain=0 directory=none block=default,discard";
const BACKED: &str = "on default cpu=1 pinned disk=0 retain=0 directory=none block=default,host";

#[test]
fn without_a_word_nothing_is_ours_on_any_thread() {
    let programs = Programs::new();
    programs.say("threads", &[], &[OFF; 3], &[]);
    let unset =
        [("TMS_INIT_ENABLE", ""), ("TMS_INIT_ENABLE_CPU_BACKUP", ""), ("DORMANT_ENABLE", "")];
    programs.say("threads", &unset, &[OFF; 3], &[]);
}

#[test]
fn every_spelling_of_yes_and_no_is_read() {
    let programs = Programs::new();
    for yes in ["true", "TRUE", "yes", "YES"] {
        programs.say("threads", &[("TMS_INIT_ENABLE", yes)], &[ON; 3], &[]);
    }
    for no in ["0", "false", "NO"] {
        programs.say("threads", &[("TMS_INIT_ENABLE", no)], &[OFF; 3], &[]);
    }
}

#[test]
fn a_value_that_makes_no_sense_is_one_line_and_the_default_holds() {
    let programs = Programs::new();
    let enable: &[&str] = &["TMS_INIT_ENABLE", "perhaps"];
    programs.say("threads", &[("TMS_INIT_ENABLE", "perhaps")], &[OFF; 3], &[enable]);
    let backup: &[&str] = &["TMS_INIT_ENABLE_CPU_BACKUP", "2"];
    let both = [("TMS_INIT_ENABLE", "1"), ("TMS_INIT_ENABLE_CPU_BACKUP", "2")];
    programs.say("threads", &both, &[ON; 3], &[backup]);
    let backend: &[&str] = &["TMS_INIT_CPU_BACKUP_BACKEND", "paper"];
    programs.say("threads", &[("TMS_INIT_CPU_BACKUP_BACKEND", "paper")], &[OFF; 3], &[backend]);
    let policy: &[&str] = &["DORMANT_POLICY", "forget"];
    let region = [("DORMANT_ENABLE", "1"), ("DORMANT_POLICY", "forget")];
    programs.say("threads", &region, &[ON; 3], &[policy]);
}

#[test]
fn what_the_environment_asks_for_holds_on_every_thread() {
    let programs = Programs::new();
    let backed = [("TMS_INIT_ENABLE", "1"), ("TMS_INIT_ENABLE_CPU_BACKUP", "1")];
    programs.say("threads", &backed, &[BACKED; 3], &[]);
    let all = [
        ("TMS_INIT_ENABLE", "1"),
        ("TMS_INIT_ENABLE_CPU_BACKUP", "1"),
        ("TMS_INIT_ENABLE_DISK_BACKUP", "1"),
        ("TMS_INIT_CPU_BACKUP_BACKEND", "mmap"),
        ("TMS_RETAIN_CPU_BACKUP", "1"),
        ("TMS_DISK_BACKUP_DIR", "/somewhere"),
    ];
    let line = "on default cpu=1 mmap disk=1 retain=1 directory=/somewhere block=default,disk";
    programs.say("threads", &all, &[line; 3], &[]);
}

#[test]
fn a_process_wide_region_has_a_tag_and_a_policy() {
    let programs = Programs::new();
    let named = [("DORMANT_ENABLE", "1"), ("DORMANT_TAG", "all"), ("DORMANT_POLICY", "host")];
    let line = "on all cpu=1 pinned disk=0 retain=0 directory=none block=all,host";
    programs.say("threads", &named, &[line; 3], &[]);
    let zeroed = [("DORMANT_ENABLE", "1"), ("DORMANT_POLICY", "zero"), ("TMS_INIT_ENABLE", "0")];
    let line = "on default cpu=0 pinned disk=0 retain=0 directory=none block=default,zero";
    programs.say("threads", &zeroed, &[line; 3], &[]);
}

#[test]
fn an_explicit_no_backup_is_a_no_where_the_environment_asks_for_one() {
    let programs = Programs::new();
    let backed = [("TMS_INIT_ENABLE", "1"), ("TMS_INIT_ENABLE_CPU_BACKUP", "1")];
    let region = "on region cpu=0 pinned disk=0 retain=0 directory=none block=region,discard";
    let switched = "on region cpu=1 pinned disk=0 retain=0 directory=none block=region,host";
    programs.say("no_backup", &backed, &[ON, region, switched, BACKED], &[]);
}

#[test]
fn switches_say_what_they_were_set_to() {
    let programs = Programs::new();
    let all = "on default cpu=1 mmap disk=1 retain=1 directory=/somewhere block=default,disk";
    let back = "on default cpu=0 pinned disk=0 retain=1 directory=none block=default,discard";
    programs.say("switches", &[], &[all, back], &[]);
}

#[test]
fn backups_of_the_switches_go_back_unless_they_are_to_be_retained() {
    let programs = Programs::new();
    let lines = [
        "retain=0 reclaim",
        "retain=1 retain",
        "retain=1 retain",
        "retain=1 own",
        "retain=1 retain",
        "retain=0 reclaim",
        "retain=0 reclaim",
    ];
    programs.say("held", &[], &lines, &[]);
    let lines = [
        "retain=1 retain",
        "retain=0 reclaim",
        "retain=0 reclaim",
        "retain=0 own",
        "retain=0 reclaim",
        "retain=1 retain",
        "retain=1 retain",
    ];
    programs.say("held", &[("TMS_RETAIN_CPU_BACKUP", "1")], &lines, &[]);
    let lines = [
        "retain=0 own",
        "retain=1 own",
        "retain=1 own",
        "retain=1 own",
        "retain=1 retain",
        "retain=0 reclaim",
        "retain=0 own",
    ];
    let words: &[&str] = &["TMS_RETAIN_CPU_BACKUP", "maybe"];
    let native = [("DORMANT_ENABLE", "1"), ("TMS_RETAIN_CPU_BACKUP", "maybe")];
    programs.say("held", &native, &lines, &[words]);
    programs.say("retained", &[], &[], &[]);
}

#[test]
fn settings_of_the_engine_are_what_the_environment_says() {
    let programs = Programs::new();
    let default = ["staging=67108864 limit=0 retain=0 keep=-1 auto off"];
    programs.say("settings", &[], &default, &[]);
    programs.say(
        "settings",
        &[("DORMANT_HOST_LIMIT", ""), ("DORMANT_CHECKSUM", ""), ("DORMANT_DISK_KEEP", "")],
        &default,
        &[],
    );
    let all = [
        ("TMS_DISK_BACKUP_CHUNK_MB", "8"),
        ("DORMANT_HOST_LIMIT", "64GiB"),
        ("DORMANT_RETAIN_LIMIT", "1048576"),
        ("DORMANT_DISK_KEEP", "3 GiB"),
        ("DORMANT_HOST_MODE", "retain"),
        ("DORMANT_CHECKSUM", "full"),
    ];
    let line = "staging=8388608 limit=68719476736 retain=1048576 keep=3221225472 retain full";
    programs.say("settings", &all, &[line], &[]);
    let nothing = ["staging=67108864 limit=0 retain=0 keep=0 auto off"];
    programs.say("settings", &[("DORMANT_DISK_KEEP", "0")], &nothing, &[]);
    for (name, value) in [
        ("TMS_DISK_BACKUP_CHUNK_MB", "some"),
        ("DORMANT_HOST_LIMIT", "64GB"),
        ("DORMANT_RETAIN_LIMIT", "-1"),
        ("DORMANT_DISK_KEEP", "all"),
        ("DORMANT_HOST_MODE", "keep"),
        ("DORMANT_CHECKSUM", "1"),
    ] {
        let words: &[&str] = &[name, value];
        programs.say("settings", &[(name, value)], &default, &[words]);
    }
}
