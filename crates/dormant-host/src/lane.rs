//! One worker's way between a device and host memory or a file.
//!
//! A lane has two halves, and the device is at one of them while the worker is at the other.
//! Copies to and from pageable memory and files are staged: they go through the half's registered
//! buffer, so that large host memory need not be registered (which costs more than the copy), and a
//! chunk of one huge page is still in the cache when it is moved on. A buffer is aligned well
//! enough for a file to be read and written past the page cache. Copies to and from registered
//! memory are direct. Small ones are queued several at a time.

mod copies;

use std::ptr::NonNull;
use std::sync::Arc;

use allocator_core::{Device, Driver, Error, ErrorKind, Mapped, Operation, Result};

use crate::mapping::Mapping;

/// A chunk of saved contents, in bytes: it has a checksum of its own, and copied on to fresh memory
/// it is one huge page that is zeroed and written while it is in the cache (more at a time took an H200's
/// host a fifth longer).
pub const CHUNK_BYTES: usize = 2 << 20;

/// One staging buffer, in bytes: the most that a job copies by way of it. On the way to the device
/// larger copies are quicker (chunk by chunk took an H200 7 % longer).
pub const STAGING_BYTES: usize = 2 * CHUNK_BYTES;

/// The staging memory of one lane, in bytes.
pub const LANE_BYTES: usize = 2 * STAGING_BYTES;

/// A stream and the buffer that its copies go through.
#[derive(Debug)]
struct Half<D: Driver> {
    stream: D::Stream,
    /// Start of this half's buffer of [`STAGING_BYTES`].
    buffer: NonNull<u8>,
    /// A copy may still be touching the buffer.
    in_flight: bool,
}

/// Two streams and two staging buffers on one device. For one thread at a time.
#[derive(Debug)]
pub struct Lane<D: Driver> {
    driver: Arc<D>,
    device: Device,
    halves: Vec<Half<D>>,
    staging: Option<Mapping>,
    registered: bool,
}

// SAFETY: the raw buffer addresses point into `staging`, which the lane owns and which is not
// tied to a thread; streams are `Send` by the trait.
unsafe impl<D: Driver> Send for Lane<D> {}

impl<D: Driver> Lane<D> {
    /// Opens streams and registers staging memory. Where the system refuses the registration,
    /// plain memory serves (slower; see [`is_registered`](Self::is_registered)).
    ///
    /// # Errors
    /// `HostMemory`, or the driver's error about the streams; nothing is left open then.
    pub fn open(driver: &Arc<D>, device: Device) -> Result<Self> {
        let staging = Mapping::new(LANE_BYTES)?;
        let base = staging.base();
        let mut lane = Self {
            driver: Arc::clone(driver),
            device,
            halves: Vec::with_capacity(2),
            staging: Some(staging),
            registered: false,
        };
        for index in 0..2 {
            match driver.open_stream(device) {
                Ok(stream) => {
                    // SAFETY: the mapping is two buffers long.
                    let buffer = unsafe { base.add(index * STAGING_BYTES) };
                    lane.halves.push(Half { stream, buffer, in_flight: false });
                }
                Err(error) => {
                    let _ = lane.close();
                    return Err(error);
                }
            }
        }
        // SAFETY: the lane owns the mapping, registers it once, and unregisters it before it is
        // unmapped (or keeps it for ever).
        lane.registered = unsafe { driver.register_host(base, LANE_BYTES as u64) }.is_ok();
        Ok(lane)
    }

    /// The device it copies from and to.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Whether its staging memory is registered, so that copies run at the link's speed.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.registered
    }

    /// Sets the first `bytes` of a block to `byte` and waits for it.
    ///
    /// # Errors
    /// As for [`save`](Self::save), without the limit of a chunk.
    pub fn fill<B>(&mut self, block: &B, bytes: u64, byte: u8) -> Result<()>
    where
        B: Mapped<Driver = D>,
    {
        self.drain()?;
        self.check(block, 0, bytes, u64::MAX)?;
        let half = &mut self.halves[0];
        half.in_flight = true;
        // SAFETY: the bytes lie within the block, which is borrowed until the fill has ended.
        let queued = unsafe { self.driver.fill(&half.stream, block.address(), byte, bytes) };
        queued.and(self.drain())
    }

    /// Checks that a copy of `bytes`, and no more than `most`, lies within its block on this device.
    fn check<B>(&self, block: &B, offset: u64, bytes: u64, most: u64) -> Result<()>
    where
        B: Mapped<Driver = D>,
    {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= block.mapped_bytes());
        let ours = block.device() == self.device && Arc::ptr_eq(block.driver(), &self.driver);
        if inside && ours && bytes <= most {
            return Ok(());
        }
        let text = if inside && ours {
            "a copy of more than a job may have"
        } else {
            "a copy outside the block, or through another device's lane"
        };
        Err(invalid(text)
            .with_address(block.address())
            .with_device(block.device())
            .with_bytes(bytes))
    }

    /// Waits for one half's copy, if one is in flight.
    fn wait(&mut self, index: usize) -> Result<()> {
        let half = &mut self.halves[index];
        if !half.in_flight {
            return Ok(());
        }
        let result = self.driver.wait(&half.stream);
        // Also after an error: the trait promises that the device is done with the buffer.
        half.in_flight = false;
        result
    }

    /// Waits for both halves; the first error counts.
    fn drain(&mut self) -> Result<()> {
        let first = if self.halves.is_empty() { Ok(()) } else { self.wait(0) };
        let second = if self.halves.len() < 2 { Ok(()) } else { self.wait(1) };
        first.and(second)
    }

    /// Waits for what is in flight, unregisters the staging memory and closes the streams.
    ///
    /// # Errors
    /// The driver's first error. Everything that can be given back is.
    pub fn close(mut self) -> Result<()> {
        let mut first = self.drain();
        let mut note = |result: Result<()>| {
            if first.is_ok() {
                first = result;
            }
        };
        if self.registered
            && let Some(staging) = &self.staging
        {
            // SAFETY: registered by `open` at this address, and nothing is in flight.
            note(unsafe { self.driver.unregister_host(staging.base()) });
        }
        for half in self.halves.drain(..) {
            note(self.driver.close_stream(half.stream));
        }
        self.registered = false;
        drop(self.staging.take());
        first
    }
}

fn invalid(text: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Engine, text)
}

impl<D: Driver> Drop for Lane<D> {
    fn drop(&mut self) {
        // Dropping calls no driver. Memory that a device may know is kept for ever.
        if self.registered || self.halves.iter().any(|half| half.in_flight) {
            let _kept = self.staging.take().map(std::mem::ManuallyDrop::new);
        }
    }
}
