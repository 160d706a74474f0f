//! Where `libdormant.so` is.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variable that names the file, here and in the Python package.
pub(crate) const VARIABLE: &str = "DORMANT_LIBRARY";

const NAME: &str = "libdormant.so";

/// The name that cargo gives it.
const BUILT_NAME: &str = "libdormant_capi.so";

/// The library to preload, as an absolute path: the one that is asked for, else the one that the
/// environment names, else one that was installed with this program.
///
/// # Errors
/// There is none; the text says where it was looked for.
pub(crate) fn find(asked_for: Option<&Path>) -> Result<PathBuf, String> {
    let named = env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(path) = asked_for {
        return existing(path, "--library");
    }
    if let Some(path) = named {
        return existing(&path, VARIABLE);
    }
    let program =
        env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let places = places(&program);
    if let Some(path) = places.iter().find(|place| place.is_file()) {
        return Ok(path.clone());
    }
    let mut text = format!("no {NAME}; name it with --library or {VARIABLE}. It was looked for as");
    for place in places {
        text.push_str(&format!("\n  {}", place.display()));
    }
    Err(text)
}

fn existing(path: &Path, named_by: &str) -> Result<PathBuf, String> {
    if !path.is_file() {
        return Err(format!("{named_by} names {}, and there is no such file", path.display()));
    }
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Where it may have been installed with the program: beside it (also as cargo builds it), in the
/// library folder of the same prefix, in a Python package there.
fn places(program: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let Some(folder) = program.parent() else { return places };
    places.extend([NAME, BUILT_NAME].map(|name| folder.join(name)));
    let Some(prefix) = folder.parent() else { return places };
    places.push(prefix.join("lib").join(NAME));
    for library in ["lib", "lib64"] {
        let library = prefix.join(library);
        let pythons = pythons(&library);
        // What a user would read if there is none.
        let none = pythons.is_empty() && library.ends_with("lib");
        let pythons = if none { vec![OsString::from("python*")] } else { pythons };
        for python in pythons {
            for packages in ["site-packages", "dist-packages"] {
                let package = library.join(&python).join(packages).join("dormant");
                places.push(package.join("_lib").join(NAME));
            }
        }
    }
    places
}

/// The folders `python3.9`, `python3.10` and so on, the newest first.
fn pythons(library: &Path) -> Vec<OsString> {
    let version = |name: &OsString| {
        let version = name.to_str()?.strip_prefix("python")?;
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        Some((parts.next()??, parts.next().flatten()))
    };
    let names = library.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names.filter(|name| version(name).is_some()).collect();
    names.sort_by_key(|name| std::cmp::Reverse(version(name)));
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn places_are_beside_the_program_then_in_its_prefix_then_in_the_newest_python() {
        let prefix = tempfile::tempdir().unwrap();
        let prefix = prefix.path();
        for folder in ["python3.9", "python3.12", "python", "pkgconfig"] {
            fs::create_dir_all(prefix.join("lib").join(folder)).unwrap();
        }
        let places = places(&prefix.join("bin/dormant"));
        let wanted = [
            "bin/libdormant.so",
            "bin/libdormant_capi.so",
            "lib/libdormant.so",
            "lib/python3.12/site-packages/dormant/_lib/libdormant.so",
            "lib/python3.12/dist-packages/dormant/_lib/libdormant.so",
            "lib/python3.9/site-packages/dormant/_lib/libdormant.so",
            "lib/python3.9/dist-packages/dormant/_lib/libdormant.so",
        ];
        assert_eq!(places, wanted.map(|place| prefix.join(place)));
    }

    #[test]
    fn a_library_that_is_named_and_missing_is_an_error_that_says_who_named_it() {
        let error = find(Some(Path::new("/nowhere/libdormant.so"))).unwrap_err();
        assert_eq!(error, "--library names /nowhere/libdormant.so, and there is no such file");
    }
}
