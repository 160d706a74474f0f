//! Physical memory for one block: one handle, or several where the driver makes large ones badly.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::device::Device;
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::range::Range;

static LEAKED: AtomicU64 = AtomicU64::new(0);

/// How many physical handles of this process were dropped without being released.
#[must_use]
pub fn leaked_handles() -> u64 {
    LEAKED.load(Ordering::Relaxed)
}

/// One handle, and where in the block it goes.
#[derive(Debug)]
struct Piece<P> {
    offset: u64,
    bytes: u64,
    physical: P,
}

/// Physical memory, owned and not mapped. It ends in [`release`](Self::release) or in the
/// mappings of a block.
#[derive(Debug)]
#[must_use = "dropped physical memory is a leak"]
pub struct Backing<D: Driver> {
    driver: Arc<D>,
    device: Device,
    bytes: u64,
    /// Nearly always one.
    pieces: SmallVec<[Piece<D::Physical>; 1]>,
}

impl<D: Driver> Backing<D> {
    /// Creates `bytes` of physical memory in handles of at most `piece_bytes`, both in whole
    /// granules.
    ///
    /// # Errors
    /// `InvalidArgument` when either size is zero; else the driver's error of the handle that
    /// could not be made. Handles made before it have been released then.
    pub fn create(driver: &Arc<D>, device: Device, bytes: u64, piece_bytes: u64) -> Result<Self> {
        if bytes == 0 || piece_bytes == 0 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::Create,
                "physical memory of no bytes",
            )
            .with_device(device));
        }
        let mut backing =
            Self { driver: Arc::clone(driver), device, bytes, pieces: SmallVec::new() };
        let mut offset = 0;
        while offset < bytes {
            let piece_bytes = piece_bytes.min(bytes - offset);
            match driver.create(device, piece_bytes) {
                Ok(physical) => {
                    backing.pieces.push(Piece { offset, bytes: piece_bytes, physical });
                }
                Err(error) => {
                    return Err(match backing.release() {
                        Ok(()) => error,
                        Err(second) => error
                            .with_note(format_args!("releasing what was made failed: {second}")),
                    });
                }
            }
            offset += piece_bytes;
        }
        Ok(backing)
    }

    /// The device that holds it.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Its size in bytes, in whole granules.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many handles it is made of.
    #[must_use]
    pub fn handles(&self) -> usize {
        self.pieces.len()
    }

    /// Whether it came from this very driver.
    pub(crate) fn belongs_to(&self, driver: &Arc<D>) -> bool {
        Arc::ptr_eq(&self.driver, driver)
    }

    /// Gives it all back, also when one handle's release fails; the first error is returned.
    ///
    /// # Errors
    /// The driver's error. Every handle is gone all the same.
    pub fn release(mut self) -> Result<()> {
        let mut first = Ok(());
        for piece in std::mem::take(&mut self.pieces) {
            let result = self.driver.release(piece.physical);
            if first.is_ok() {
                first = result;
            }
        }
        first
    }

    /// Maps every piece into `range` and gives the devices access; all or nothing.
    ///
    /// # Safety
    /// The range has nothing mapped and is as long as this backing, which is mapped nowhere.
    pub(crate) unsafe fn map(&self, range: &Range, access: &[Device]) -> Result<(), MapFailed> {
        for (index, piece) in self.pieces.iter().enumerate() {
            // SAFETY: pieces lie side by side within the range, which has nothing else mapped
            // (the caller's promise), and each is mapped once, here.
            let mapped = unsafe { self.driver.map(range, piece.offset, &piece.physical) };
            if let Err(error) = mapped {
                // SAFETY: exactly the first `index` pieces are mapped; nobody was given them.
                return Err(unsafe { self.undo(range, index, error) });
            }
        }
        for piece in &self.pieces {
            // SAFETY: the piece was mapped by the loop above with this offset and size.
            let set = unsafe { self.driver.set_access(range, piece.offset, piece.bytes, access) };
            if let Err(error) = set {
                // SAFETY: all pieces are mapped; nobody was given them.
                return Err(unsafe { self.undo(range, self.pieces.len(), error) });
            }
        }
        Ok(())
    }

    /// Unmaps the first `count` pieces after `error`.
    ///
    /// # Safety
    /// Exactly these are mapped in `range`, and no work touches them.
    unsafe fn undo(&self, range: &Range, count: usize, error: Error) -> MapFailed {
        for piece in self.pieces.iter().take(count).rev() {
            // SAFETY: the caller's promise.
            let unmapped = unsafe { self.driver.unmap(range, piece.offset, piece.bytes) };
            if let Err(second) = unmapped {
                let error = error.with_note(format_args!("undoing it failed too: {second}"));
                return MapFailed { error, undone: false };
            }
        }
        MapFailed { error, undone: true }
    }

    /// Gives these devices access to every piece, which are mapped.
    ///
    /// # Safety
    /// The backing is mapped in `range`.
    pub(crate) unsafe fn set_access(&self, range: &Range, access: &[Device]) -> Result<()> {
        for piece in &self.pieces {
            // SAFETY: the caller's promise; the piece was mapped with this offset and size.
            unsafe { self.driver.set_access(range, piece.offset, piece.bytes, access) }?;
        }
        Ok(())
    }

    /// Unmaps every piece; when one fails, those before it are mapped again if they can be.
    ///
    /// # Safety
    /// The backing is mapped in `range`, and no work in flight touches it.
    pub(crate) unsafe fn unmap(&self, range: &Range, access: &[Device]) -> Result<(), MapFailed> {
        for (index, piece) in self.pieces.iter().enumerate() {
            // SAFETY: the caller's promise.
            let unmapped = unsafe { self.driver.unmap(range, piece.offset, piece.bytes) };
            let Err(error) = unmapped else { continue };
            for piece in self.pieces.iter().take(index) {
                // SAFETY: this loop's own unmap left the piece's place empty.
                let mapped = unsafe { self.driver.map(range, piece.offset, &piece.physical) };
                let usable = mapped.and_then(|()| {
                    // SAFETY: mapped by the line above with this offset and size.
                    unsafe { self.driver.set_access(range, piece.offset, piece.bytes, access) }
                });
                if let Err(second) = usable {
                    let error = error.with_note(format_args!("undoing it failed too: {second}"));
                    return Err(MapFailed { error, undone: false });
                }
            }
            return Err(MapFailed { error, undone: true });
        }
        Ok(())
    }

    /// Forgets the handles on purpose: the driver's state is unknown, and releasing memory that
    /// may still be mapped would be wrong. Counted as leaks.
    pub(crate) fn abandon(self) {
        drop(self);
    }
}

impl<D: Driver> Drop for Backing<D> {
    fn drop(&mut self) {
        for piece in self.pieces.drain(..) {
            // The handle's own drop calls no driver, but may do anything else; keep it out.
            let _kept = ManuallyDrop::new(piece.physical);
            LEAKED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Mapping or unmapping failed.
#[derive(Debug)]
pub(crate) struct MapFailed {
    pub(crate) error: Error,
    /// Whether everything is as it was before the call.
    pub(crate) undone: bool,
}
