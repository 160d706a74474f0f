//! Driver calls without an engine: what the floors are measured with. The only unsafe code of the
//! program.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dormant::core::{Capabilities, Driver as Calls, Error, ErrorKind, Range, Result};
use dormant::{Address, Device, Driver};
use dormant_host::Mapping;

type Physical = <Driver as Calls>::Physical;
type Stream = <Driver as Calls>::Stream;

/// A copy is queued in pieces of at most this size.
const PIECE_BYTES: u64 = 64 << 20;

/// A range, and what is in it.
#[derive(Debug)]
struct Place {
    /// Gone once the driver has lost the address.
    range: Option<Range>,
    physical: Option<Physical>,
    mapped: bool,
}

/// Ranges of one size on one device, each with one handle or none.
#[derive(Debug)]
pub(crate) struct Ranges {
    driver: Arc<Driver>,
    device: Device,
    block_bytes: u64,
    /// Whether the driver keeps memory with the range, so that giving it back takes one call more.
    vacate: bool,
    places: Vec<Place>,
}

/// How long the driver's calls took, all ranges together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Up {
    pub(crate) create: Duration,
    pub(crate) map: Duration,
    pub(crate) access: Duration,
}

/// As [`Up`]. `release` has the vacates in it, where the driver needs them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Down {
    pub(crate) unmap: Duration,
    pub(crate) release: Duration,
}

impl Ranges {
    /// Reserves `blocks` ranges of `block_bytes`, in whole granules.
    pub(crate) fn reserve(
        driver: &Arc<Driver>,
        device: Device,
        block_bytes: u64,
        blocks: u64,
    ) -> Result<Self> {
        let capabilities = driver.capabilities(device)?;
        let vacate = capabilities.contains(Capabilities::KEEPS_UNTIL_UNRESERVED);
        let driver = Arc::clone(driver);
        let mut ranges = Self { driver, device, block_bytes, vacate, places: Vec::new() };
        for _ in 0..blocks {
            let range = ranges.driver.reserve(device, block_bytes)?;
            ranges.places.push(Place { range: Some(range), physical: None, mapped: false });
        }
        Ok(ranges)
    }

    /// Creates, maps and gives access. For ranges that have no memory.
    pub(crate) fn up(&mut self) -> Result<Up> {
        let begun = Instant::now();
        for place in self.places.iter_mut().filter(|place| place.physical.is_none()) {
            place.physical = Some(self.driver.create(self.device, self.block_bytes)?);
        }
        let create = begun.elapsed();
        let begun = Instant::now();
        for place in self.places.iter_mut().filter(|place| !place.mapped) {
            let (Some(range), Some(physical)) = (&place.range, &place.physical) else { continue };
            // SAFETY: the memory is as long as the range and is this place's alone, so it is
            // mapped nowhere else; nothing is mapped in the range, as the filter has it.
            unsafe { self.driver.map(range, 0, physical) }?;
            place.mapped = true;
        }
        let map = begun.elapsed();
        let begun = Instant::now();
        for range in self.places.iter().filter_map(|place| place.range.as_ref()) {
            // SAFETY: one piece of this size was mapped at the range's start just now.
            unsafe { self.driver.set_access(range, 0, self.block_bytes, &[self.device]) }?;
        }
        Ok(Up { create, map, access: begun.elapsed() })
    }

    /// Unmaps and releases. Nothing may be in flight on the memory: nobody but the copies of this
    /// file knows the addresses, and they wait for their own end.
    pub(crate) fn down(&mut self) -> Result<Down> {
        let begun = Instant::now();
        for place in self.places.iter_mut().filter(|place| place.mapped) {
            let Some(range) = &place.range else { continue };
            // SAFETY: the piece was mapped by `up`, and no work in flight touches it (see above).
            unsafe { self.driver.unmap(range, 0, self.block_bytes) }?;
            place.mapped = false;
        }
        let unmap = begun.elapsed();
        let begun = Instant::now();
        for place in &mut self.places {
            if let Some(physical) = place.physical.take() {
                self.driver.release(physical)?;
            }
        }
        if self.vacate {
            self.vacate_all()?;
        }
        Ok(Down { unmap, release: begun.elapsed() })
    }

    fn vacate_all(&mut self) -> Result<()> {
        for place in &mut self.places {
            let Some(range) = &mut place.range else { continue };
            // SAFETY: `down` has unmapped and released everything.
            let Err(error) = (unsafe { self.driver.vacate(range) }) else { continue };
            if error.kind() == ErrorKind::AddressLost {
                // The addresses are the driver's again.
                let _ = place.range.take().map(Range::into_driver);
            }
            return Err(error);
        }
        Ok(())
    }

    fn first_address(&self) -> Option<Address> {
        let place = self.places.first().filter(|place| place.mapped)?;
        place.range.as_ref().map(Range::address)
    }
}

impl Drop for Ranges {
    fn drop(&mut self) {
        // What the driver refuses here stays its own; there is nobody to tell.
        let _ = self.down();
        for place in self.places.drain(..).filter(|place| !place.mapped) {
            if let Some(range) = place.range {
                // SAFETY: nothing is mapped in it, and nobody else knows its addresses.
                let _ = unsafe { self.driver.unreserve(range) };
            }
        }
    }
}

/// Host memory that is registered with the driver.
#[derive(Debug)]
struct Pinned {
    driver: Arc<Driver>,
    mapping: Mapping,
}

impl Pinned {
    fn new(driver: &Arc<Driver>, bytes: u64) -> Result<Self> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut mapping = Mapping::new(bytes)?;
        mapping.as_mut_slice().fill(1);
        // SAFETY: the mapping is whole, new and unregistered, and this value, which unregisters
        // it first when dropped, owns it.
        unsafe { driver.register_host(mapping.base(), mapping.bytes() as u64) }?;
        Ok(Self { driver: Arc::clone(driver), mapping })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: registered by `new`, and every copy on it has been waited for.
        let _ = unsafe { self.driver.unregister_host(self.mapping.base()) };
    }
}

/// Plain copies between registered host memory and the device over one stream. The memory on
/// either side is a window that is gone over again until all bytes are copied.
#[derive(Debug)]
pub(crate) struct PlainCopies {
    stream: Option<Stream>,
    pinned: Pinned,
    window_bytes: u64,
    ranges: Ranges,
}

impl PlainCopies {
    /// A window of `window_bytes`, in whole granules.
    pub(crate) fn new(driver: &Arc<Driver>, device: Device, window_bytes: u64) -> Result<Self> {
        let mut ranges = Ranges::reserve(driver, device, window_bytes, 1)?;
        ranges.up()?;
        let pinned = Pinned::new(driver, window_bytes)?;
        let stream = driver.open_stream(device)?;
        Ok(Self { stream: Some(stream), pinned, window_bytes, ranges })
    }

    /// Copies `bytes` to the host, and waits.
    pub(crate) fn down(&mut self, bytes: u64) -> Result<Duration> {
        self.copy(bytes, false)
    }

    /// Copies `bytes` to the device, and waits.
    pub(crate) fn up(&mut self, bytes: u64) -> Result<Duration> {
        self.copy(bytes, true)
    }

    fn copy(&mut self, bytes: u64, up: bool) -> Result<Duration> {
        let driver = &self.ranges.driver;
        let (Some(stream), Some(device)) = (&self.stream, self.ranges.first_address()) else {
            return Ok(Duration::ZERO);
        };
        let begun = Instant::now();
        let queue = || {
            let mut left = bytes;
            let mut at = 0;
            while left > 0 {
                let length = left.min(PIECE_BYTES).min(self.window_bytes - at);
                let offset = usize::try_from(at).unwrap_or(0);
                // SAFETY: `at` lies within the window, which is as long as the mapping.
                let host = unsafe { self.pinned.mapping.base().add(offset) };
                let address = device.offset(at);
                if up {
                    // SAFETY: both sides lie within the window, on the device mapped with access
                    // and on the host one registered piece; both are this value's, which is
                    // borrowed exclusively until the wait below.
                    unsafe { driver.write(stream, address, host, length) }?;
                } else {
                    // SAFETY: as above.
                    unsafe { driver.read(stream, address, host, length) }?;
                }
                left -= length;
                at = (at + length) % self.window_bytes;
            }
            Ok::<_, Error>(())
        };
        let queued = queue();
        // Also what was queued before a refusal must have ended.
        let waited = driver.wait(stream);
        queued.and(waited).map(|()| begun.elapsed())
    }
}

impl Drop for PlainCopies {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            let _ = self.ranges.driver.close_stream(stream);
        }
    }
}
