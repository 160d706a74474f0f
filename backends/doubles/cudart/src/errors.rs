//! Names of errors, and the last one of a thread.

use std::ffi::{CStr, c_char};
use std::ptr;

use double_common::Code;
use double_common::errors::{Meaning, last, meaning, take_last};

fn known(code: Code, which: impl Fn(&Meaning) -> &'static CStr) -> *const c_char {
    let unknown = c"unrecognized error code";
    meaning(code).map_or(ptr::from_ref(unknown).cast(), |found| which(found).as_ptr())
}

/// A code's name.
#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(code: Code) -> *const c_char {
    known(code, |meaning| meaning.runtime)
}

/// What a code means.
#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(code: Code) -> *const c_char {
    known(code, |meaning| meaning.text)
}

/// This thread's last error, and forgets it.
#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> Code {
    take_last()
}

/// This thread's last error.
#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> Code {
    last()
}
