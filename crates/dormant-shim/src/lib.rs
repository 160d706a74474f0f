//! A library without an engine: it exports the hooks and the names that users of
//! `torch_memory_saver` know, finds the one `libdormant.so` of the process (or loads the one that
//! was installed with it) and hands each call on.
//!
//! Programs look for such a library under several file names, so it is installed as several byte
//! copies; since none of them has a state, all of them are one.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dormant_interpose::{Instance, Resolved, loaded};

/// Programs look into the file for the features that it has.
#[used]
static FEATURES: [&str; 1] = ["TMS_INIT_ENABLE_DISK_BACKUP"];

/// What answers where no library could be loaded; the number of `DORMANT_STATUS_NO_DRIVER`.
const NO_DRIVER: i32 = 14;

static RESOLVED: OnceLock<Resolved> = OnceLock::new();

fn resolved() -> &'static Resolved {
    RESOLVED.get_or_init(|| {
        let resolved = dormant_interpose::instance(None, None, load);
        if let Resolved::None(why) | Resolved::Foreign(why) = &resolved {
            // Once, where a user is to see it; whoever has closed standard error does not want it.
            let _ = writeln!(std::io::stderr(), "dormant: memory will not be pausable: {why}");
        }
        resolved
    })
}

fn instance() -> Option<&'static Instance> {
    resolved().get()
}

/// The places where `libdormant.so` may lie, seen from this library's folder.
fn candidates(folder: &Path) -> Vec<PathBuf> {
    const BESIDE: [&str; 4] = [
        "torch_memory_saver/_dormant/_lib/libdormant.so",
        "dormant/_lib/libdormant.so",
        "libdormant.so",
        "libdormant_capi.so",
    ];
    match std::env::var_os("DORMANT_LIBRARY").filter(|path| !path.is_empty()) {
        Some(path) => vec![path.into()],
        None => BESIDE.iter().map(|path| folder.join(path)).collect(),
    }
}

/// Loads the library that was installed with this one.
fn load() -> Result<(), String> {
    let own = loaded::at((dormant_shim as *const ()).cast());
    let own = own.map(|object| PathBuf::from(OsStr::from_bytes(object.path.to_bytes())));
    let folder = own.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    let mut tried = Vec::new();
    for path in candidates(folder) {
        let Ok(name) = CString::new(path.clone().into_os_string().into_vec()) else { continue };
        // SAFETY: a library of ours; its initialisers do nothing.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if !handle.is_null() {
            return Ok(());
        }
        tried.push(path.display().to_string());
    }
    Err(format!("libdormant.so is not at {}", tried.join(", nor at ")))
}

/// Marks this library as one of ours.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_shim() {}

dormant_interpose::export_hooks!(instance);

fn there(name: &CStr) -> Option<*mut c_void> {
    match resolved() {
        Resolved::Other(_, object) => object.own_symbol(name),
        Resolved::None(_) | Resolved::Own(_) | Resolved::Foreign(_) => None,
    }
}

/// Exports names of the engine's library, with what each answers where there is none.
macro_rules! hand_on {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty = $otherwise:expr)?;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the engine's library.")]
        ///
        /// # Safety
        /// As for the function there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
            let Some(there) = there(dormant_interpose::c_name!($name)) else {
                return $($otherwise)?;
            };
            // SAFETY: the engine's library has a function of this name and type.
            let there = unsafe { std::mem::transmute::<*mut c_void, Function>(there) };
            // SAFETY: the caller's own arguments.
            unsafe { there($($argument),*) }
        }
    )*};
}

hand_on! {
    set_memory_margin_bytes(bytes: u64);
    tms_set_interesting_region(on: u8);
    tms_get_interesting_region() -> bool = false;
    tms_set_current_tag(tag: *const c_char);
    tms_get_current_tag() -> *const c_char = c"default".as_ptr();
    tms_set_enable_cpu_backup(on: u8);
    tms_get_enable_cpu_backup() -> bool = false;
    tms_set_cpu_backup_backend(backend: *const c_char);
    tms_get_cpu_backup_backend() -> *const c_char = c"pinned".as_ptr();
    tms_set_enable_disk_backup(on: u8);
    tms_get_enable_disk_backup() -> bool = false;
    tms_set_disk_backup_dir(directory: *const c_char);
    tms_set_retain_cpu_backup(on: u8);
    tms_get_retain_cpu_backup() -> bool = false;
    tms_pause(tag: *const c_char) -> i32 = NO_DRIVER;
    tms_resume(tag: *const c_char) -> i32 = NO_DRIVER;
    tms_get_cpu_backup_pointer(place: *const c_void, size: u64) -> *const c_void = std::ptr::null();
    tms_torch_malloc(bytes: isize, device: i32, stream: *mut c_void) -> *mut c_void =
        std::ptr::null_mut();
    tms_torch_free(block: *mut c_void, bytes: isize, device: i32, stream: *mut c_void);
}
