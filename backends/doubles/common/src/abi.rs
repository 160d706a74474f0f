//! The C types, as the vendors' headers lay them out. They are written here once more and not taken
//! from the bindings that the backends use, so that a mistake in either is seen.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use allocator_core::Access;
use dormant_sim::machine::CreateFlags;

use crate::errors::{INVALID_VALUE, Refused};

/// A result code. All three vendors' enums are unsigned ints.
pub type Code = u32;

/// An out-parameter, or null.
pub type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Fills an out-parameter.
///
/// # Errors
/// `INVALID_VALUE` for null.
pub fn put<T>(out: Out<'_, T>, value: T) -> Result<(), Refused> {
    out.ok_or(Refused(INVALID_VALUE))?.write(value);
    Ok(())
}

/// `CUmemLocation`, `hipMemLocation`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Location {
    /// [`DEVICE`] or [`HOST`].
    pub kind: c_int,
    /// The device's number.
    pub id: c_int,
}

/// A location that is a device.
pub const DEVICE: c_int = 1;
/// A location that is the host.
pub const HOST: c_int = 2;

/// `CUmemAllocationProp`, `hipMemAllocationProp`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Properties {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    windows: *mut c_void,
    compression: u8,
    rdma: u8,
    usage: u16,
    reserved: [u8; 4],
}

const PINNED: c_int = 1;
const FILE_DESCRIPTOR: c_int = 1;
const FABRIC: c_int = 8;

impl Properties {
    /// The device and what the memory is for.
    ///
    /// # Errors
    /// `INVALID_VALUE` for anything but pinned memory of a device.
    pub fn read(&self) -> Result<(u32, CreateFlags), Refused> {
        let known = FILE_DESCRIPTOR | FABRIC;
        if self.kind != PINNED || self.location.kind != DEVICE || self.handle_types & !known != 0 {
            return Err(Refused(INVALID_VALUE));
        }
        let mut flags = CreateFlags::new();
        if self.handle_types & FILE_DESCRIPTOR != 0 {
            flags = flags.exportable();
        }
        if self.handle_types & FABRIC != 0 {
            flags = flags.fabric();
        }
        if self.rdma != 0 {
            flags = flags.rdma();
        }
        Ok((number(self.location.id)?, flags))
    }
}

/// `CUmemAccessDesc`, `hipMemAccessDesc`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AccessDescriptor {
    /// Whose access.
    pub location: Location,
    /// None, read, or both.
    pub flags: c_int,
}

impl AccessDescriptor {
    /// The flags in our own terms.
    ///
    /// # Errors
    /// `INVALID_VALUE` for flags that there are not.
    pub fn access(&self) -> Result<Access, Refused> {
        match self.flags {
            0 => Ok(Access::empty()),
            1 => Ok(Access::READ),
            3 => Ok(Access::READ | Access::WRITE),
            _ => Err(Refused(INVALID_VALUE)),
        }
    }
}

/// [`Access`] as the flags of a descriptor.
#[must_use]
pub fn access_flags(access: Access) -> u64 {
    match (access.contains(Access::WRITE), access.contains(Access::READ)) {
        (true, _) => 3,
        (false, true) => 1,
        (false, false) => 0,
    }
}

/// A device's number, which C has as a signed int.
///
/// # Errors
/// `INVALID_VALUE` for a negative one.
pub fn number(device: c_int) -> Result<u32, Refused> {
    u32::try_from(device).map_err(|_| Refused(INVALID_VALUE))
}

/// A device's number as C has it.
#[must_use]
pub fn ordinal(device: u32) -> c_int {
    c_int::try_from(device).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn the_structs_are_laid_out_as_in_the_headers() {
        assert_eq!(size_of::<Properties>(), 32);
        assert_eq!(offset_of!(Properties, handle_types), 4);
        assert_eq!(offset_of!(Properties, location), 8);
        assert_eq!(offset_of!(Properties, windows), 16);
        assert_eq!(offset_of!(Properties, rdma), 25);
        assert_eq!(size_of::<AccessDescriptor>(), 12);
        assert_eq!(offset_of!(AccessDescriptor, flags), 8);
        assert_eq!(size_of::<Out<'_, c_int>>(), size_of::<*mut c_int>());
    }
}
