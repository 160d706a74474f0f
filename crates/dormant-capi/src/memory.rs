//! Allocating, freeing, reading and writing.

use std::cell::RefCell;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use dormant::region::{Current, Settings};
use dormant::{Allocation, BlockInfo, BlockState, Device};
use dormant_host::process;

use crate::choices::policy_number;
use crate::edge::{self, engine, entry, forward};
use crate::environment;
use crate::regions::settings;
use crate::status::{Failed, address, pointer};
use crate::text::{c_string, keep, say};
use crate::tms;
use crate::types::{
    DORMANT_STATE_ACTIVE, DORMANT_STATE_MOVING, DORMANT_STATE_PAUSED, DORMANT_STATE_POISONED,
    DormantBlock, DormantRegion, DormantStatus,
};

/// Allocates `bytes` on a device. With a region of NULL this thread's innermost one holds; outside
/// any, the tag is `default` and contents are discarded.
///
/// # Safety
/// `region` is NULL or as for `dormant_region_push`; `result` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_allocate(
    bytes: usize,
    device: u32,
    region: *const DormantRegion,
    result: *mut *mut c_void,
) -> DormantStatus {
    forward!(dormant_allocate(bytes, device, region, result));
    entry(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { edge::place(result, "result") }?;
        let mut allocation = Allocation::new(bytes as u64, Device(device));
        environment::ready();
        if !region.is_null() {
            // SAFETY: the caller's promise.
            allocation = allocation.settings(unsafe { settings(region) }?);
        } else if let Current::Inside(settings) = tms::current() {
            allocation = allocation.settings(settings);
        }
        *place = pointer(engine()?.allocate(&allocation)?);
        Ok(())
    })
}

/// Frees a block, in whatever state it is, from any thread; NULL is fine. Never waits for a pause or
/// resume. An active block's device is waited for, during a capture later.
///
/// # Safety
/// Nobody uses the block any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_free(block: *mut c_void) -> DormantStatus {
    forward!(dormant_free(block));
    entry(|| match block.is_null() {
        true => Ok(()),
        false => free_block(block),
    })
}

/// Frees a block of ours. While the process ends, the driver is left alone.
pub(crate) fn free_block(block: *mut c_void) -> Result<(), Failed> {
    if process::is_exiting() {
        return Ok(());
    }
    Ok(engine()?.free(address(block))?)
}

/// Whether a block of ours starts there. Opens nothing.
pub(crate) fn is_ours(block: *mut c_void) -> bool {
    edge::opened().is_some_and(|engine| engine.owns(address(block)))
}

static MARGIN_BYTES: AtomicU64 = AtomicU64::new(0);

/// Refuses an allocation through the hooks or torch as out of memory when it would leave less than
/// this free on its device. Never applied to a resume. 0, the default: no margin.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_set_margin_bytes(bytes: u64) {
    forward!(dormant_set_margin_bytes(bytes));
    MARGIN_BYTES.store(bytes, Ordering::Relaxed);
}

/// What `dormant_set_margin_bytes` was given.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_margin_bytes() -> u64 {
    forward!(dormant_margin_bytes());
    MARGIN_BYTES.load(Ordering::Relaxed)
}

/// Allocates for a hook or for torch: the margin holds.
pub(crate) fn allocate_for_runtime(
    bytes: usize,
    device: Device,
    settings: Settings,
) -> Result<*mut c_void, Failed> {
    let engine = engine()?;
    let margin = MARGIN_BYTES.load(Ordering::Relaxed);
    if margin > 0 {
        let free = engine.memory(device)?.free_bytes;
        if free.saturating_sub(bytes as u64) < margin {
            let text = format!(
                "an allocation of {bytes} bytes on device {device} is refused: {free} bytes are \
                 free, and a margin of {margin} bytes is set"
            );
            say_once_in_a_while(&text);
            return Err(Failed::new(DormantStatus::OutOfMemory, text));
        }
    }
    let allocation = Allocation::new(bytes as u64, device).settings(settings);
    Ok(pointer(engine.allocate(&allocation)?))
}

fn say_once_in_a_while(text: &str) {
    static LAST: std::sync::Mutex<Option<Instant>> = std::sync::Mutex::new(None);
    let Ok(mut last) = LAST.try_lock() else { return };
    if last.is_none_or(|last| last.elapsed().as_secs() >= 10) {
        *last = Some(Instant::now());
        drop(last);
        say(text);
    }
}

/// Copies from device memory to host memory; `from` may lie inside a block. Not ordered with your
/// streams: synchronise them before. `WrongState` if the block is paused.
///
/// # Safety
/// `into` has room for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_read(
    from: *const c_void,
    into: *mut c_void,
    bytes: usize,
) -> DormantStatus {
    forward!(dormant_read(from, into, bytes));
    entry(|| {
        if bytes == 0 {
            return Ok(());
        }
        if into.is_null() {
            return Err(Failed::invalid("into is NULL"));
        }
        edge::bounded::<u8>(bytes, "bytes")?;
        // SAFETY: the caller's promise. The engine only writes to it.
        let into = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), bytes) };
        Ok(engine()?.read(address(from), into)?)
    })
}

/// Copies from host memory to device memory; otherwise as `dormant_read`.
///
/// # Safety
/// `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_write(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
) -> DormantStatus {
    forward!(dormant_write(to, from, bytes));
    entry(|| {
        if bytes == 0 {
            return Ok(());
        }
        if from.is_null() {
            return Err(Failed::invalid("from is NULL"));
        }
        edge::bounded::<u8>(bytes, "bytes")?;
        // SAFETY: the caller's promise.
        let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
        Ok(engine()?.write(address(to), from)?)
    })
}

/// A state's number.
pub(crate) fn state_number(state: BlockState) -> i32 {
    match state {
        BlockState::Active => DORMANT_STATE_ACTIVE,
        BlockState::Paused => DORMANT_STATE_PAUSED,
        BlockState::Moving => DORMANT_STATE_MOVING,
        BlockState::Poisoned => DORMANT_STATE_POISONED,
        // The states are not exhaustive.
        _ => DORMANT_STATE_MOVING,
    }
}

fn block(info: &BlockInfo, tag: &CString) -> DormantBlock {
    DormantBlock {
        size: u32::try_from(size_of::<DormantBlock>()).unwrap_or(0),
        device: info.device.0,
        state: state_number(info.state),
        policy: policy_number(info.policy),
        id: info.id,
        address: pointer(info.address),
        bytes: info.bytes,
        physical_bytes: info.physical_bytes,
        tag: tag.as_ptr(),
    }
}

thread_local! {
    static FOUND: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Says what block an address lies in, at its start or inside. `NotFound` if it is not ours, which
/// leaves the thread's last error as it was.
///
/// # Safety
/// `result` is a `DormantBlock` whose `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_find(
    place: *const c_void,
    result: *mut DormantBlock,
) -> DormantStatus {
    forward!(dormant_find(place, result));
    let mut is_ours = true;
    let status = entry(|| {
        refuse_in_a_child()?;
        let found = edge::opened().and_then(|engine| engine.find(address(place)));
        let Some(found) = found else {
            is_ours = false;
            return Ok(());
        };
        keep(&FOUND, c_string(found.tag.as_str()), |tag| {
            // SAFETY: the caller's promise.
            unsafe { edge::write_sized(result, block(&found, tag)) }
        })
    });
    if is_ours { status } else { DormantStatus::NotFound }
}

/// Calls `each` for every block, in the order of addresses.
///
/// # Safety
/// `each` can be called with `user` now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_blocks(
    each: Option<unsafe extern "C" fn(*const DormantBlock, *mut c_void)>,
    user: *mut c_void,
) -> DormantStatus {
    forward!(dormant_blocks(each, user));
    entry(|| {
        refuse_in_a_child()?;
        let each = each.ok_or_else(|| Failed::invalid("each is NULL"))?;
        for info in edge::opened().map(dormant::Engine::blocks).unwrap_or_default() {
            let tag = c_string(info.tag.as_str());
            let value = block(&info, &tag);
            // SAFETY: the caller's promise.
            edge::outside(|| unsafe { each(&raw const value, user) });
        }
        Ok(())
    })
}

/// In a forked child there is no memory of ours to ask about.
pub(crate) fn refuse_in_a_child() -> Result<(), Failed> {
    if process::is_forked_child() {
        let text = "this process is a forked child; the memory belongs to its parent";
        return Err(Failed::new(DormantStatus::Forked, text));
    }
    Ok(())
}
