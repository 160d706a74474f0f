//! What there is: devices, counts, states of tags.

use std::ffi::{CStr, c_char, c_void};

use dormant::{Device, Stats};

use crate::edge::{self, engine, entry, forward};
use crate::memory::refuse_in_a_child;
use crate::status::Failed;
use crate::text::{c_string, text};
use crate::transitions::amount;
use crate::types::{
    DORMANT_STATE_ACTIVE, DORMANT_STATE_MIXED, DORMANT_STATE_MOVING, DORMANT_STATE_NONE,
    DORMANT_STATE_PAUSED, DORMANT_STATE_POISONED, DormantDevice, DormantStats, DormantStatus,
    DormantTagStats,
};

/// Opens the driver and says which it is: `cuda`, `hip` or `sim`. NULL on failure. Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_backend() -> *const c_char {
    forward!(dormant_backend());
    let mut name: &CStr = c"";
    let status = entry(|| {
        use dormant::core::Driver as _;
        name = match engine()?.driver().info().backend {
            "cuda" => c"cuda",
            "hip" => c"hip",
            _ => c"sim",
        };
        Ok(())
    });
    if status == DormantStatus::Ok { name.as_ptr() } else { std::ptr::null() }
}

/// Calls `each` for every device, in the driver's order.
///
/// # Safety
/// `each` can be called with `user` now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_devices(
    each: Option<unsafe extern "C" fn(*const DormantDevice, *mut c_void)>,
    user: *mut c_void,
) -> DormantStatus {
    forward!(dormant_devices(each, user));
    entry(|| {
        let each = each.ok_or_else(|| Failed::invalid("each is NULL"))?;
        for info in engine()?.devices()? {
            let name = c_string(&info.name);
            let value = DormantDevice {
                name: name.as_ptr(),
                device: info.device.0,
                reserved: 0,
                total_bytes: info.total_bytes,
            };
            // SAFETY: the caller's promise.
            edge::outside(|| unsafe { each(&raw const value, user) });
        }
        Ok(())
    })
}

/// A device's free and total bytes, as the driver reads them now. Other processes move them.
///
/// # Safety
/// Both places are NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_device_memory(
    device: u32,
    free_bytes: *mut u64,
    total_bytes: *mut u64,
) -> DormantStatus {
    forward!(dormant_device_memory(device, free_bytes, total_bytes));
    entry(|| {
        let memory = engine()?.memory(Device(device))?;
        // SAFETY: the caller's promise.
        if let Some(place) = unsafe { free_bytes.as_mut() } {
            *place = memory.free_bytes;
        }
        // SAFETY: the caller's promise.
        if let Some(place) = unsafe { total_bytes.as_mut() } {
            *place = memory.total_bytes;
        }
        Ok(())
    })
}

fn counts() -> Stats {
    edge::opened().map(dormant::Engine::stats).unwrap_or_default()
}

/// Everything, counted up. Calls no driver.
///
/// # Safety
/// `stats` is a `DormantStats` whose `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_stats(stats: *mut DormantStats) -> DormantStatus {
    forward!(dormant_stats(stats));
    entry(|| {
        refuse_in_a_child()?;
        let counts = counts();
        let value = DormantStats {
            size: 0,
            reserved: 0,
            host_backup_bytes: counts.host_backup_bytes,
            deferred_frees: counts.deferred_frees,
            failed_frees: counts.failed_frees,
            leaked_ranges: counts.leaked_ranges,
            leaked_handles: counts.leaked_handles,
            disk_backup_bytes: counts.disk_backup_bytes,
            host_retained_bytes: counts.host_retained_bytes,
            disk_file_bytes: counts.disk_file_bytes,
        };
        // SAFETY: the caller's promise.
        unsafe { edge::write_sized(stats, value) }
    })
}

/// Calls `each` for every tag on every device.
///
/// # Safety
/// `each` can be called with `user` now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_tag_stats(
    each: Option<unsafe extern "C" fn(*const DormantTagStats, *mut c_void)>,
    user: *mut c_void,
) -> DormantStatus {
    forward!(dormant_tag_stats(each, user));
    entry(|| {
        refuse_in_a_child()?;
        let each = each.ok_or_else(|| Failed::invalid("each is NULL"))?;
        for part in counts().tags {
            let tag = c_string(part.tag.as_str());
            let value = DormantTagStats {
                tag: tag.as_ptr(),
                device: part.device.0,
                reserved: 0,
                active: amount(part.active),
                paused: amount(part.paused),
                moving: amount(part.moving),
                poisoned: amount(part.poisoned),
                saved: amount(part.saved),
            };
            // SAFETY: the caller's promise.
            edge::outside(|| unsafe { each(&raw const value, user) });
        }
        Ok(())
    })
}

/// What a tag's blocks are doing: one of `DORMANT_STATE_...`.
///
/// # Safety
/// `tag` is a text; `state` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_tag_state(tag: *const c_char, state: *mut i32) -> DormantStatus {
    forward!(dormant_tag_state(tag, state));
    entry(|| {
        refuse_in_a_child()?;
        // SAFETY: the caller's promise.
        let name = unsafe { text(tag, "the tag") }?;
        let name = name.ok_or_else(|| Failed::invalid("the tag is NULL"))?;
        // SAFETY: the caller's promise.
        let place = unsafe { edge::place(state, "state") }?;
        let parts = counts().tags;
        let of = |part: fn(&dormant::TagStats) -> u64| {
            parts.iter().filter(|tag| tag.tag.as_str() == name).map(part).sum::<u64>() > 0
        };
        let present = [
            (of(|tag| tag.active.blocks), DORMANT_STATE_ACTIVE),
            (of(|tag| tag.paused.blocks), DORMANT_STATE_PAUSED),
            (of(|tag| tag.moving.blocks), DORMANT_STATE_MOVING),
            (of(|tag| tag.poisoned.blocks), DORMANT_STATE_POISONED),
        ];
        let mut states = present.iter().filter(|(is, _)| *is).map(|(_, state)| *state);
        *place = match (states.next(), states.next()) {
            (None, _) => DORMANT_STATE_NONE,
            (Some(state), None) => state,
            (Some(_), Some(_)) => DORMANT_STATE_MIXED,
        };
        Ok(())
    })
}
