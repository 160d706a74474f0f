//! What was created through a limited driver, and where it is mapped.

use std::collections::BTreeMap;

use allocator_core::{Address, Device, Operation, Range};

use super::Reading;
use crate::wrapped::Request;

/// Of one device.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) limit: u64,
    /// And not released.
    pub(super) created: u64,
    /// What the device read as free with nothing created.
    pub(super) at_rest: u64,
}

/// Where a handle is mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    device: Device,
    /// Of the range.
    pub(super) start: Address,
    bytes: u64,
    pub(super) offset: u64,
}

impl Place {
    /// The range, once more: whoever had it has dropped it.
    pub(super) fn range(&self) -> Range {
        Range::from_driver(self.device, self.start, self.bytes)
    }
}

#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) reading: Reading,
    accounts: BTreeMap<Device, Account>,
    /// By the number of the handle.
    mapped: BTreeMap<u64, Place>,
}

impl Books {
    pub(super) fn open(&mut self, device: Device, limit: u64) {
        self.accounts.insert(device, Account { limit, created: 0, at_rest: 0 });
    }

    pub(super) fn account(&self, device: Device) -> Option<&Account> {
        self.accounts.get(&device)
    }

    pub(super) fn devices(&self) -> Vec<Device> {
        self.accounts.keys().copied().collect()
    }

    /// The device reads so much as free now.
    pub(super) fn rest(&mut self, device: Device, free_bytes: u64) {
        if let Some(account) = self.accounts.get_mut(&device) {
            account.at_rest = free_bytes.saturating_add(account.created);
        }
    }

    /// Takes bytes for a creation, before it is made: others may create meanwhile. An error is the
    /// limit that they are over.
    pub(super) fn take(&mut self, device: Device, bytes: u64) -> Result<(), u64> {
        let Some(account) = self.accounts.get_mut(&device) else { return Err(0) };
        match account.created.checked_add(bytes) {
            Some(created) if created <= account.limit => account.created = created,
            _ => return Err(account.limit),
        }
        Ok(())
    }

    fn give(&mut self, request: &Request<'_>) {
        let account = request.device.and_then(|device| self.accounts.get_mut(&device));
        if let (Some(account), Some(bytes)) = (account, request.bytes) {
            account.created = account.created.saturating_sub(bytes);
        }
    }

    /// After a call. Memory whose release failed may not have come back, and stays counted.
    pub(super) fn end(&mut self, request: &Request<'_>, ok: bool) {
        match request.operation {
            Operation::Create if !ok => self.give(request),
            Operation::Release if ok => self.give(request),
            Operation::Map if ok => {
                if let (Some(handle), Some(device), Some(at), Some((start, bytes))) =
                    (request.handle, request.device, request.address, request.range)
                {
                    let offset = at.0.wrapping_sub(start.0);
                    self.mapped.insert(handle, Place { device, start, bytes, offset });
                }
            }
            Operation::Unmap if ok => {
                let unmapped =
                    |place: &Place| Some(place.start.offset(place.offset)) == request.address;
                self.mapped.retain(|_, place| !unmapped(place));
            }
            _ => {}
        }
    }

    pub(super) fn place_of(&self, handle: u64) -> Option<Place> {
        self.mapped.get(&handle).copied()
    }

    /// Whether anything is mapped in the range of a place.
    pub(super) fn is_used(&self, place: &Place) -> bool {
        self.mapped.values().any(|other| other.start == place.start)
    }
}
