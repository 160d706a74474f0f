//! The edge between C and the engine: panics stop here, sized structs are read and written here.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use dormant::{Engine, ErrorKind};
use dormant_host::process;
use dormant_interpose::Resolved;

use crate::memory::refuse_in_a_child;
use crate::status::{Failed, remember};
use crate::types::DormantStatus;
use crate::{captures, config, environment, identity};

static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();

/// Whether a region asked for memory that could not be made pausable, and was given plain memory.
static MISSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is in a call of ours already. Without a destructor, so that it is there
    /// until the thread's very end.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Hands a call on to the file that has the engine, if that is another one.
macro_rules! forward {
    ($name:ident($($argument:ident),*)) => {
        if let Some(there) = $crate::identity::elsewhere(
            dormant_interpose::c_name!($name),
            $name as unsafe extern "C" fn($($crate::edge::forward!(@any $argument)),*) -> _,
        ) {
            // SAFETY: the same function of the same build; the caller's own arguments.
            return unsafe { there($($argument),*) };
        }
    };
    (@any $argument:ident) => { _ };
}
pub(crate) use forward;

/// The engine, opened at the first call.
pub(crate) fn engine() -> Result<&'static Engine, Failed> {
    refuse_in_a_child()?;
    refuse_at_the_end()?;
    if let Resolved::Foreign(text) = identity::resolved() {
        return Err(Failed::new(DormantStatus::TwoBuilds, text.clone()));
    }
    if let Some(engine) = opened() {
        return Ok(engine);
    }
    environment::ready();
    let opened = match dormant::engine_with(config::chosen()) {
        // Another thread was quicker.
        Err(error) if error.kind() == ErrorKind::WrongState => dormant::engine(),
        opened => opened,
    }?;
    captures::tell_and_publish(&opened, || {
        ENGINE.get_or_init(|| Arc::clone(&opened));
    });
    self::opened().ok_or_else(|| Failed::new(DormantStatus::Internal, "the engine is not there"))
}

/// While the process ends, libraries may be gone: drivers are left alone.
pub(crate) fn refuse_at_the_end() -> Result<(), Failed> {
    if process::is_exiting() {
        return Err(Failed::new(DormantStatus::WrongState, "the process ends"));
    }
    Ok(())
}

/// The engine, if it has been opened.
pub(crate) fn opened() -> Option<&'static Engine> {
    ENGINE.get().map(|engine| &**engine)
}

/// Remembers that a region was given memory that cannot be paused.
pub(crate) fn miss() {
    MISSED.store(true, Ordering::Relaxed);
}

/// Whether one was.
pub(crate) fn has_missed() -> bool {
    MISSED.load(Ordering::Relaxed)
}

/// Whether this thread is in a call of ours.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Calls the program back from inside a call of ours: what it does there is its own, hooks included.
pub(crate) fn outside<T>(call: impl FnOnce() -> T) -> T {
    let inside = INSIDE.replace(false);
    let result = call();
    INSIDE.set(inside);
    result
}

/// Runs what a call does; nothing unwinds out of it.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    let outer = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(outer);
    result.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic".to_owned());
        Err(Failed::new(DormantStatus::Internal, format!("a defect of dormant: {text}")))
    })
}

/// Runs what a call does, remembers its failure, and answers with the status.
pub(crate) fn entry(work: impl FnOnce() -> Result<(), Failed>) -> DormantStatus {
    match guarded(work) {
        Ok(()) => DormantStatus::Ok,
        Err(failed) => remember(failed),
    }
}

/// The place for a result, which must not be NULL.
///
/// # Safety
/// `place` is NULL or can be written for `'a`.
pub(crate) unsafe fn place<'a, T>(place: *mut T, what: &str) -> Result<&'a mut T, Failed> {
    // SAFETY: the caller's promise.
    unsafe { place.as_mut() }.ok_or_else(|| Failed::invalid(format!("{what} is NULL")))
}

/// Refuses a count of things that no memory could hold.
pub(crate) fn bounded<T>(count: usize, what: &str) -> Result<(), Failed> {
    match count.checked_mul(size_of::<T>()).map(isize::try_from) {
        Some(Ok(_)) => Ok(()),
        _ => Err(Failed::invalid(format!("{count} is no number of {what} that there can be"))),
    }
}

/// The size that a sized struct says it has.
///
/// # Safety
/// `from` points to a struct whose first field is its size, a `u32`.
unsafe fn said_size<T>(from: *const T) -> Result<usize, Failed> {
    // SAFETY: the caller's promise; the first field lies at the start.
    let size = unsafe { from.cast::<u32>().read_unaligned() } as usize;
    if size < size_of::<u64>() || size > 4096 {
        let name = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
        return Err(Failed::invalid(format!("{name}.size is {size}; set it to sizeof({name})")));
    }
    Ok(size.min(size_of::<T>()))
}

/// Refuses a place for a sized struct that has no sensible size, before anything is done.
///
/// # Safety
/// `place` is NULL or points to a struct whose first field is its size, a `u32`.
pub(crate) unsafe fn check_sized<T>(place: *const T) -> Result<(), Failed> {
    if place.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { said_size(place) }.map(drop)
}

/// Reads a sized struct over `otherwise`, which holds what a caller of an older header leaves out.
///
/// # Safety
/// `from` is NULL or points to as many bytes as its `size` says; any bytes are a `T`.
pub(crate) unsafe fn read_sized<T: Copy>(from: *const T, otherwise: T) -> Result<T, Failed> {
    let mut value = otherwise;
    if !from.is_null() {
        // SAFETY: the caller's promise.
        let size = unsafe { said_size(from) }?;
        // SAFETY: no more bytes than either has; they are apart.
        unsafe { from.cast::<u8>().copy_to_nonoverlapping((&raw mut value).cast(), size) };
    }
    Ok(value)
}

/// Writes as much of a sized struct as the caller has room for, and leaves its `size`.
///
/// # Safety
/// `to` is NULL or points to as many bytes as its `size` says.
pub(crate) unsafe fn write_sized<T: Copy>(to: *mut T, value: T) -> Result<(), Failed> {
    if to.is_null() {
        return Err(Failed::invalid("the place for the result is NULL"));
    }
    // SAFETY: the caller's promise.
    let size = unsafe { said_size(to) }?;
    let skip = size_of::<u32>();
    let from = (&raw const value).cast::<u8>();
    let to = to.cast::<u8>();
    // SAFETY: it has at least `size` bytes, which is more than `skip`.
    let from = unsafe { from.add(skip) };
    // SAFETY: as above.
    let to = unsafe { to.add(skip) };
    // SAFETY: both have that many bytes left, and they are apart.
    unsafe { from.copy_to_nonoverlapping(to, size - skip) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::dormant_last_error;
    use crate::types::{DormantError, DormantReport};

    #[test]
    fn a_panic_is_an_answer_and_the_next_call_works() {
        assert_eq!(entry(|| panic!("of {}", "this test")), DormantStatus::Internal);
        assert!(!is_inside());
        // SAFETY: numbers and pointers, all of which may be zero.
        let mut error: DormantError = unsafe { std::mem::zeroed() };
        error.size = u32::try_from(size_of::<DormantError>()).unwrap();
        // SAFETY: the size is set.
        assert_eq!(unsafe { dormant_last_error(&raw mut error) }, DormantStatus::Ok);
        // SAFETY: a text of the last error, which is still the last.
        let text = unsafe { std::ffi::CStr::from_ptr(error.text) }.to_str().unwrap();
        assert_eq!(
            (error.status, text),
            (DormantStatus::Internal, "a defect of dormant: of this test")
        );
        assert_eq!(entry(|| Ok(())), DormantStatus::Ok);
    }

    #[test]
    fn a_caller_of_an_older_header_gets_what_it_knows_and_gives_what_it_has() {
        let mut report = DormantReport { size: 8, workers: 1, ..DormantReport::default() };
        let value = DormantReport { size: 0, workers: 7, copy_ns: 9, ..DormantReport::default() };
        // SAFETY: it has more than 8 bytes.
        unsafe { write_sized(&raw mut report, value) }.unwrap();
        assert_eq!((report.size, report.workers, report.copy_ns), (8, 7, 0));
        let otherwise = DormantReport { copy_ns: 5, ..DormantReport::default() };
        // SAFETY: as above.
        let read = unsafe { read_sized(&raw const report, otherwise) }.unwrap();
        assert_eq!((read.workers, read.copy_ns), (7, 5));
        report.size = 3;
        // SAFETY: its size is read and nothing else.
        let refused = unsafe { read_sized(&raw const report, otherwise) }.unwrap_err();
        assert_eq!(refused.status, DormantStatus::InvalidArgument);
    }
}
