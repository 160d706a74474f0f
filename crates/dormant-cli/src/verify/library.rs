//! `libdormant.so`, loaded, and its suite.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use dormant::Backend;
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};

use crate::identity::Identity;
use crate::verify::record::{Case, Outcome};

type Each = unsafe extern "C" fn(
    area: *const c_char,
    name: *const c_char,
    outcome: i32,
    ms: u64,
    reason: *const c_char,
    user: *mut c_void,
);

type Verify = unsafe extern "C" fn(
    backend: *const c_char,
    devices: *const u32,
    count: usize,
    limit_bytes: u64,
    alone: i32,
    each: Option<Each>,
    user: *mut c_void,
) -> i32;

/// The beginning of the header's `DormantError`.
#[repr(C)]
struct LastError {
    size: u32,
    status: i32,
    kind: *const c_char,
    text: *const c_char,
}

type GetLastError = unsafe extern "C" fn(*mut LastError) -> i32;
type GetText = unsafe extern "C" fn() -> *const c_char;

/// How to run the suite.
#[derive(Clone, Debug)]
pub(crate) struct SuiteRun {
    pub(crate) backend: Backend,
    pub(crate) devices: Vec<u32>,
    pub(crate) limit_bytes: u64,
    pub(crate) alone: bool,
}

/// The library, which stays loaded.
#[derive(Debug)]
pub(crate) struct Library {
    handle: Handle,
}

impl Library {
    /// Loads a file that says that it is of this very build.
    ///
    /// # Errors
    /// The loader's words.
    ///
    /// # Safety
    /// It is the `libdormant.so` of this build.
    pub(crate) unsafe fn load(path: &Path) -> Result<Self, String> {
        // SAFETY: the caller's promise: its initialisers are ours.
        let handle = unsafe { Handle::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        handle.map(|handle| Self { handle }).map_err(|error| error.to_string())
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `F` is its type, a pointer.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, String> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.handle.get::<F>(name.as_bytes()) };
        found.map(|found| *found).map_err(|error| format!("the library has no {name}: {error}"))
    }

    fn text(&self, name: &str) -> Result<Option<&CStr>, String> {
        // SAFETY: all functions that this is asked for are of this type.
        let get = unsafe { self.function::<GetText>(name) }?;
        // SAFETY: they have no conditions.
        let text = unsafe { get() };
        // SAFETY: what they return lives for ever.
        Ok((!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }))
    }

    /// The file that answers: another one, if one was in the process before.
    ///
    /// # Errors
    /// It does not say.
    pub(crate) fn path(&self) -> Result<PathBuf, String> {
        let path = self.text("dormant_library_path")?;
        let path = path.ok_or("the loader does not say which file was loaded")?;
        Ok(Path::new(OsStr::from_bytes(path.to_bytes())).to_owned())
    }

    /// What it says that it is, now that it runs.
    ///
    /// # Errors
    /// It makes no sense.
    pub(crate) fn identity(&self) -> Result<Identity, String> {
        let json = self.text("dormant_build_info")?.unwrap_or_default();
        Identity::parse(&json.to_string_lossy())
    }

    /// Runs the suite; `tell` gets each case as it ends.
    ///
    /// # Errors
    /// It could not be run to its end; the text says why.
    pub(crate) fn verify(&self, run: &SuiteRun, tell: &dyn Fn(Case)) -> Result<(), String> {
        // SAFETY: the function's type in this build.
        let verify = unsafe { self.function::<Verify>("dormant_verify") }?;
        let backend = CString::new(run.backend.name()).unwrap_or_default();
        let mut tell = tell;
        // SAFETY: a text, an array of as many ordinals, and a function that gets what it expects and
        // does not unwind.
        let status = unsafe {
            verify(
                backend.as_ptr(),
                run.devices.as_ptr(),
                run.devices.len(),
                run.limit_bytes,
                run.alone.into(),
                Some(each),
                (&raw mut tell).cast(),
            )
        };
        if status == 0 { Ok(()) } else { Err(self.last_error(status)) }
    }

    fn last_error(&self, status: i32) -> String {
        let null = std::ptr::null;
        let size = u32::try_from(size_of::<LastError>()).unwrap_or_default();
        let mut error = LastError { size, status, kind: null(), text: null() };
        // SAFETY: the function's type in this build.
        if let Ok(get) = unsafe { self.function::<GetLastError>("dormant_last_error") } {
            // SAFETY: the size is set.
            unsafe { get(&raw mut error) };
        }
        if error.text.is_null() {
            return format!("status {status}");
        }
        // SAFETY: a text that lives until the thread's next calls.
        unsafe { CStr::from_ptr(error.text) }.to_string_lossy().into_owned()
    }
}

/// Hands a case on to the closure that `user` points to.
unsafe extern "C" fn each(
    area: *const c_char,
    name: *const c_char,
    outcome: i32,
    ms: u64,
    reason: *const c_char,
    user: *mut c_void,
) {
    let text = |text: *const c_char| {
        // SAFETY: the library's texts live as long as this call.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
        text.map(|text| text.to_string_lossy().into_owned())
    };
    let outcome = match outcome {
        0 => Outcome::Passed,
        2 => Outcome::Skipped,
        _ => Outcome::Failed,
    };
    let (case, area) = (text(name).unwrap_or_default(), text(area).unwrap_or_default());
    // SAFETY: `verify` passed it, and is still running.
    let tell = unsafe { *user.cast::<&dyn Fn(Case)>() };
    let reason = text(reason);
    // Sending cannot fail in a way that would unwind into the library.
    let case = Case { case, area, outcome, ms, reason };
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tell(case)));
}
