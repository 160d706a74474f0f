//! What `LD_PRELOAD` becomes. `dormant.preload_env` of the Python package keeps the same rules, and
//! both are tested with the same table.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// `library` first, then what was there before and is not ours, in its order.
///
/// # Errors
/// The loader splits the variable at blanks and colons and expands what follows a dollar sign, so a path
/// with one of these in it cannot be named.
pub(crate) fn merged(library: &Path, before: &OsStr) -> Result<OsString, String> {
    if library.as_os_str().as_bytes().iter().any(is_separator) {
        let library = library.display();
        return Err(format!(
            "LD_PRELOAD cannot name {library}: the loader splits it at blanks and colons"
        ));
    }
    if library.as_os_str().as_bytes().contains(&b'$') {
        let library = library.display();
        return Err(format!(
            "LD_PRELOAD cannot name {library}: the loader expands what follows a dollar sign"
        ));
    }
    let mut merged = library.as_os_str().to_owned();
    for entry in before.as_bytes().split(is_separator).filter(|entry| !entry.is_empty()) {
        let entry = OsStr::from_bytes(entry);
        if !is_ours(Path::new(entry), library) {
            merged.push(":");
            merged.push(entry);
        }
    }
    Ok(merged)
}

fn is_separator(byte: &u8) -> bool {
    matches!(byte, b' ' | b':')
}

/// Whether an entry is our library, under this path or another, or another file of ours.
fn is_ours(entry: &Path, library: &Path) -> bool {
    let name = entry.file_name().map(OsStr::as_bytes).unwrap_or_default();
    name == b"libdormant.so"
        || name.starts_with(b"torch_memory_saver_hook_mode_preload")
        || is_same_file(entry, library)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|data| (data.dev(), data.ino())).ok();
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use serde_json::Value;

    use super::*;

    const TABLE: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/dormant/tests/preload_cases.json");

    #[test]
    fn every_case_of_the_table_shared_with_python_comes_out_as_it_says() {
        let table: Value = serde_json::from_str(&fs::read_to_string(TABLE).unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let filled = |text: &str| text.replace("{dir}", folder.to_str().unwrap());
        for file in table["files"].as_array().unwrap() {
            let file = folder.join(file.as_str().unwrap());
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        for (link, file) in table["symbolic_links"].as_object().unwrap() {
            symlink(folder.join(file.as_str().unwrap()), folder.join(link)).unwrap();
        }
        for (link, file) in table["hard_links"].as_object().unwrap() {
            fs::hard_link(folder.join(file.as_str().unwrap()), folder.join(link)).unwrap();
        }
        let cases = table["cases"].as_array().unwrap();
        assert!(cases.len() > 15);
        for case in cases {
            let library = case["library"].as_str().or(table["library"].as_str()).unwrap();
            let before = filled(case["before"].as_str().unwrap());
            let after = merged(Path::new(&filled(library)), OsStr::new(&before)).ok();
            let wanted = case["after"].as_str().map(|text| OsString::from(filled(text)));
            assert_eq!(after, wanted, "{}", case["name"]);
        }
    }

    #[test]
    fn entries_need_not_be_text() {
        let before = OsStr::from_bytes(b"/\xff/libfoo.so");
        let after = merged(Path::new("/x/libdormant.so"), before).unwrap();
        assert_eq!(after.as_bytes(), b"/x/libdormant.so:/\xff/libfoo.so");
    }
}
