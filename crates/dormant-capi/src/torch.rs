//! Entry points for torch's pluggable allocator.
//!
//! Torch calls its allocator on threads of its own (autograd, captures), and hands it no user data. So
//! the tag comes from the function: one for each set of settings, from a fixed table.

use std::ffi::{CStr, c_void};
use std::sync::{Mutex, PoisonError};

use dormant::Device;
use dormant::region::Settings;
use dormant_host::process;
use dormant_interpose::loaded;

use crate::edge::{self, entry, forward, guarded};
use crate::identity;
use crate::memory::{allocate_for_runtime, is_ours, refuse_in_a_child};
use crate::regions::settings;
use crate::status::{Failed, address, remember};
use crate::types::{DORMANT_TORCH_SLOTS, DormantRegion, DormantStatus};

static SLOTS: Mutex<Vec<Settings>> = Mutex::new(Vec::new());

/// Gives the settings of a region a pair of functions for torch's `CUDAPluggableAllocator`:
/// `dormant_torch_malloc_<slot>` and `dormant_torch_free`. The same settings get the same slot; it
/// is theirs for good. `NotSupported` when all `DORMANT_TORCH_SLOTS` are taken.
///
/// # Safety
/// As for `dormant_region_push`; `slot` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_torch_slot(
    region: *const DormantRegion,
    slot: *mut u32,
) -> DormantStatus {
    forward!(dormant_torch_slot(region, slot));
    entry(|| {
        refuse_in_a_child()?;
        // SAFETY: the caller's promise.
        let place = unsafe { edge::place(slot, "slot") }?;
        // SAFETY: the caller's promise.
        let settings = unsafe { settings(region) }?;
        let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        let found = slots.iter().position(|taken| *taken == settings);
        let index = match found {
            Some(index) => index,
            None if slots.len() < DORMANT_TORCH_SLOTS as usize => {
                slots.push(settings);
                slots.len() - 1
            }
            None => {
                let text = format!(
                    "all {DORMANT_TORCH_SLOTS} pairs of torch functions are taken; use fewer \
                     different tags and policies"
                );
                return Err(Failed::new(DormantStatus::NotSupported, text));
            }
        };
        *place = u32::try_from(index).unwrap_or(u32::MAX);
        Ok(())
    })
}

fn allocate(slot: usize, bytes: isize, device: i32) -> *mut c_void {
    let allocated = guarded(|| {
        refuse_in_a_child()?;
        if process::is_exiting() {
            return Err(Failed::new(DormantStatus::WrongState, "the process ends"));
        }
        let settings = {
            let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
            slots.get(slot).cloned()
        };
        let settings = settings
            .ok_or_else(|| Failed::invalid(format!("the torch slot {slot} belongs to nobody")))?;
        let bytes = usize::try_from(bytes).map_err(|_| Failed::invalid("a negative size"))?;
        let device = u32::try_from(device).map_err(|_| Failed::invalid("a negative device"))?;
        allocate_for_runtime(bytes, Device(device), settings)
    });
    allocated.unwrap_or_else(|failed| {
        remember(failed);
        std::ptr::null_mut()
    })
}

/// Frees what a `dormant_torch_malloc_...` gave, in whatever state, from any thread. Torch cannot be told
/// of a failure: a device that is busy puts the free off, other failures are counted in `DormantStats`.
///
/// # Safety
/// Nobody uses the block any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_torch_free(
    block: *mut c_void,
    bytes: isize,
    device: i32,
    stream: *mut c_void,
) {
    forward!(dormant_torch_free(block, bytes, device, stream));
    free_untold(block);
}

/// Frees a block of ours where nobody can be told of a failure. Returns whether it was ours.
pub(crate) fn free_untold(block: *mut c_void) -> bool {
    if !is_ours(block) {
        return false;
    }
    if !process::is_exiting() {
        let freed = guarded(|| {
            if let Some(engine) = edge::opened()
                && let Some(info) = engine.find(address(block))
            {
                engine.free_eventually(info.address, info.id);
            }
            Ok(())
        });
        if let Err(failed) = freed {
            remember(failed);
        }
    }
    true
}

/// Which hooks of the process are ours: bit 0 says that `cudaMalloc`, as libraries that are loaded now bind
/// to it, is a hook of dormant that leads to this engine; bit 1 says so of `hipMalloc`.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_hooks_bound() -> u32 {
    u32::from(is_hooked(c"cudaMalloc")) | u32::from(is_hooked(c"hipMalloc")) << 1
}

fn is_hooked(name: &CStr) -> bool {
    // The program's own scope. RTLD_DEFAULT would find this library's hook too where it was only
    // opened for itself, which nothing binds to.
    loaded::program_symbol(name).and_then(|bound| dormant_interpose::served_at(bound)).is_some_and(
        |served| identity::resolved().get().is_some_and(|own| std::ptr::eq(own, served)),
    )
}

macro_rules! slots {
    ($($slot:literal)*) => {$(
        const _: () = {
            const NAME: &CStr = match CStr::from_bytes_with_nul(
                concat!("dormant_torch_malloc_", $slot, "\0").as_bytes()
            ) {
                Ok(name) => name,
                Err(_) => c"",
            };

            #[unsafe(export_name = concat!("dormant_torch_malloc_", $slot))]
            unsafe extern "C" fn malloc(
                bytes: isize,
                device: i32,
                stream: *mut c_void,
            ) -> *mut c_void {
                let like = malloc as unsafe extern "C" fn(isize, i32, *mut c_void) -> *mut c_void;
                match identity::elsewhere(NAME, like) {
                    // SAFETY: the same function of the same build.
                    Some(there) => unsafe { there(bytes, device, stream) },
                    None => allocate($slot, bytes, device),
                }
            }
        };
    )*};
}

slots! {
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
    64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
    96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119
    120 121 122 123 124 125 126 127
}
