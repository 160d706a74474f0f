//! Tests that need a small file system: this very program again, with mounts of its own.

use std::io::Write;
use std::path::Path;
use std::process::Command;

const MARK: &str = "DORMANT_TEST_MOUNT";

/// Runs `body` in a process of its own with a file system of this kind at the directory. Where
/// the system does not let us mount one, the test is a skip that is seen on stderr.
pub(crate) fn with_mount(test: &str, kind: &str, options: &str, body: impl FnOnce(&Path)) {
    if let Some(directory) = std::env::var_os(MARK) {
        body(Path::new(&directory));
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    // SAFETY: asks who we are.
    let root = unsafe { libc::geteuid() } == 0;
    let script = format!("mount -t {kind} -o {options} none \"$1\" || exit 77; shift; exec \"$@\"");
    let mut command = Command::new("unshare");
    command.arg("--mount").args((!root).then_some("--map-root-user"));
    command.args(["sh", "-c", &script, "sh"]).arg(directory.path());
    let mut probe = Command::new("unshare");
    probe.args(command.get_args()).arg("true");
    if !probe.output().is_ok_and(|output| output.status.success()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: no {kind} can be mounted here");
        return;
    }
    let output = command
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(MARK, directory.path())
        .output()
        .expect("a child");
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}\n{}\n{}", output.status, said[0], said[1]);
    assert!(said[0].contains("1 passed"), "the child ran no test: {}", said[0]);
}
