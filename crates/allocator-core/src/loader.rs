//! Finding a driver library and its symbols: one shape for all backends.
//!
//! A library that the process has loaded already is taken first, under any of its names (the
//! program's own copy, a stand-in); only then is one loaded. Nothing is ever unloaded. No backend
//! links to a GPU library.

use std::ffi::{CStr, CString, c_void};
use std::path::Path;

use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};

use crate::error::{Error, ErrorKind, Operation, Result};

/// A loaded driver library, kept for the life of the process.
#[derive(Debug)]
pub struct Library {
    handle: &'static Handle,
    name: String,
}

impl Library {
    /// Takes the first of `names` that the process has already, else the first that can be
    /// loaded, in the order given.
    ///
    /// # Errors
    /// `NoDriver`, naming every file tried and the loader's own words about the last.
    ///
    /// # Safety
    /// Whichever file is found is a library of the kind that the caller looks for, a driver's say:
    /// its initialisers may be run in any thread, and its symbols are those of such a library.
    pub unsafe fn find(names: &[&str]) -> Result<Self> {
        let mut reason = String::from("no name to look for");
        for flags in [libc::RTLD_NOLOAD, 0] {
            for name in names {
                // SAFETY: the caller's promise.
                match unsafe { Self::open(name, flags) } {
                    Ok(library) => return Ok(library),
                    Err(text) => reason = text,
                }
            }
        }
        Err(Error::new(
            ErrorKind::NoDriver,
            Operation::Open,
            format!("none of {} could be loaded: {reason}", names.join(", ")),
        ))
    }

    /// Takes the file that the environment's `variable` names, else [finds](Self::find) one of
    /// `names`.
    ///
    /// # Errors
    /// `NoDriver`, naming what was tried.
    ///
    /// # Safety
    /// As for [`find`](Self::find); the file that the variable names is such a library too.
    pub unsafe fn chosen(variable: &str, names: &[&str]) -> Result<Self> {
        let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) else {
            // SAFETY: the caller's promise.
            return unsafe { Self::find(names) };
        };
        // SAFETY: the caller's promise.
        unsafe { Self::at(Path::new(&path)) }.map_err(|error| {
            error.with_note(format_args!("this file is the one that {variable} names"))
        })
    }

    /// Takes the library at `path` and no other.
    ///
    /// # Errors
    /// `NoDriver` with the loader's own words.
    ///
    /// # Safety
    /// As for [`find`](Self::find).
    pub unsafe fn at(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        // SAFETY: the caller's promise.
        unsafe { Self::open(&name, 0) }.map_err(|reason| {
            Error::new(
                ErrorKind::NoDriver,
                Operation::Open,
                format!("{name} could not be loaded: {reason}"),
            )
        })
    }

    /// # Safety
    /// As for [`find`](Self::find).
    unsafe fn open(name: &str, flags: i32) -> std::result::Result<Self, String> {
        // SAFETY: the library's initialisers may be run (the caller's promise).
        let opened = unsafe { Handle::open(Some(name), RTLD_NOW | RTLD_LOCAL | flags) };
        match opened {
            // Leaked on purpose: symbols taken from it are plain function pointers.
            Ok(handle) => Ok(Self { handle: Box::leak(Box::new(handle)), name: name.to_owned() }),
            // The loader's own words are the source of the error.
            Err(error) => Err(std::error::Error::source(&error)
                .map_or_else(|| error.to_string(), ToString::to_string)),
        }
    }

    /// The name or path that it was found under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of a symbol, or `None`.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).ok()?;
        // SAFETY: the type asked for is a plain address, which every symbol has.
        let symbol = unsafe { self.handle.get::<*mut c_void>(name.as_bytes_with_nul()) };
        symbol.ok().map(|symbol| symbol.into_raw()).filter(|address| !address.is_null())
    }

    /// The file that the library really is, by the address of one of its symbols.
    #[must_use]
    pub fn file(&self, symbol: &str) -> Option<String> {
        let address = self.symbol(symbol)?;
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: `info` is writable; any address may be asked about.
        let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
        if found == 0 {
            return None;
        }
        // SAFETY: zeroed is a valid Dl_info, and dladdr has filled it.
        let info = unsafe { info.assume_init() };
        if info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: a non-null dli_fname is a NUL-terminated string of the loader's, which lives
        // as long as the library, that is for ever.
        let file = unsafe { CStr::from_ptr(info.dli_fname) };
        Some(file.to_string_lossy().into_owned())
    }

    /// The error for a symbol that is not there.
    #[must_use]
    pub fn missing(&self, symbol: &str) -> Error {
        Error::new(
            ErrorKind::NoDriver,
            Operation::Open,
            format!("{} has no symbol {symbol}; the driver is too old or not a driver", self.name),
        )
    }
}

/// Declares a struct of function pointers and how to load it from a [`Library`].
///
/// ```text
/// symbol_table! {
///     /// What the driver is asked to do.
///     pub(crate) struct Symbols {
///         init: unsafe extern "C" fn(u32) -> i32 = "cuInit",
///     }
///     optional {
///         record: unsafe extern "C" fn(usize) -> i32 = "cuCtxRecordEvent",
///     }
/// }
/// ```
///
/// A missing symbol of the first part is an error that names it; one of the optional part is
/// `None`.
#[macro_export]
macro_rules! symbol_table {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident { $($field:ident: $type:ty = $symbol:literal,)* }
        $(optional { $($option:ident: $option_type:ty = $option_symbol:literal,)* })?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name {
            $($visibility $field: $type,)*
            $($($visibility $option: Option<$option_type>,)*)?
        }

        impl $name {
            /// Looks every symbol up once.
            ///
            /// # Errors
            /// `NoDriver`, naming the symbol that is missing.
            ///
            /// # Safety
            /// The library's functions of these names have these types.
            $visibility unsafe fn load(library: &$crate::loader::Library) -> $crate::Result<Self> {
                Ok(Self {
                    $($field: {
                        let address = library
                            .symbol($symbol)
                            .ok_or_else(|| library.missing($symbol))?;
                        // SAFETY: the caller vouches for the type; both are one pointer wide.
                        unsafe { ::std::mem::transmute::<*mut ::std::ffi::c_void, $type>(address) }
                    },)*
                    $($($option: library.symbol($option_symbol).map(|address| {
                        // SAFETY: as above.
                        unsafe {
                            ::std::mem::transmute::<*mut ::std::ffi::c_void, $option_type>(address)
                        }
                    }),)*)?
                })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    symbol_table! {
        /// The C library, which every process has.
        struct LibC {
            getpid: unsafe extern "C" fn() -> i32 = "getpid",
        }
        optional {
            nothing: unsafe extern "C" fn() -> i32 = "dormant_no_such_symbol",
        }
    }

    symbol_table! {
        #[allow(dead_code, reason = "it never loads")]
        struct Wrong { nothing: unsafe extern "C" fn() -> i32 = "dormant_no_such_symbol", }
    }

    #[test]
    fn a_table_loads_from_a_library_the_process_has() {
        // SAFETY: the process has the C library already, and no file has the other name.
        let library = unsafe { Library::find(&["libdormant-not-there.so", "libc.so.6"]) }.unwrap();
        assert_eq!(library.name(), "libc.so.6");
        // SAFETY: getpid takes nothing and returns an int.
        let table = unsafe { LibC::load(&library) }.unwrap();
        // SAFETY: getpid has no conditions.
        assert_eq!(unsafe { (table.getpid)() }.unsigned_abs(), std::process::id());
        assert!(table.nothing.is_none());
        assert!(library.file("getpid").unwrap().contains("libc"));
    }

    #[test]
    fn a_missing_symbol_is_an_error_that_names_it() {
        // SAFETY: the process has the C library already.
        let library = unsafe { Library::find(&["libc.so.6"]) }.unwrap();
        // SAFETY: the symbol does not exist.
        let error = unsafe { Wrong::load(&library) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoDriver);
        assert!(error.to_string().contains("dormant_no_such_symbol"), "{error}");
    }

    #[test]
    fn a_missing_library_is_an_error_that_names_it() {
        // SAFETY: no file has this name.
        let error = unsafe { Library::find(&["libdormant-not-there.so.1"]) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoDriver);
        assert!(error.to_string().contains("libdormant-not-there.so.1"), "{error}");
        // SAFETY: there is no such file.
        let error = unsafe { Library::at(Path::new("/nowhere/libx.so")) }.unwrap_err();
        assert!(error.to_string().contains("/nowhere/libx.so"), "{error}");
        assert!(error.to_string().contains("No such file"), "the loader's words: {error}");
    }
}
