//! The floors: what the link, the driver and the disk reach without us. Each is measured once for
//! a size, and kept.

mod disk;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dormant::core::Driver as _;
use dormant::{Device, Driver};
use serde::Serialize;

use super::raw::{Down, PlainCopies, Ranges, Up};
use super::samples::{Samples, Summary};
use crate::failure::Failure;
use crate::size::Bytes;

/// The most host memory that is registered for plain copies, in bytes.
pub(crate) const WINDOW_BYTES: u64 = 1 << 30;

/// All floors of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Floors {
    copy: Vec<Copy>,
    calls: Vec<Calls>,
    disk: Vec<Disk>,
}

/// Plain pinned copies over one stream, in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Copy {
    device: u32,
    bytes: u64,
    down_ms: Summary,
    up_ms: Summary,
}

/// The driver's own calls for as many handles, in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Calls {
    device: u32,
    block_bytes: u64,
    blocks: u64,
    /// Unmap and release.
    down_ms: Summary,
    /// Create, map and set access.
    up_ms: Summary,
    /// The median of each call, all blocks together.
    each_ms: BTreeMap<&'static str, f64>,
}

/// Plain direct writes and reads of a file, in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Disk {
    directory: String,
    bytes: u64,
    /// Whether the page cache was gone around.
    direct: bool,
    threads: usize,
    write_ms: Summary,
    read_ms: Summary,
}

/// A floor both ways, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ways {
    /// Of a pause.
    pub(crate) down: f64,
    /// Of a resume.
    pub(crate) up: f64,
}

impl Floors {
    /// A plain pinned copy of `bytes`.
    pub(crate) fn copy(
        &mut self,
        driver: &Arc<Driver>,
        device: Device,
        bytes: u64,
        cycles: u32,
    ) -> Result<Ways, Failure> {
        let known = self.copy.iter().find(|have| (have.device, have.bytes) == (device.0, bytes));
        let found = match known {
            Some(found) => found.clone(),
            None => {
                let (mut down, mut up) = (Samples::default(), Samples::default());
                let window = driver.granularity(device)?.round_up(bytes.min(WINDOW_BYTES))?;
                let mut copies = PlainCopies::new(driver, device, window)?;
                for cycle in 0..=cycles {
                    let (there, back) = (copies.down(bytes)?, copies.up(bytes)?);
                    if cycle > 0 {
                        down.push(there);
                        up.push(back);
                    }
                }
                let (down_ms, up_ms) = (down.summary(), up.summary());
                let found = Copy { device: device.0, bytes, down_ms, up_ms };
                self.copy.push(found.clone());
                found
            }
        };
        Ok(Ways { down: found.down_ms.median, up: found.up_ms.median })
    }

    /// The driver's own calls for `blocks` handles of `block_bytes`.
    pub(crate) fn calls(
        &mut self,
        driver: &Arc<Driver>,
        device: Device,
        block_bytes: u64,
        blocks: u64,
        cycles: u32,
    ) -> Result<Ways, Failure> {
        let known = self.calls.iter().find(|have| {
            (have.device, have.block_bytes, have.blocks) == (device.0, block_bytes, blocks)
        });
        let found = match known {
            Some(found) => found.clone(),
            None => {
                let mut ranges = Ranges::reserve(driver, device, block_bytes, blocks)?;
                let mut times = Vec::new();
                for _ in 0..=cycles {
                    times.push((ranges.up()?, ranges.down()?));
                }
                let found = summed(device, block_bytes, blocks, &times[1..]);
                self.calls.push(found.clone());
                found
            }
        };
        Ok(Ways { down: found.down_ms.median, up: found.up_ms.median })
    }

    /// What mapping and setting access takes of [`calls`](Self::calls), which has been measured.
    pub(crate) fn mapping_ms(&self, device: Device, block_bytes: u64, blocks: u64) -> f64 {
        let found = self.calls.iter().find(|have| {
            (have.device, have.block_bytes, have.blocks) == (device.0, block_bytes, blocks)
        });
        found.map_or(0.0, |found| ["map", "access"].iter().map(|call| found.each_ms[call]).sum())
    }

    /// Plain direct writes and reads of `bytes` in a directory.
    pub(crate) fn disk(
        &mut self,
        directory: &Path,
        bytes: u64,
        cycles: u32,
    ) -> Result<Ways, Failure> {
        let found = disk::measure(directory, bytes, cycles).map_err(|error| Failure {
            kind: dormant::ErrorKind::Io,
            message: format!(
                "plain writes and reads of {} in {}: {error}",
                Bytes(bytes),
                directory.display()
            ),
        })?;
        let ways = Ways { down: found.write_ms.median, up: found.read_ms.median };
        self.disk.push(found);
        Ok(ways)
    }
}

fn summed(device: Device, block_bytes: u64, blocks: u64, times: &[(Up, Down)]) -> Calls {
    let all = |time: &dyn Fn(&(Up, Down)) -> Duration| {
        let mut samples = Samples::default();
        times.iter().for_each(|cycle| samples.push(time(cycle)));
        samples.summary()
    };
    Calls {
        device: device.0,
        block_bytes,
        blocks,
        down_ms: all(&|(_, down)| down.unmap + down.release),
        up_ms: all(&|(up, _)| up.create + up.map + up.access),
        each_ms: BTreeMap::from([
            ("create", all(&|(up, _)| up.create).median),
            ("map", all(&|(up, _)| up.map).median),
            ("access", all(&|(up, _)| up.access).median),
            ("unmap", all(&|(_, down)| down.unmap).median),
            ("release", all(&|(_, down)| down.release).median),
        ]),
    }
}
