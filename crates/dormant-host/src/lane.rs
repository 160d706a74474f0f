//! One worker's way between a device and host memory or a file.
//!
//! Copies are staged: the device writes into one of two registered buffers while the worker
//! moves the other one on. Staging keeps the large host memory pageable (registering it costs
//! more than the copy), and a chunk of one huge page is still in the cache when it is moved on.
//! A buffer is aligned well enough for a file to be read and written past the page cache.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use allocator_core::{Device, Driver, Error, ErrorKind, Mapped, Operation, Result};

use crate::job::{RestoreJob, SaveJob};
use crate::mapping::Mapping;

/// The size of one staging buffer, and so the most that one job copies, in bytes.
pub const CHUNK_BYTES: usize = 2 << 20;

/// The staging memory of one lane, in bytes.
pub const LANE_BYTES: usize = 2 * CHUNK_BYTES;

/// A stream and the buffer that its copies go through.
#[derive(Debug)]
struct Half<D: Driver> {
    stream: D::Stream,
    /// Start of this half's buffer of [`CHUNK_BYTES`].
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
                    // SAFETY: the mapping is two chunks long.
                    let buffer = unsafe { base.add(index * CHUNK_BYTES) };
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

    /// Copies what `next` names until it names nothing more; returns the bytes copied. Every copy
    /// has ended when this returns, also with an error.
    ///
    /// # Errors
    /// `InvalidArgument` for a job outside its block, longer than a chunk, or of another device;
    /// `Io` for a file; else the driver's first error.
    pub fn save<'a, B>(&mut self, next: impl FnMut() -> Option<SaveJob<'a, B>>) -> Result<u64>
    where
        B: Mapped<Driver = D> + 'a,
    {
        self.then_drain(|lane| lane.save_all(next))
    }

    /// Runs copies and waits for all of them, also when `next`, which is the caller's, panics.
    fn then_drain(&mut self, copies: impl FnOnce(&mut Self) -> Result<u64>) -> Result<u64> {
        let result = catch_unwind(AssertUnwindSafe(|| copies(self)));
        let drained = self.drain();
        match result {
            Ok(result) => result.and_then(|copied| drained.map(|()| copied)),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn save_all<'a, B>(&mut self, mut next: impl FnMut() -> Option<SaveJob<'a, B>>) -> Result<u64>
    where
        B: Mapped<Driver = D> + 'a,
    {
        self.drain()?;
        let mut copied = 0;
        let mut pending: [Option<SaveJob<'a, B>>; 2] = [None, None];
        let mut dry = false;
        loop {
            for (index, slot) in pending.iter_mut().enumerate() {
                if let Some(job) = slot.take() {
                    self.wait(index)?;
                    // SAFETY: the copy that filled the buffer has ended (`wait`), none is queued
                    // on it before the next `read` below, and a job is never longer than a chunk,
                    // which is whole sectors.
                    let filled = unsafe {
                        std::slice::from_raw_parts(
                            self.halves[index].buffer.as_ptr(),
                            job.into.staged_bytes(),
                        )
                    };
                    copied += job.into.bytes() as u64;
                    let of_block = |error| of_block(error, job.block);
                    job.into.take(filled).map_err(of_block)?;
                }
                if dry {
                    continue;
                }
                let Some(job) = next() else {
                    dry = true;
                    continue;
                };
                let bytes = job.into.bytes();
                self.check(job.block, job.offset, bytes)?;
                let from = job.block.address().offset(job.offset);
                let half = &mut self.halves[index];
                half.in_flight = true;
                // SAFETY: the source lies within the block (`check`), which stays mapped as it is
                // borrowed for `'a` and every copy ends before `save` returns or unwinds; the buffer is one
                // chunk of one registered piece, owned by the lane and idle.
                let queued =
                    unsafe { self.driver.read(&half.stream, from, half.buffer, bytes as u64) };
                queued?;
                *slot = Some(job);
            }
            if dry && pending.iter().all(Option::is_none) {
                return Ok(copied);
            }
        }
    }

    /// Copies what `next` names to the device until it names nothing more; returns the bytes
    /// copied. Every copy has ended when this returns, also with an error.
    ///
    /// # Errors
    /// As for [`save`](Self::save).
    pub fn restore<'a, B>(&mut self, next: impl FnMut() -> Option<RestoreJob<'a, B>>) -> Result<u64>
    where
        B: Mapped<Driver = D> + 'a,
    {
        self.then_drain(|lane| lane.restore_all(next))
    }

    fn restore_all<'a, B>(
        &mut self,
        mut next: impl FnMut() -> Option<RestoreJob<'a, B>>,
    ) -> Result<u64>
    where
        B: Mapped<Driver = D> + 'a,
    {
        self.drain()?;
        let mut copied = 0;
        let mut index = 0;
        while let Some(job) = next() {
            let bytes = job.from.bytes();
            self.check(job.block, job.offset, bytes)?;
            self.wait(index)?;
            let half = &mut self.halves[index];
            // SAFETY: no copy is using the buffer (`wait`); a job is never longer than a chunk,
            // which is whole sectors.
            let buffer = unsafe {
                std::slice::from_raw_parts_mut(half.buffer.as_ptr(), job.from.staged_bytes())
            };
            job.from.put(buffer).map_err(|error| of_block(error, job.block))?;
            let to = job.block.address().offset(job.offset);
            half.in_flight = true;
            // SAFETY: the target lies within the block (`check`), which stays mapped as it is
            // borrowed for `'a` and every copy ends before `restore` returns or unwinds; the buffer is one
            // chunk of one registered piece and is left alone until the next `wait`.
            let queued = unsafe { self.driver.write(&half.stream, to, half.buffer, bytes as u64) };
            queued?;
            copied += bytes as u64;
            index ^= 1;
        }
        Ok(copied)
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
        self.check_range(block, 0, bytes)?;
        let half = &mut self.halves[0];
        half.in_flight = true;
        // SAFETY: the bytes lie within the block, which is borrowed until the fill has ended.
        let queued = unsafe { self.driver.fill(&half.stream, block.address(), byte, bytes) };
        queued.and(self.drain())
    }

    fn check<B: Mapped<Driver = D>>(&self, block: &B, offset: u64, bytes: usize) -> Result<()> {
        if bytes > CHUNK_BYTES {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Engine,
                "a copy of more than one chunk",
            )
            .with_bytes(bytes as u64));
        }
        self.check_range(block, offset, bytes as u64)
    }

    fn check_range<B: Mapped<Driver = D>>(&self, block: &B, offset: u64, bytes: u64) -> Result<()> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= block.mapped_bytes());
        if inside && block.device() == self.device && Arc::ptr_eq(block.driver(), &self.driver) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidArgument,
            Operation::Engine,
            "a copy outside the block, or through another device's lane",
        )
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

/// Says whose contents a file failed.
fn of_block<B: Mapped>(error: Error, block: &B) -> Error {
    error.with_address(block.address()).with_device(block.device())
}

impl<D: Driver> Drop for Lane<D> {
    fn drop(&mut self) {
        // Dropping calls no driver. Memory that a device may know is kept for ever.
        if self.registered || self.halves.iter().any(|half| half.in_flight) {
            let _kept = self.staging.take().map(std::mem::ManuallyDrop::new);
        }
    }
}
