//! Which build this is, and the marker by which other files of ours find this one.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;

use dormant_interpose::{INSTANCE_ABI, Instance, Object, Resolved, loaded};

use crate::edge::forward;
use crate::hooks::HOOKS;
use crate::text;

static INSTANCE: OnceLock<Instance> = OnceLock::new();
static RESOLVED: OnceLock<Resolved> = OnceLock::new();

fn build() -> &'static CStr {
    static BUILD: OnceLock<std::ffi::CString> = OnceLock::new();
    BUILD.get_or_init(|| text::c_string(&dormant::build_info().to_string()))
}

fn own() -> &'static Instance {
    INSTANCE.get_or_init(|| Instance { abi: INSTANCE_ABI, build: build().as_ptr(), hooks: HOOKS })
}

/// The process's instance, as seen from this file.
pub(crate) fn resolved() -> &'static Resolved {
    if let Some(resolved) = RESOLVED.get() {
        return resolved;
    }
    // Not under a lock of ours: this takes the loader's, which another thread may hold while it is
    // on its way here. All threads find the same.
    let resolved = dormant_interpose::instance(Some(own()), Some(build()), || Ok(()));
    RESOLVED.get_or_init(|| resolved)
}

/// A function of the instance, if that is in another file.
pub(crate) fn elsewhere<F: Copy>(name: &CStr, _like: F) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*const ()>()) };
    let Resolved::Other(_, object) = resolved() else { return None };
    let address = there(object, name)?;
    // SAFETY: both files are of one build, so the functions of one name have one type, a function
    // pointer's by the check above.
    Some(unsafe { std::mem::transmute_copy::<*mut std::ffi::c_void, F>(&address) })
}

fn there(object: &Object, name: &CStr) -> Option<*mut std::ffi::c_void> {
    object.own_symbol(name)
}

/// What this library says of itself to other files of ours.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_instance() -> *const Instance {
    own()
}

/// Which instance this library's hooks hand calls on to; NULL where they are the real functions.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_serves() -> *const Instance {
    resolved().get().map_or(std::ptr::null(), std::ptr::from_ref)
}

/// The version, as `0.1.0`. Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Which build this is, in one line: version, commit, backends, target. Of the file that has the
/// engine, if that is another one. Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_build() -> *const c_char {
    forward!(dormant_build());
    build().as_ptr()
}

/// What this build is, as one JSON object: `version`, `commit` and `source` (the hash of the source
/// tree; null where unknown), `dirty`, `features` (the backends compiled in), `target`, `profile`,
/// `rustc`, `guarantees` (stable names of what it promises). The file has the same as an ELF note.
/// Of the file that has the engine, if that is another one. Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_build_info() -> *const c_char {
    forward!(dormant_build_info());
    static JSON: OnceLock<std::ffi::CString> = OnceLock::new();
    JSON.get_or_init(|| text::c_string(dormant::BuildInfo::json())).as_ptr()
}

/// The path of the library file that is in use: of this one, or of the one that has the engine, if that
/// is another. NULL where the loader does not say. Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_library_path() -> *const c_char {
    forward!(dormant_library_path());
    static PATH: OnceLock<Option<std::ffi::CString>> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let address: extern "C" fn() -> *const c_char = dormant_library_path;
        let object = loaded::at(address as *const c_void)?;
        let name = Path::new(OsStr::from_bytes(object.path.to_bytes()));
        // The program has no name there: the library may be linked into it.
        let file = match name.as_os_str() {
            name if name.is_empty() => std::env::current_exe(),
            _ => name.canonicalize(),
        };
        Some(text::c_path(&file.ok()?))
    });
    path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr())
}
