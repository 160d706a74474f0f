//! How the frameworks call a saver.

use std::io::Write;

use dormant_tests::hooked::Hooked;

/// The environment of a trainer that is pausable as a whole.
const TRAINER: [(&str, &str); 2] = [("TMS_INIT_ENABLE", "1"), ("TMS_INIT_ENABLE_CPU_BACKUP", "1")];

#[test]
fn a_trainer_pauses_its_buffers_one_by_one_and_works_in_between() {
    for hooked in Hooked::everywhere() {
        hooked.run_with("frameworks.c", "actor", |command| {
            command.envs(TRAINER);
        });
    }
}

#[test]
fn a_server_brings_each_block_of_a_tag_back_by_the_blocks_own_policy() {
    Hooked::everywhere().for_each(|hooked| hooked.run("frameworks.c", "server"));
}

#[test]
fn a_rank_that_keeps_its_contents_on_disk_needs_few_files_and_a_folder_only_when_it_pauses() {
    let test =
        "a_rank_that_keeps_its_contents_on_disk_needs_few_files_and_a_folder_only_when_it_pauses";
    for hooked in Hooked::everywhere() {
        let mut command = hooked.command(hooked.compile("frameworks.c", &[]));
        command
            .arg("disk_rank")
            .env("TMS_INIT_ENABLE", "1")
            .env("TMS_INIT_ENABLE_DISK_BACKUP", "1");
        command.env("TMS_DISK_BACKUP_DIR", hooked.path().join("backups"));
        command.env("TMS_DISK_BACKUP_CHUNK_MB", "64").env("DORMANT_SIM_GRANULARITY", "64KiB");
        let output = command.output().expect("a run");
        hooked.expect_well("disk_rank", &output);
        let said = String::from_utf8_lossy(&output.stdout);
        if let Some(why) = said.lines().find_map(|line| line.strip_prefix("skipped: ")) {
            // Past the test harness's capture: a skip is to be seen.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
            return;
        }
    }
}
