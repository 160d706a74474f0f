//! Text to and from C.

use std::ffi::{CStr, CString, c_char};
use std::io::Write;

use crate::status::Failed;

/// Text for C; a zero byte inside ends it early.
pub(crate) fn c_string(text: &str) -> CString {
    let until = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..until]).unwrap_or_default()
}

/// Text from C; `None` for NULL.
///
/// # Safety
/// `text` is NULL or ends with a zero byte, and stays as it is for `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, Failed> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(Failed::invalid(format!("{what} is not UTF-8: {text:?}"))),
    }
}

/// One line on standard error, where a user is to see it and no caller can be told.
pub(crate) fn say(line: &str) {
    // Whoever has closed standard error does not want it.
    let _ = writeln!(std::io::stderr(), "dormant: {line}");
}
