//! A driver that gives only so much: some of the devices, and a part of their memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allocator_core::call::{Call, judge};
use allocator_core::{
    Deadline, Device, DeviceInfo, Driver, Error, ErrorKind, MemoryInfo, Operation, Result,
};

use crate::wrapped::{Hook, Request, Wrapped};
use books::Books;

mod books;

/// A driver that shows only the devices asked for, each as a small one. What is created beyond
/// that is refused as a device of that size would refuse it; everything else is the driver's own
/// answer, so the device itself may be out of memory before the limit is reached.
///
/// For running beside others on a shared device, where they must keep their room and may not move
/// what is read.
pub type Limited<D> = Wrapped<D, Limits>;

/// What [`Driver::memory`] of a [`Limited`] driver answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// The limit less what was created through this driver and not released. Others cannot move
    /// it; nor does it show what the device did.
    #[default]
    Ledger,
    /// The limit less what the device's own reading has lost since [`Limited::reset`]. It shows
    /// memory that the device keeps, and what others take or free.
    Device,
}

/// What a [`Limited`] driver gives.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The devices; none is all that there are.
    pub devices: Vec<Device>,
    /// The memory of each, in bytes, where the device has as much.
    pub bytes: u64,
    /// What is read of it.
    pub reading: Reading,
}

/// The state of a [`Limited`] driver.
#[derive(Debug)]
pub struct Limits {
    books: Mutex<Books>,
}

impl Limits {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook for Limits {
    fn before(&self, request: &Request<'_>) -> Result<()> {
        let mut books = self.books();
        for device in request.device.iter().chain(request.devices) {
            if books.account(*device).is_none() {
                let text = "this driver shows no such device";
                let error = Error::new(ErrorKind::NotFound, request.operation, text);
                return Err(error.with_device(*device));
            }
        }
        if let (Operation::Create, Some(device), Some(bytes)) =
            (request.operation, request.device, request.bytes)
        {
            books.take(device, bytes).map_err(|limit| {
                let text = format!("this driver gives {limit} bytes of the device");
                let call = Call::new(Operation::Create, "create").on(device).of(bytes);
                judge(call.refuse(ErrorKind::OutOfMemory, text), bytes, limit)
            })?;
        }
        Ok(())
    }

    fn after(&self, request: &Request<'_>, error: Option<&Error>) -> Result<()> {
        self.books().end(request, error.is_none());
        Ok(())
    }

    fn devices(&self, found: Vec<DeviceInfo>) -> Vec<DeviceInfo> {
        let books = self.books();
        let shown = |info: DeviceInfo| {
            let total_bytes = books.account(info.device)?.limit;
            Some(DeviceInfo { total_bytes, ..info })
        };
        found.into_iter().filter_map(shown).collect()
    }

    fn memory(&self, device: Device, read: MemoryInfo) -> MemoryInfo {
        let books = self.books();
        let Some(account) = books.account(device) else { return read };
        let gone = match books.reading {
            Reading::Ledger => account.created,
            Reading::Device => account.at_rest.saturating_sub(read.free_bytes),
        };
        let free_bytes = account.limit.saturating_sub(gone);
        MemoryInfo { free_bytes, total_bytes: account.limit }
    }
}

impl<D: Driver> Wrapped<D, Limits> {
    /// Gives a part of what `inner` has.
    ///
    /// # Errors
    /// `NotFound` for a device that is not there; the driver's own error when it is asked for its
    /// devices and their memory.
    pub fn new(inner: impl Into<Arc<D>>, limit: &Limit) -> Result<Self> {
        let inner = inner.into();
        let mut found = inner.devices()?;
        if let Some(missing) =
            limit.devices.iter().find(|device| found.iter().all(|info| info.device != **device))
        {
            let error = Error::new(ErrorKind::NotFound, Operation::Devices, "no such device");
            return Err(error.with_device(*missing));
        }
        found.retain(|info| limit.devices.is_empty() || limit.devices.contains(&info.device));
        let mut books = Books::default();
        for info in found {
            books.open(info.device, limit.bytes.min(info.total_bytes));
        }
        books.reading = limit.reading;
        let limited = Self::with_hook(inner, Limits { books: Mutex::new(books) });
        limited.reset()?;
        Ok(limited)
    }

    /// From now on answers with this reading.
    pub fn set_reading(&self, reading: Reading) {
        self.hook.books().reading = reading;
    }

    /// Reads the devices' own free bytes anew: what others, or the driver itself, have taken up to
    /// now is no longer counted by [`Reading::Device`].
    ///
    /// # Errors
    /// The driver's own error; no reading has then changed.
    pub fn reset(&self) -> Result<()> {
        let shown = self.hook.books().devices();
        let read = |device: Device| Ok((device, self.inner().memory(device)?.free_bytes));
        let read = shown.into_iter().map(read).collect::<Result<Vec<_>>>()?;
        let mut books = self.hook.books();
        read.into_iter().for_each(|(device, free_bytes)| books.rest(device, free_bytes));
        Ok(())
    }

    /// Gives the driver back all memory that was created and not released, with the addresses at
    /// which it is mapped. Answers how many bytes that was.
    ///
    /// # Errors
    /// `Busy` when work that may use the memory does not end: nothing has then changed. Else the
    /// first of the driver's own errors; what can be given back is so all the same.
    ///
    /// # Safety
    /// Nobody uses that memory or its addresses any more: who created it has dropped it, or has
    /// been dropped with it.
    pub unsafe fn reclaim(&self) -> Result<u64> {
        let memory = self.handles.all();
        if !memory.is_empty() {
            self.come_to_rest()?;
        }
        let mut errors = Vec::new();
        let mut emptied = BTreeMap::new();
        let mut bytes = 0;
        for physical in memory {
            let place = self.hook.books().place_of(physical.id);
            if let Some(place) = place {
                let range = place.range();
                // SAFETY: the handle was mapped there and nothing has unmapped it, by the books.
                // Its owner is gone, and no work in flight uses it.
                let unmapped = unsafe { self.unmap(&range, place.offset, physical.bytes) };
                let _ = range.into_driver();
                if let Err(error) = unmapped {
                    errors.push(error);
                    continue;
                }
                emptied.insert(place.start, place);
            }
            bytes += physical.bytes;
            errors.extend(self.release(physical).err());
        }
        for place in emptied.into_values().filter(|place| !self.hook.books().is_used(place)) {
            // SAFETY: nothing is mapped in it any more, by the books, and its owner is gone.
            errors.extend(unsafe { self.unreserve(place.range()) }.err());
        }
        errors.into_iter().next().map_or(Ok(bytes), Err)
    }

    /// Waits for the devices. One that is lost touches no memory.
    fn come_to_rest(&self) -> Result<()> {
        let shown = self.hook.books().devices();
        for device in shown {
            match self.quiesce(device, Deadline::after(PATIENCE)) {
                Err(error) if !error.kind().is_sticky() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// How long [`Limited::reclaim`] waits for a device. Work that has not ended by then may hang.
const PATIENCE: Duration = Duration::from_secs(10);
