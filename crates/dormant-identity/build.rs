//! Bakes the build's identity in: the commit, whether the sources differ from it, and a hash of
//! the sources themselves.
//!
//! The first two come from `git` at build time and from nowhere else. They are `unknown` where git
//! cannot be asked, and where the repository it finds is not this workspace's own (a copy of this
//! package within somebody else's repository). A repository made around sources that had none is
//! noticed at their next change. The hash needs no git.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

/// What `dirty` speaks of, from the workspace's root: all that the programs are made of, and what
/// git overlooks. This script runs again for exactly these, or the flag could go stale.
const SOURCES: [&str; 5] = ["Cargo.toml", "Cargo.lock", ".gitignore", "crates", "backends"];

/// Folders that hold what was made, not what it was made of.
const MADE: [&str; 2] = ["target", "__pycache__"];

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
    let identity = root.as_deref().and_then(identity);
    let listing = root.as_deref().and_then(|root| listing(root).ok());
    if let (Some(root), Some(listing)) = (&root, &listing) {
        refuse_what_cargo_overlooks(root, listing);
    }
    let source = listing.map(|listing| format!("sha256:{}", hex(&listing)));
    let (commit, dirty) = match &identity {
        Some((commit, true)) => (commit.as_str(), "true"),
        Some((commit, false)) => (commit.as_str(), "false"),
        None => ("unknown", "unknown"),
    };
    println!("cargo::rustc-env=DORMANT_BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=DORMANT_BUILD_DIRTY={dirty}");
    println!("cargo::rustc-env=DORMANT_BUILD_SOURCE={}", source.as_deref().unwrap_or("unknown"));
    println!("cargo::rustc-env=DORMANT_BUILD_RUSTC={}", rustc());
    for (name, from) in [("DORMANT_BUILD_TARGET", "TARGET"), ("DORMANT_BUILD_PROFILE", "PROFILE")] {
        let value = std::env::var(from).unwrap_or_else(|_| String::from("unknown"));
        println!("cargo::rustc-env={name}={value}");
    }
}

/// The workspace's root, if this package lies in it where it belongs.
fn workspace() -> Option<PathBuf> {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?).canonicalize().ok()?;
    let root = package.parent()?.parent()?;
    (package == root.join("crates").join("dormant-identity")).then(|| root.to_owned())
}

/// The commit, and whether the sources differ from it.
fn identity(root: &Path) -> Option<(String, bool)> {
    let top = git(root, ["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    watch_repository(root)?;
    git(root, ["ls-files", "--error-unmatch", "--", "crates/dormant-identity/build.rs"])?;
    let commit = git(root, ["rev-parse", "--verify", "HEAD^{commit}"])?;
    if !matches!(commit.len(), 40 | 64) || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some((commit, is_changed(root)?))
}

/// Whether the sources differ from the commit: also by files that git was told to ignore, and where it
/// was told to take a file for unchanged, whatever is in it.
fn is_changed(root: &Path) -> Option<bool> {
    let asked = [
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=all",
        "--ignored=traditional",
        "--ignore-submodules=none",
    ];
    let changes = output(root, asked.into_iter().chain(["--"]).chain(SOURCES))?;
    let changed = entries(&changes).any(|entry| match entry.strip_prefix(b"!! ") {
        Some(ignored) => ignored.split(|byte| *byte == b'/').all(counts),
        None => true,
    });
    let flags = output(root, ["ls-files", "-v", "-z", "--"].into_iter().chain(SOURCES))?;
    Some(changed || entries(&flags).any(|entry| !entry.starts_with(b"H ")))
}

/// The entries of a list that git ends with a zero byte each.
fn entries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0).filter(|entry| !entry.is_empty())
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
fn output<S: AsRef<OsStr>>(root: &Path, arguments: impl IntoIterator<Item = S>) -> Option<Vec<u8>> {
    let mut command = Command::new("git");
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    command.args(["--no-optional-locks", "-c", "core.fsmonitor=false", "-C"]).arg(root);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    output.status.success().then_some(output.stdout)
}

/// The same as one text.
fn git<S: AsRef<OsStr>>(root: &Path, arguments: impl IntoIterator<Item = S>) -> Option<String> {
    let text = String::from_utf8(output(root, arguments)?).ok()?;
    Some(text.trim_end().to_owned())
}

/// Ends the build where a source was replaced by one that is older than the last build: cargo goes by
/// times, and would take what it compiled from the other one for this.
fn refuse_what_cargo_overlooks(root: &Path, listing: &[u8]) {
    let Some(out) = std::env::var_os("OUT_DIR") else { return };
    let before = Path::new(&out).join("sources");
    let is_older = |path: &[u8], built: SystemTime| {
        let file = fs::metadata(root.join(OsStr::from_bytes(path)));
        file.and_then(|file| file.modified()).is_ok_and(|changed| changed <= built)
    };
    let mut overlooked = false;
    let built = fs::metadata(&before).and_then(|file| file.modified());
    if let (Ok(built), Ok(seen)) = (built, fs::read(&before)) {
        let seen: BTreeMap<_, _> = hashes(&seen).collect();
        for (path, hash) in hashes(listing) {
            if seen.get(path).is_some_and(|seen| *seen != hash) && is_older(path, built) {
                println!(
                    "cargo::error={} was changed, and has a time before the last build: cargo would \
                     not compile it anew. `touch` it",
                    String::from_utf8_lossy(path)
                );
                overlooked = true;
            }
        }
    }
    if !overlooked {
        fs::write(before, listing).expect("cargo's own folder can be written");
    }
}

/// Path and hash of each line of a listing.
fn hashes(listing: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = listing.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| line.split_at_checked(64))
        .filter_map(|(hash, path)| Some((path.get(2..)?, hash)))
}

/// What the hash is over: a list of all sources in the format of `sha256sum`, sorted by path. Hidden
/// files and what is made in building do not count, nor do symbolic links.
fn listing(root: &Path) -> io::Result<Vec<u8>> {
    let mut files = BTreeMap::new();
    for source in SOURCES {
        if !source.starts_with('.') {
            list(root, &root.join(source), &mut files)?;
        }
    }
    let mut listing = Vec::new();
    for (name, path) in files {
        listing.extend_from_slice(hex(&fs::read(path)?).as_bytes());
        listing.extend_from_slice(b"  ");
        listing.extend_from_slice(&name);
        listing.push(b'\n');
    }
    Ok(listing)
}

/// Adds the regular files at and below a path, by their paths from the root.
fn list(root: &Path, path: &Path, files: &mut BTreeMap<Vec<u8>, PathBuf>) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_file() {
        let name = path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_vec();
        files.insert(name, path.to_owned());
    } else if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if counts(entry.file_name().as_bytes()) {
                list(root, &entry.path(), files)?;
            }
        }
    }
    Ok(())
}

/// Whether files and folders of this name are sources.
fn counts(name: &[u8]) -> bool {
    !name.starts_with(b".") && !MADE.iter().any(|made| name == made.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The compiler, as it calls itself.
fn rustc() -> String {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("--version").stdin(Stdio::null()).output();
    let text = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| "rustc unknown".to_owned(), |text| text.trim().to_owned())
}
