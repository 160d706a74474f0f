//! What tests build with the C compiler is kept beside this test's own file, for the next test: most
//! of them run in a process each.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The file that `make` makes at the path it is given, made now unless one of this name is kept that
/// was made of the same `ingredients`.
///
/// # Panics
/// When the file cannot be put in place.
pub(crate) fn kept(name: &str, ingredients: impl Hash, make: impl FnOnce(&Path)) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    ingredients.hash(&mut hasher);
    let test = std::env::current_exe().expect("this test's own path");
    let folder = test.parent().expect("a folder").join("kept");
    let file = folder.join(format!("{:016x}-{name}", hasher.finish()));
    if !file.is_file() {
        fs::create_dir_all(&folder).expect("a folder for what is kept");
        // Made under a name of its own: tests that run at once must not see half a file.
        let fresh = tempfile::tempdir_in(&folder).expect("a folder for a new file");
        let fresh_file = fresh.path().join(name);
        make(&fresh_file);
        fs::rename(&fresh_file, &file).expect("the new file in its place");
    }
    file
}
