//! Tests that need a process of their own: this very program again, with one test.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MARK: &str = "DORMANT_TEST_IN_CHILD";
const END: &str = "the child came to its end";
const LONGEST: Duration = Duration::from_secs(100);

/// Whether this process was started by [`run`].
pub(crate) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// In a child: says that the test has come to its end, whatever ends the process afterwards.
pub(crate) fn at_its_end() {
    let _ = writeln!(std::io::stdout(), "{END}");
}

fn contents(mut file: File) -> String {
    let mut text = String::new();
    file.rewind().expect("rewind");
    file.read_to_string(&mut text).expect("text");
    text
}

/// Runs one test in a process of its own, where it is the only one and runs on the main thread.
/// It must come to its end, exit with code 0, and say nothing on stderr.
pub(crate) fn run(module: &str, test: &str) {
    // The harness leaves the crate's own name out.
    let module = module.split_once("::").map_or("", |(_, inside)| inside);
    let name = format!("{module}::{test}");
    let out = tempfile::tempfile().expect("a file");
    let err = tempfile::tempfile().expect("a file");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        // Arenas that threads come by at random would be seen as growth.
        .env("MALLOC_ARENA_MAX", "1")
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a file"))
        .stderr(err.try_clone().expect("a file"))
        .spawn()
        .expect("a child");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break Some(status);
        }
        if begun.elapsed() > LONGEST {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let (out, err) = (contents(out), contents(err));
    let status = status.unwrap_or_else(|| panic!("{name} hung:\n{out}\n{err}"));
    assert!(status.success(), "{name}: {status}\n{out}\n{err}");
    assert!(out.contains(END), "{name} did not come to its end:\n{out}\n{err}");
    assert!(err.is_empty(), "{name} wrote to stderr:\n{err}");
}

/// Declares tests that run in processes of their own.
macro_rules! in_its_own_process {
    ($($(#[$meta:meta])* fn $name:ident() $body:block)*) => {$(
        $(#[$meta])*
        #[test]
        fn $name() {
            if $crate::child::is_child() {
                $body
                $crate::child::at_its_end();
            } else {
                $crate::child::run(module_path!(), stringify!($name));
            }
        }
    )*};
}
pub(crate) use in_its_own_process;
