//! The objects that the process has loaded, in the order of loading.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ops::Range;

/// A loaded library, or the program.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its path as the loader knows it; empty for the program.
    pub path: CString,
    /// Where its segments lie.
    segments: Vec<Range<usize>>,
}

unsafe extern "C" fn note(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    objects: *mut c_void,
) -> c_int {
    // SAFETY: `objects` is the vector that `objects()` passed, which outlives the walk.
    let objects = unsafe { &mut *objects.cast::<Vec<Object>>() };
    // SAFETY: the loader's own description, valid during the callback.
    let info = unsafe { &*info };
    if info.dlpi_name.is_null() || info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader's NUL-terminated name.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned();
    // SAFETY: the loader gives this many headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let place = |address: u64| usize::try_from(address).unwrap_or(usize::MAX);
    let segments = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD)
        .map(|header| {
            let start = place(info.dlpi_addr).wrapping_add(place(header.p_vaddr));
            start..start.saturating_add(place(header.p_memsz))
        })
        .collect();
    objects.push(Object { path, segments });
    0
}

/// Everything that is loaded, the program first.
#[must_use]
pub fn objects() -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: the callback gets the vector, and neither unwinds nor keeps anything.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut objects).cast()) };
    objects
}

unsafe extern "C" fn note_loads(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    loads: *mut c_void,
) -> c_int {
    // SAFETY: the loader's own description, valid during the callback.
    let count = unsafe { (*info).dlpi_adds };
    // SAFETY: the number that `loads()` passed, which outlives the walk.
    unsafe { *loads.cast::<u64>() = count };
    1 // One is enough.
}

/// How many objects were ever loaded: whether there is something new.
#[must_use]
pub fn loads() -> u64 {
    let mut loads = 0_u64;
    // SAFETY: the callback gets the number, and neither unwinds nor keeps anything.
    unsafe { libc::dl_iterate_phdr(Some(note_loads), (&raw mut loads).cast()) };
    loads
}

/// The object that an address lies in.
#[must_use]
pub fn at(address: *const c_void) -> Option<Object> {
    objects().into_iter().find(|object| object.contains(address))
}

/// A symbol as a library that is loaded now binds to it: the program's, a preloaded library's, one of
/// their dependencies, or of a library opened for all.
#[must_use]
pub fn program_symbol(name: &CStr) -> Option<*mut c_void> {
    Object { path: CString::default(), segments: Vec::new() }.symbol(name)
}

impl Object {
    /// Whether an address lies in it.
    #[must_use]
    pub fn contains(&self, address: *const c_void) -> bool {
        self.segments.iter().any(|segment| segment.contains(&address.addr()))
    }

    /// The path's last part.
    #[must_use]
    pub fn file_name(&self) -> &[u8] {
        let path = self.path.to_bytes();
        path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
    }

    /// Keeps it loaded for good.
    pub fn keep(&self) {
        // It is marked so; the count that this takes is given back.
        self.with_handle(libc::RTLD_NODELETE, |_| ());
    }

    /// A symbol of this very object, not of what it depends on.
    #[must_use]
    pub fn own_symbol(&self, name: &CStr) -> Option<*mut c_void> {
        self.symbol(name).filter(|address| self.contains(*address))
    }

    /// A symbol that the object, or something that it depends on, has.
    #[must_use]
    pub fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is the loader's, the name ends with a zero byte.
        let address =
            self.with_handle(0, |handle| unsafe { libc::dlsym(handle, name.as_ptr()) })?;
        (!address.is_null()).then_some(address)
    }

    /// Runs something with the loader's handle, if the object is loaded still.
    fn with_handle<T>(&self, flags: c_int, run: impl FnOnce(*mut c_void) -> T) -> Option<T> {
        let path = if self.path.is_empty() { std::ptr::null() } else { self.path.as_ptr() };
        // SAFETY: nothing is loaded that is not loaded already, so no initialiser runs.
        let handle = unsafe { libc::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD | flags) };
        if handle.is_null() {
            return None;
        }
        let result = run(handle);
        // SAFETY: gives back the count that dlopen took; the object stays, others hold it.
        unsafe { libc::dlclose(handle) };
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_found_by_name_by_address_and_by_symbol() {
        let objects = objects();
        assert!(objects[0].path.is_empty(), "the program comes first");
        let libc =
            objects.iter().find(|object| object.file_name().starts_with(b"libc.so")).unwrap();
        let getpid = libc.own_symbol(c"getpid").unwrap();
        assert_eq!(at(getpid).unwrap().path, libc.path);
        assert!(libc.own_symbol(c"dormant_no_such_symbol").is_none());
        assert!(objects[0].own_symbol(c"getpid").is_none(), "the program only depends on it");
        assert_eq!(program_symbol(c"getpid"), Some(getpid));
        assert!(program_symbol(c"dormant_no_such_symbol").is_none());
    }
}
