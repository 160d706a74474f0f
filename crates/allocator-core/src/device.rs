//! Names for devices, addresses and what a driver says about itself.

use std::fmt;

/// A device by its ordinal, as the driver counts them (`CUDA_VISIBLE_DEVICES` and its HIP twins
/// are applied by the driver before).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device(pub u32);

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An address in device memory. Never dereferenced by the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u64);

impl Address {
    /// The address `bytes` further on; wraps, since a bad sum is caught by the range check of
    /// whoever uses it.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A stream handle of the caller's (`CUstream`, `hipStream_t`), as a number. Zero is the legacy
/// default stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RawStream(pub usize);

/// Free and total bytes of a device, as the driver reads them at this moment. Other processes
/// move the free reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that nobody holds.
    pub free_bytes: u64,
    /// Bytes that the device has.
    pub total_bytes: u64,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its ordinal.
    pub device: Device,
    /// The vendor's name for it.
    pub name: String,
    /// Bytes that it has.
    pub total_bytes: u64,
    /// Where it is on the PCI bus, as in `0000:4b:00.0`, if it is on one and the driver says so.
    pub pci_address: Option<String>,
}

/// What a driver is and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// `cuda`, `hip` or `sim`.
    pub backend: &'static str,
    /// The driver's version as people write it: `13.0`.
    pub version: String,
    /// The file the driver was loaded from, where it is a library.
    pub library: Option<String>,
}
