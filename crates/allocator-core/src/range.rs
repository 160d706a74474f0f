//! An owned reservation of device addresses.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::{Address, Device};

static LEAKED: AtomicU64 = AtomicU64::new(0);

/// How many ranges of this process were dropped without being given back to their driver.
///
/// Dropping never calls the driver (it could run at process exit, or in a forked child), so a
/// dropped block is a leak, and this is its count.
#[must_use]
pub fn leaked_ranges() -> u64 {
    LEAKED.load(Ordering::Relaxed)
}

/// A reserved range of device addresses: the right to map physical memory there. Neither `Clone`
/// nor `Copy`; it ends in [`Driver::unreserve`](crate::Driver::unreserve), which takes it by value.
#[derive(Debug)]
#[must_use = "a dropped range is a leak of address space"]
pub struct Range {
    device: Device,
    address: Address,
    bytes: u64,
}

impl Range {
    /// For drivers: takes note of a range that the driver has just reserved. `bytes` is in whole
    /// granules.
    pub fn from_driver(device: Device, address: Address, bytes: u64) -> Self {
        Self { device, address, bytes }
    }

    /// For drivers: the range is the driver's again; it no longer counts as a leak.
    #[must_use]
    pub fn into_driver(self) -> (Device, Address, u64) {
        let this = ManuallyDrop::new(self);
        (this.device, this.address, this.bytes)
    }

    /// The device that the range was reserved for.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Its first address.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// Its length in bytes, in whole granules.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        LEAKED.fetch_add(1, Ordering::Relaxed);
    }
}
