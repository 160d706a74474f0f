//! The real function behind a hook.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::loaded;

/// A function that a hook of ours stands in front of. Looked up at its first use, and again until
/// it is there: the library that has it may be loaded later.
#[derive(Debug)]
pub struct Real {
    name: &'static CStr,
    /// How the names of libraries begin that have it.
    libraries: &'static [&'static str],
    found: AtomicPtr<c_void>,
}

impl Real {
    /// A function by name, and how the names of the libraries begin that have it.
    #[must_use]
    pub const fn new(name: &'static CStr, libraries: &'static [&'static str]) -> Self {
        Self { name, libraries, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// Its address: the next definition after the library that this code is in; else, since that
    /// leaves out what was opened with `RTLD_LOCAL` later, the one in a loaded library of the
    /// known names.
    #[must_use]
    pub fn address(&self) -> Option<*mut c_void> {
        let found = self.found.load(Ordering::Acquire);
        if !found.is_null() {
            return Some(found);
        }
        let found = self.next().or_else(|| self.among_the_loaded())?;
        // What is remembered must stay, although whoever opened its library may close it again.
        if let Some(object) = loaded::at(found) {
            object.keep();
        }
        self.found.store(found, Ordering::Release);
        Some(found)
    }

    fn next(&self) -> Option<*mut c_void> {
        // SAFETY: the name ends with a zero byte; RTLD_NEXT asks from the library of this code.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    fn among_the_loaded(&self) -> Option<*mut c_void> {
        loaded::objects()
            .into_iter()
            .filter(|object| {
                let name = object.file_name();
                self.libraries.iter().any(|start| name.starts_with(start.as_bytes()))
            })
            .find_map(|object| object.own_symbol(self.name))
    }
}
