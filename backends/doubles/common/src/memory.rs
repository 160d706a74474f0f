//! Virtual memory and copies as both vendors have them, over C's pointers.

use std::ffi::{c_int, c_void};

use allocator_core::Access;
use dormant_sim::Machine;

use crate::abi::{AccessDescriptor, DEVICE, HOST, Location, Properties, access_flags, number};
use crate::errors::{INVALID_VALUE, Refused};

/// Creates physical memory.
///
/// # Errors
/// `INVALID_VALUE` for flags, or properties that there are not; those of the machine.
pub fn create(
    machine: &Machine,
    bytes: usize,
    properties: Option<&Properties>,
    flags: u64,
) -> Result<u64, Refused> {
    let (device, kind) = properties.ok_or(Refused(INVALID_VALUE))?.read()?;
    if flags != 0 {
        return Err(Refused(INVALID_VALUE));
    }
    Ok(machine.create(bytes as u64, device, kind)?)
}

/// The granule of memory with these properties.
///
/// # Errors
/// As [`create`].
pub fn granularity(
    machine: &Machine,
    properties: Option<&Properties>,
    option: c_int,
) -> Result<usize, Refused> {
    let (device, _) = properties.ok_or(Refused(INVALID_VALUE))?.read()?;
    // Minimum and recommended.
    if !(0..=1).contains(&option) {
        return Err(Refused(INVALID_VALUE));
    }
    usize::try_from(machine.granularity(device)?).map_err(|_| Refused(INVALID_VALUE))
}

/// Sets access from an array of descriptors. Those of the host are for the host, if the library
/// `knows_the_host`; else they are taken for those of a device.
///
/// # Errors
/// `INVALID_VALUE` for no or unreadable descriptors; those of the machine.
///
/// # Safety
/// The array is null, or has this many entries.
pub unsafe fn set_access(
    machine: &Machine,
    address: u64,
    bytes: usize,
    descriptors: *const AccessDescriptor,
    count: usize,
    knows_the_host: bool,
) -> Result<(), Refused> {
    if descriptors.is_null() || count == 0 {
        return Err(Refused(INVALID_VALUE));
    }
    // SAFETY: not null, and of this many entries (the caller's promise).
    let descriptors = unsafe { std::slice::from_raw_parts(descriptors, count) };
    let (mut devices, mut host) = (Vec::new(), None);
    for descriptor in descriptors {
        let access = descriptor.access()?;
        match descriptor.location.kind {
            DEVICE => devices.push((number(descriptor.location.id)?, access)),
            HOST if knows_the_host => host = Some(access),
            HOST => devices.push((number(descriptor.location.id)?, access)),
            _ => return Err(Refused(INVALID_VALUE)),
        }
    }
    if !devices.is_empty() {
        machine.set_access(address, bytes as u64, &devices)?;
    }
    if let Some(access) = host {
        machine.set_host_access(address, bytes as u64, access)?;
    }
    Ok(())
}

/// The access that a device has, as flags.
///
/// # Errors
/// `INVALID_VALUE` for a location that is no device; those of the machine.
pub fn access(
    machine: &Machine,
    location: Option<&Location>,
    address: u64,
) -> Result<u64, Refused> {
    let location = location.filter(|location| location.kind == DEVICE);
    let device = number(location.ok_or(Refused(INVALID_VALUE))?.id)?;
    let access: Access = machine.access(address, device)?;
    Ok(access_flags(access))
}

/// Copies device memory to the host and waits.
///
/// # Errors
/// `INVALID_VALUE` for a null pointer; those of the machine.
///
/// # Safety
/// The host bytes are null, or good for this many bytes and nobody else's meanwhile.
pub unsafe fn to_host(
    machine: &Machine,
    to: *mut c_void,
    from: u64,
    bytes: usize,
) -> Result<(), Refused> {
    if to.is_null() {
        return Err(Refused(INVALID_VALUE));
    }
    // SAFETY: not null, and good for these bytes (the caller's promise).
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes) };
    Ok(machine.copy_to_host(to, from)?)
}

/// Copies host memory to the device and waits.
///
/// # Errors
/// As [`to_host`].
///
/// # Safety
/// The host bytes are null, or good for this many bytes that nobody writes meanwhile.
pub unsafe fn to_device(
    machine: &Machine,
    to: u64,
    from: *const c_void,
    bytes: usize,
) -> Result<(), Refused> {
    if from.is_null() {
        return Err(Refused(INVALID_VALUE));
    }
    // SAFETY: not null, and good for these bytes (the caller's promise).
    let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
    Ok(machine.copy_to_device(to, from)?)
}

/// Copies between any two kinds of memory and waits: host to host, host to device, device to host,
/// device to device, or as the addresses say.
///
/// # Errors
/// `INVALID_VALUE` for another kind; those of the machine.
///
/// # Safety
/// Host bytes are null, or good for this many bytes and nobody else's meanwhile.
pub unsafe fn copy(
    machine: &Machine,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
) -> Result<(), Refused> {
    let (to_address, from_address) = (to.addr() as u64, from.addr() as u64);
    let of_device = |address| machine.pointer_device(address).is_ok();
    let kind = match kind {
        4 => c_int::from(of_device(to_address)) + 2 * c_int::from(of_device(from_address)),
        other => other,
    };
    match kind {
        0 if to.is_null() || from.is_null() => Err(Refused(INVALID_VALUE)),
        0 => {
            // SAFETY: not null, and good for these bytes (the caller's promise); they may overlap.
            unsafe { from.cast::<u8>().copy_to(to.cast::<u8>(), bytes) };
            Ok(())
        }
        // SAFETY: the caller's promise.
        1 => unsafe { to_device(machine, to_address, from, bytes) },
        // SAFETY: the caller's promise.
        2 => unsafe { to_host(machine, to, from_address, bytes) },
        3 => Ok(machine.copy_within(to_address, from_address, bytes as u64)?),
        _ => Err(Refused(INVALID_VALUE)),
    }
}

/// What a fill takes of its value.
#[must_use]
pub fn low_byte(value: c_int) -> u8 {
    value.to_ne_bytes()[if cfg!(target_endian = "little") { 0 } else { 3 }]
}

/// Text and its end into a buffer of `length` bytes, cut where it does not fit.
///
/// # Errors
/// `INVALID_VALUE` for no buffer.
///
/// # Safety
/// The buffer is null, or writable for that many bytes.
pub unsafe fn put_text(
    to: *mut std::ffi::c_char,
    length: c_int,
    text: &str,
) -> Result<(), Refused> {
    let length = usize::try_from(length).map_err(|_| Refused(INVALID_VALUE))?;
    if to.is_null() || length == 0 {
        return Err(Refused(INVALID_VALUE));
    }
    // SAFETY: not null, and writable for these bytes (the caller's promise); bytes have any value.
    let to =
        unsafe { std::slice::from_raw_parts_mut(to.cast::<std::mem::MaybeUninit<u8>>(), length) };
    let bytes = text.bytes().take(length - 1).chain([0]);
    for (slot, byte) in to.iter_mut().zip(bytes) {
        slot.write(byte);
    }
    Ok(())
}
