//! The names that users of `torch_memory_saver` know. Settings are switches of the thread: they
//! change what holds at its innermost region level, and outside every region for good. A thread
//! that never set them starts from the environment.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dormant::region::{self, Current, Place};
use dormant::{Device, Engine, HostMode, PauseOptions, Policy, ResumeOptions, Selection, Tag};
use dormant_host::process;
use dormant_interpose::{FreeFn, MallocFn, call_real};

use crate::edge::{entry, forward, guarded};
use crate::environment;
use crate::hooks;
use crate::loans;
use crate::memory::{allocate_for_runtime, dormant_set_margin_bytes};
use crate::status::{Failed, remember};
use crate::text::{c_string, keep, path, say, text};
use crate::torch::free_untold;
use crate::transitions::transition;
use crate::types::DormantStatus;

/// The marks of a place say what was switched.
pub(crate) const KNOWN: u32 = 1;
pub(crate) const CPU: u32 = 2;
pub(crate) const DISK: u32 = 4;
pub(crate) const MMAP: u32 = 8;

/// Whether host memory of backups is retained: of the whole process, as for users of these names.
static RETAIN: AtomicBool = AtomicBool::new(false);
/// The switch has been on: it holds for memory from before, too.
static SWITCHED: AtomicBool = AtomicBool::new(false);
/// Some may be retained that is to go back.
static RETAINED: AtomicBool = AtomicBool::new(false);

/// Says whether host memory of backups is retained.
pub(crate) fn retain(on: bool) {
    RETAIN.store(on, Ordering::Relaxed);
    if on {
        SWITCHED.store(true, Ordering::Relaxed);
        RETAINED.store(true, Ordering::Relaxed);
    }
}

fn switched_mode() -> HostMode {
    match RETAIN.load(Ordering::Relaxed) {
        true => HostMode::Retain,
        false => HostMode::Reclaim,
    }
}

/// How to pause: once the switch has been on, what is paused is held as it says now.
fn pausing() -> PauseOptions {
    let mut how = PauseOptions::default();
    how.host_mode = SWITCHED.load(Ordering::Relaxed).then(switched_mode);
    how
}

/// How backups of a place's memory are held: as it says itself; that of these switches goes back after
/// each resume, unless it is to be retained.
pub(crate) fn host_mode(place: &Place) -> Option<HostMode> {
    let is_ours = place.marks & KNOWN != 0;
    place.settings.host_mode.or_else(|| is_ours.then(switched_mode))
}

/// What the innermost region of this thread says, and how its backups are held.
pub(crate) fn current() -> Current {
    match region::current() {
        Current::Inside(mut settings) => {
            settings.host_mode = host_mode(&region::place());
            Current::Inside(settings)
        }
        other => other,
    }
}

/// After a transition: what was retained and is not to be any more goes back, unless a backup is in it.
fn give_back(engine: &Engine) {
    if !RETAIN.load(Ordering::Relaxed) && RETAINED.load(Ordering::Relaxed) {
        engine.trim();
        if engine.stats().host_retained_bytes == 0 {
            RETAINED.store(false, Ordering::Relaxed);
        }
    }
}

/// The policy that the switches come to. A copy on disk is wanted to spare host memory, so it wins.
pub(crate) fn policy(marks: u32) -> Policy {
    if marks & DISK != 0 {
        Policy::Disk
    } else if marks & CPU != 0 {
        Policy::Host
    } else {
        Policy::Discard
    }
}

/// A place's marks; one that no switch has touched says what its policy comes to.
fn marks(place: &Place) -> u32 {
    if place.marks & KNOWN != 0 {
        return place.marks;
    }
    let backup = match place.settings.policy {
        Policy::Host => CPU,
        Policy::Disk => DISK,
        _ => 0,
    };
    place.marks | KNOWN | backup
}

fn switch(mark: u32, on: bool) {
    environment::ready();
    let outermost = region::outermost().settings.directory;
    region::amend(|place| {
        let before = marks(place);
        place.marks = if on { before | mark } else { before & !mark };
        // A policy that no switch stands for stays, until one asks for a backup.
        if (before ^ place.marks) & (CPU | DISK) != 0 {
            place.settings.policy = policy(place.marks);
        }
        // A region that was not for the disk names no directory; the environment's still holds.
        if mark & DISK != 0 && on && place.settings.directory.is_none() {
            place.settings.directory = outermost;
        }
    });
}

fn is_switched(mark: u32) -> bool {
    environment::ready();
    marks(&region::place()) & mark != 0
}

/// An allocation through the hooks or torch is refused as out of memory when it would leave less than
/// this free.
#[unsafe(no_mangle)]
pub extern "C" fn set_memory_margin_bytes(bytes: u64) {
    dormant_set_margin_bytes(bytes);
}

/// Whether new memory of this thread is pausable.
#[unsafe(no_mangle)]
pub extern "C" fn tms_set_interesting_region(on: u8) {
    forward!(tms_set_interesting_region(on));
    environment::ready();
    region::amend(|place| place.on = on != 0);
}

/// Whether new memory of this thread is pausable.
#[unsafe(no_mangle)]
pub extern "C" fn tms_get_interesting_region() -> bool {
    forward!(tms_get_interesting_region());
    environment::ready();
    region::is_on()
}

/// The tag of new memory; NULL is the tag `default`.
///
/// # Safety
/// `tag` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tms_set_current_tag(tag: *const c_char) {
    forward!(tms_set_current_tag(tag));
    entry(|| {
        environment::ready();
        // SAFETY: the caller's promise.
        let tag = unsafe { text(tag, "the tag") }?.unwrap_or("default");
        if tag.is_empty() {
            return Err(Failed::invalid("the tag is empty"));
        }
        region::amend(|place| place.settings.tag = Tag::from(tag));
        Ok(())
    });
}

thread_local! {
    static TAG: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// The tag of new memory. The text lives until the thread's next call of this.
#[unsafe(no_mangle)]
pub extern "C" fn tms_get_current_tag() -> *const c_char {
    forward!(tms_get_current_tag());
    environment::ready();
    let tag = c_string(region::place().settings.tag.as_str());
    keep(&TAG, tag, |tag| tag.as_ptr())
}

/// Whether contents of new memory are kept in host memory.
#[unsafe(no_mangle)]
pub extern "C" fn tms_set_enable_cpu_backup(on: u8) {
    forward!(tms_set_enable_cpu_backup(on));
    switch(CPU, on != 0);
}

/// Whether contents of new memory are kept in host memory.
#[unsafe(no_mangle)]
pub extern "C" fn tms_get_enable_cpu_backup() -> bool {
    forward!(tms_get_enable_cpu_backup());
    is_switched(CPU)
}

/// How host memory holds contents: `pinned` or `mmap`. Both are served alike.
///
/// # Safety
/// `backend` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tms_set_cpu_backup_backend(backend: *const c_char) {
    forward!(tms_set_cpu_backup_backend(backend));
    entry(|| {
        // SAFETY: the caller's promise.
        match unsafe { text(backend, "the backend") }? {
            Some("pinned") | None => switch(MMAP, false),
            Some("mmap") => switch(MMAP, true),
            Some(other) => {
                say(&format!("the backup backend `{other}` is neither pinned nor mmap: ignored"));
                return Err(Failed::invalid(format!("no backup backend is called `{other}`")));
            }
        }
        Ok(())
    });
}

/// `pinned` or `mmap`. Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn tms_get_cpu_backup_backend() -> *const c_char {
    forward!(tms_get_cpu_backup_backend());
    if is_switched(MMAP) { c"mmap".as_ptr() } else { c"pinned".as_ptr() }
}

/// Whether contents of new memory are kept on disk; wins over host memory.
#[unsafe(no_mangle)]
pub extern "C" fn tms_set_enable_disk_backup(on: u8) {
    forward!(tms_set_enable_disk_backup(on));
    switch(DISK, on != 0);
}

/// Whether contents of new memory are kept on disk.
#[unsafe(no_mangle)]
pub extern "C" fn tms_get_enable_disk_backup() -> bool {
    forward!(tms_get_enable_disk_backup());
    is_switched(DISK)
}

/// Where contents of new memory go that are kept on disk; NULL: where the configuration says.
///
/// # Safety
/// `directory` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tms_set_disk_backup_dir(directory: *const c_char) {
    forward!(tms_set_disk_backup_dir(directory));
    entry(|| {
        environment::ready();
        // SAFETY: the caller's promise.
        let directory = unsafe { path(directory) };
        let directory = directory.filter(|directory| !directory.as_os_str().is_empty());
        region::amend(|place| place.settings.directory = directory.map(Arc::from));
        Ok(())
    });
}

/// Whether host memory of backups is kept from one pause to the next: of the whole process, from the next
/// `tms_pause` on.
#[unsafe(no_mangle)]
pub extern "C" fn tms_set_retain_cpu_backup(on: u8) {
    forward!(tms_set_retain_cpu_backup(on));
    environment::ready();
    retain(on != 0);
}

/// Whether host memory of backups is kept from one pause to the next.
#[unsafe(no_mangle)]
pub extern "C" fn tms_get_retain_cpu_backup() -> bool {
    forward!(tms_get_retain_cpu_backup());
    environment::ready();
    RETAIN.load(Ordering::Relaxed)
}

/// # Safety
/// `tag` is NULL, for all tags, or a text.
unsafe fn selected(tag: *const c_char) -> Result<Selection, Failed> {
    // SAFETY: the caller's promise.
    Ok(unsafe { text(tag, "the tag") }?.map_or(Selection::All, Selection::from))
}

/// As `dormant_pause` of a tag, or of all for NULL. Answers with a `DormantStatus`.
///
/// # Safety
/// `tag` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tms_pause(tag: *const c_char) -> DormantStatus {
    forward!(tms_pause(tag));
    entry(|| {
        // SAFETY: the caller's promise.
        let selection = unsafe { selected(tag) }?;
        let pause = |engine: &Engine| engine.pause(selection, &pausing());
        transition(|engine| pause(engine).inspect(|_| give_back(engine))).map(drop)
    })
}

/// As `dormant_resume` of a tag, or of all for NULL. Answers with a `DormantStatus`.
///
/// # Safety
/// `tag` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tms_resume(tag: *const c_char) -> DormantStatus {
    forward!(tms_resume(tag));
    entry(|| {
        // SAFETY: the caller's promise.
        let selection = unsafe { selected(tag) }?;
        let resume = |engine: &Engine| engine.resume(selection, &ResumeOptions::default());
        transition(|engine| resume(engine).inspect(|_| give_back(engine))).map(drop)
    })
}

/// The saved contents at a place in a paused block; they live until the block is resumed or freed. NULL if
/// it is active, not ours, or without saved contents, or if fewer than `size` bytes follow: the
/// thread's last error says which.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tms_get_cpu_backup_pointer(
    place: *const c_void,
    size: u64,
) -> *const c_void {
    forward!(tms_get_cpu_backup_pointer(place, size));
    guarded(|| loans::bytes_at(place, size)).unwrap_or_else(|failed| {
        remember(failed);
        std::ptr::null()
    })
}

/// Torch's allocator: pausable memory if this thread says so, else the runtime's own. NULL when memory is short.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tms_torch_malloc(
    bytes: isize,
    device: i32,
    stream: *mut c_void,
) -> *mut c_void {
    forward!(tms_torch_malloc(bytes, device, stream));
    environment::ready();
    let settings = match current() {
        Current::Inside(settings) if !process::is_forked_child() && !process::is_exiting() => {
            settings
        }
        _ => {
            let mut result = std::ptr::null_mut();
            let real = hooks::any_real(&hooks::CUDA_MALLOC, &hooks::HIP_MALLOC);
            let bytes = bytes.max(0).unsigned_abs();
            let code = call_real!(MallocFn, real, &raw mut result, bytes);
            return if code == 0 { result } else { std::ptr::null_mut() };
        }
    };
    let allocated = guarded(|| {
        let bytes = usize::try_from(bytes).map_err(|_| Failed::invalid("a negative size"))?;
        let device = u32::try_from(device).map_err(|_| Failed::invalid("a negative device"))?;
        allocate_for_runtime(bytes, Device(device), settings)
    });
    allocated.unwrap_or_else(|failed| {
        remember(failed);
        std::ptr::null_mut()
    })
}

/// Frees what `tms_torch_malloc` gave.
///
/// # Safety
/// Nobody uses the block any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tms_torch_free(
    block: *mut c_void,
    bytes: isize,
    device: i32,
    stream: *mut c_void,
) {
    forward!(tms_torch_free(block, bytes, device, stream));
    if !free_untold(block) && !block.is_null() {
        let real = hooks::any_real(&hooks::CUDA_FREE, &hooks::HIP_FREE);
        call_real!(FreeFn, real, block);
    }
}
