//! Regions.

use std::cell::RefCell;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use dormant::Device;
use dormant::region::{self, Entered, Settings};

use crate::choices::{
    checksum, checksum_number, host_mode, host_mode_number, policy, policy_number,
};
use crate::edge::{self, entry, forward};
use crate::environment;
use crate::status::Failed;
use crate::text::{self, c_string};
use crate::tms;
use crate::types::{
    DORMANT_CHECKSUM_OWN, DORMANT_HOST_MODE_OWN, DormantCarried, DormantRegion, DormantStatus,
};

/// What a region gives to memory.
///
/// # Safety
/// `region` is a `DormantRegion` whose `size` is set, and what it points to is there.
pub(crate) unsafe fn settings(region: *const DormantRegion) -> Result<Settings, Failed> {
    if region.is_null() {
        return Err(Failed::invalid("the region is NULL"));
    }
    let otherwise = DormantRegion {
        size: 0,
        policy: 0,
        tag: std::ptr::null(),
        peers: std::ptr::null(),
        peer_count: 0,
        disk_directory: std::ptr::null(),
        host_mode: DORMANT_HOST_MODE_OWN,
        checksum: DORMANT_CHECKSUM_OWN,
    };
    // SAFETY: the caller's promise; numbers and pointers may be any bytes.
    let region = unsafe { edge::read_sized(region, otherwise) }?;
    // SAFETY: the caller's promise.
    let tag = unsafe { text::text(region.tag, "the tag") }?.unwrap_or("default");
    if tag.is_empty() {
        return Err(Failed::invalid("the tag is empty"));
    }
    let mut settings = Settings::new(tag, policy(region.policy)?);
    settings.host_mode = host_mode(region.host_mode)?;
    settings.checksum = checksum(region.checksum)?;
    if !region.peers.is_null() {
        edge::bounded::<u32>(region.peer_count, "peers")?;
        // SAFETY: the caller's promise.
        let peers = unsafe { std::slice::from_raw_parts(region.peers, region.peer_count) };
        settings = settings.with_peers(peers.iter().copied().map(Device));
    }
    if region.peers.is_null() && region.peer_count > 0 {
        return Err(Failed::invalid(format!(
            "peers is NULL, and peer_count {}",
            region.peer_count
        )));
    }
    // SAFETY: the caller's promise.
    if let Some(directory) = unsafe { text::path(region.disk_directory) } {
        if directory.as_os_str().is_empty() {
            return Err(Failed::invalid("the directory is empty"));
        }
        settings = settings.with_directory(Arc::<Path>::from(directory));
    }
    Ok(settings)
}

/// Enters a region on this thread: memory that is allocated on it from now on gets these settings.
/// Regions nest. `entered` is for `dormant_region_pop`.
///
/// # Safety
/// `region` is a `DormantRegion` whose `size` is set, and what it points to is there; `entered` can
/// be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_region_push(
    region: *const DormantRegion,
    entered: *mut u64,
) -> DormantStatus {
    forward!(dormant_region_push(region, entered));
    entry(|| {
        environment::ready();
        // SAFETY: the caller's promise.
        let place = unsafe { edge::place(entered, "entered") }?;
        // SAFETY: the caller's promise.
        let settings = unsafe { settings(region) }?;
        *place = region::push_enter(settings).number();
        Ok(())
    })
}

/// Enters a region in which new memory of this thread is not ours.
///
/// # Safety
/// `entered` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_region_push_disabled(entered: *mut u64) -> DormantStatus {
    forward!(dormant_region_push_disabled(entered));
    entry(|| {
        environment::ready();
        // SAFETY: the caller's promise.
        *unsafe { edge::place(entered, "entered") }? = region::push_disable().number();
        Ok(())
    })
}

/// Leaves a region of this thread, and those that were entered inside and not left. `NotFound` if
/// the thread is not in it.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_region_pop(entered: u64) -> DormantStatus {
    forward!(dormant_region_pop(entered));
    entry(|| {
        if region::leave(Entered::from_number(entered)) {
            return Ok(());
        }
        let text = format!("this thread is in no region with the number {entered}");
        Err(Failed::new(DormantStatus::NotFound, text))
    })
}

/// What the thread's last `dormant_region_current` pointed to.
struct Shown {
    tag: CString,
    directory: Option<CString>,
    peers: Vec<u32>,
}

thread_local! {
    static SHOWN: RefCell<Option<Shown>> = const { RefCell::new(None) };
}

/// What holds on this thread now; `on` becomes 1 if new memory is ours, else 0. The texts live until
/// the thread's next call of this.
///
/// # Safety
/// `region` is a `DormantRegion` whose `size` is set; `on` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_region_current(
    region: *mut DormantRegion,
    on: *mut u32,
) -> DormantStatus {
    forward!(dormant_region_current(region, on));
    entry(|| {
        environment::ready();
        // SAFETY: the caller's promise.
        let on = unsafe { edge::place(on, "on") }?;
        let now = region::place();
        *on = now.on.into();
        let directory = now.settings.directory.as_ref();
        let shown = Shown {
            tag: c_string(now.settings.tag.as_str()),
            directory: directory.map(|directory| text::c_path(directory)),
            peers: now.settings.peers.iter().map(|peer| peer.0).collect(),
        };
        let value = |shown: &Shown| DormantRegion {
            size: 0,
            policy: policy_number(now.settings.policy),
            tag: shown.tag.as_ptr(),
            peers: shown.peers.as_ptr(),
            peer_count: shown.peers.len(),
            disk_directory: shown.directory.as_deref().map_or(std::ptr::null(), |d| d.as_ptr()),
            host_mode: host_mode_number(tms::host_mode(&now)),
            checksum: checksum_number(now.settings.checksum),
        };
        text::keep(&SHOWN, shown, |shown| {
            // SAFETY: the caller's promise.
            unsafe { edge::write_sized(region, value(shown)) }
        })
    })
}

/// Takes what holds on this thread, to enter it on another one. Give it back with
/// `dormant_carried_free`.
///
/// # Safety
/// `carried` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_region_carry(carried: *mut *mut DormantCarried) -> DormantStatus {
    forward!(dormant_region_carry(carried));
    entry(|| {
        environment::ready();
        // SAFETY: the caller's promise.
        let place = unsafe { edge::place(carried, "carried") }?;
        *place = Box::into_raw(Box::new(DormantCarried(region::carry())));
        Ok(())
    })
}

/// Enters on this thread what was carried; as often as wanted.
///
/// # Safety
/// `carried` is from `dormant_region_carry` and not given back; `entered` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_carried_push(
    carried: *const DormantCarried,
    entered: *mut u64,
) -> DormantStatus {
    forward!(dormant_carried_push(carried, entered));
    entry(|| {
        // SAFETY: the caller's promise.
        let carried = unsafe { carried.as_ref() };
        let carried = carried.ok_or_else(|| Failed::invalid("carried is NULL"))?;
        // SAFETY: the caller's promise.
        *unsafe { edge::place(entered, "entered") }? = carried.0.push().number();
        Ok(())
    })
}

/// Gives back what `dormant_region_carry` made. NULL is fine.
///
/// # Safety
/// `carried` is NULL, or from `dormant_region_carry` and not given back before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_carried_free(carried: *mut DormantCarried) {
    forward!(dormant_carried_free(carried));
    if !carried.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(carried) });
    }
}
