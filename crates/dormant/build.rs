//! Bakes the build's identity in: the commit, and whether the sources differ from it.
//!
//! Both come from `git` at build time and from nowhere else. They are `unknown` where git cannot
//! be asked, and where the repository it finds is not this workspace's own (a copy of this
//! package within somebody else's repository). A repository made around sources that had none is
//! noticed at their next change.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `dirty` speaks of, from the workspace's root: all that the programs are made of, and what
/// git overlooks. This script runs again for exactly these, or the flag could go stale.
const SOURCES: [&str; 5] = ["Cargo.toml", "Cargo.lock", ".gitignore", "crates", "backends"];

/// Variables by which a caller, a hook for one, points git at a repository of its own.
const FOREIGN: [&str; 7] = [
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    let root = workspace();
    if let Some(root) = &root {
        for source in SOURCES {
            println!("cargo::rerun-if-changed={}", root.join(source).display());
        }
    }
    let identity = root.and_then(|root| identity(&root));
    let (commit, dirty) = match &identity {
        Some((commit, true)) => (commit.as_str(), "true"),
        Some((commit, false)) => (commit.as_str(), "false"),
        None => ("unknown", "unknown"),
    };
    println!("cargo::rustc-env=DORMANT_BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=DORMANT_BUILD_DIRTY={dirty}");
    for (name, from) in [("DORMANT_BUILD_TARGET", "TARGET"), ("DORMANT_BUILD_PROFILE", "PROFILE")] {
        let value = std::env::var(from).unwrap_or_else(|_| String::from("unknown"));
        println!("cargo::rustc-env={name}={value}");
    }
}

/// The workspace's root, if this package lies in it where it belongs.
fn workspace() -> Option<PathBuf> {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?).canonicalize().ok()?;
    let root = package.parent()?.parent()?;
    (package == root.join("crates").join("dormant")).then(|| root.to_owned())
}

/// The commit, and whether the sources differ from it.
fn identity(root: &Path) -> Option<(String, bool)> {
    let top = git(root, ["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    watch_repository(root)?;
    git(root, ["ls-files", "--error-unmatch", "--", "crates/dormant/build.rs"])?;
    let commit = git(root, ["rev-parse", "--verify", "HEAD^{commit}"])?;
    if !matches!(commit.len(), 40 | 64) || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let asked = ["status", "--porcelain=v1", "--untracked-files=all", "--ignore-submodules=none"];
    let changes = git(root, asked.into_iter().chain(["--"]).chain(SOURCES))?;
    Some((commit, !changes.is_empty()))
}

/// Runs again when HEAD moves, or the index does.
fn watch_repository(root: &Path) -> Option<()> {
    let place = |name: &str| Some(root.join(git(root, ["rev-parse", "--git-path", name])?));
    for name in ["HEAD", "index"] {
        // Watched also where missing: cargo then runs this again each time.
        println!("cargo::rerun-if-changed={}", place(name)?.display());
    }
    for name in ["packed-refs", "logs/HEAD", "reftable", "info/exclude"] {
        watch(&place(name)?);
    }
    // A detached HEAD names no reference.
    if let Some(reference) = git(root, ["symbolic-ref", "--quiet", "HEAD"]) {
        // A packed reference has no file until it moves; the folder that will hold it has.
        let file = place(&reference)?;
        watch(file.ancestors().find(|path| path.exists())?);
    }
    Some(())
}

/// Runs again when this changes. Left out where missing, since cargo takes that for a change.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// What git answers, or nothing where it fails. It takes no lock, starts no helper, and leaves the
/// index as it is: `status` would else write it anew, and so have this script run again.
fn git<S: AsRef<OsStr>>(root: &Path, arguments: impl IntoIterator<Item = S>) -> Option<String> {
    let mut command = Command::new("git");
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    command.args(["--no-optional-locks", "-c", "core.fsmonitor=false", "-C"]).arg(root);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
