//! Text to and from C.

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread::LocalKey;

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

/// A path from C, of any bytes; `None` for NULL.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Option<&'a Path> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    Some(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// A path for C.
pub(crate) fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// Hands out what `value` holds, and keeps it until the thread's next of its kind. What it holds must
/// stay in place when it is moved. At the very end of a thread nothing can be kept any more: there
/// it stays for good.
pub(crate) fn keep<T: 'static, R>(
    slot: &'static LocalKey<RefCell<Option<T>>>,
    value: T,
    hand_out: impl FnOnce(&T) -> R,
) -> R {
    let handed = hand_out(&value);
    let mut value = Some(value);
    let _ = slot.try_with(|slot| *slot.borrow_mut() = value.take());
    if let Some(value) = value {
        Box::leak(Box::new(value));
    }
    handed
}

/// One line on standard error, where a user is to see it and no caller can be told.
pub(crate) fn say(line: &str) {
    // Whoever has closed standard error does not want it.
    let _ = writeln!(std::io::stderr(), "dormant: {line}");
}
