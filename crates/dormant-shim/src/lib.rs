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
use std::sync::atomic::{AtomicU64, Ordering};

use dormant_interpose::{Instance, Resolved, loaded};

/// Programs look into the file for the features that it has.
#[used]
static FEATURES: [&str; 1] = ["TMS_INIT_ENABLE_DISK_BACKUP"];

// What this file is, for `dormant inspect`; it has no backend and no engine.
dormant_identity::note!(&[], &[]);

/// What answers where no library could be loaded; the number of `DORMANT_STATUS_NO_DRIVER`.
const NO_DRIVER: i32 = 14;

static RESOLVED: OnceLock<Resolved> = OnceLock::new();
/// How many objects were loaded when no instance was found; zero before the first look.
static LOOKED_AT: AtomicU64 = AtomicU64::new(0);

/// The instance, once there is one. Nothing is looked up under a lock of ours: the loader's is taken
/// for it, which another thread may hold while it is on its way here. All threads find the same.
fn resolved() -> Option<&'static Resolved> {
    if let Some(resolved) = RESOLVED.get() {
        return Some(resolved);
    }
    let looked_at = LOOKED_AT.load(Ordering::Acquire);
    if looked_at != 0 && loaded::loads() == looked_at {
        return None;
    }
    // What was not there may be loaded by now, by others; it is only loaded by us the first time.
    let load = || if looked_at == 0 { load() } else { Err(String::new()) };
    let resolved = dormant_interpose::instance(None, None, load);
    let why = match &resolved {
        Resolved::None(why) => {
            LOOKED_AT.store(loaded::loads().max(1), Ordering::Release);
            why
        }
        Resolved::Foreign(why) => why,
        Resolved::Own(_) | Resolved::Other(..) => "",
    };
    if !why.is_empty() && RESOLVED.get().is_none() {
        // Once, where a user is to see it; whoever has closed standard error does not want it.
        let _ = writeln!(std::io::stderr(), "dormant: memory will not be pausable: {why}");
    }
    match resolved {
        Resolved::None(_) => None,
        resolved => Some(RESOLVED.get_or_init(|| resolved)),
    }
}

fn instance() -> Option<&'static Instance> {
    resolved()?.get()
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
        // Relative to the working directory, as for everybody else, not a name for the loader to find.
        Some(path) => vec![std::path::absolute(&path).unwrap_or_else(|_| path.into())],
        None => BESIDE.iter().map(|path| folder.join(path)).collect(),
    }
}

/// Loads the library that was installed with this one.
fn load() -> Result<(), String> {
    let own = loaded::at((dormant_serves as *const ()).cast());
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

/// Which instance this library's hooks hand calls on to; NULL where they are the real functions.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_serves() -> *const Instance {
    instance().map_or(std::ptr::null(), std::ptr::from_ref)
}

dormant_interpose::export_hooks!(instance);

fn there(name: &CStr) -> Option<*mut c_void> {
    match resolved()? {
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
