//! The cases, one by one. Each has engines of its own, measures its floors beside it, and compares
//! the contents at its end.

mod cycles;
mod disk;
mod first;
mod host_memory;
mod latency;
mod ranks;
mod small;
mod two_devices;

use std::path::PathBuf;
use std::sync::Arc;

use dormant::{Backend, Device, Driver};

use super::bed::{Bed, Layout};
use super::case::Case;
use super::floors::{Floors, Ways};
use super::outcome::Found;
use super::plan::Sizes;
use crate::failure::Failure;
use crate::progress::Progress;

/// What the cases have in common.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) driver: Arc<Driver>,
    pub(crate) backend: Backend,
    /// At least one. Cases of one device use the first.
    pub(crate) devices: Vec<Device>,
    pub(crate) sizes: Sizes,
    pub(crate) cycles: u32,
    /// The directory of the case `disk`, if one was named.
    pub(crate) disk_directory: Option<PathBuf>,
    pub(crate) floors: Floors,
    pub(crate) progress: Progress,
    pub(crate) notes: Vec<String>,
    /// Contents that came back wrong.
    pub(crate) problems: Vec<String>,
}

impl Bench {
    /// Measures one case.
    pub(crate) fn measure(&mut self, case: Case) -> Found {
        self.progress = Progress::spinner(case.name());
        let found = match case {
            Case::Reclaim => cycles::reclaim(self),
            Case::Retain => cycles::retain(self),
            Case::RetainPrepared => first::prepared(self),
            Case::RetainFirst => first::unprepared(self),
            Case::Discard => cycles::discard(self),
            Case::Small => small::small(self),
            Case::TwoDevices => two_devices::two_devices(self),
            Case::Disk => disk::disk(self),
            Case::HostMemory => host_memory::host_memory(self),
            Case::Latency => latency::latency(self),
            Case::Ranks => ranks::ranks(self),
        };
        found.unwrap_or_else(Found::Failed)
    }

    pub(crate) fn device(&self) -> Device {
        self.devices.first().copied().unwrap_or(Device(0))
    }

    /// The layout of a case on the first device.
    fn layout(&self, case: Case) -> Layout {
        Layout {
            devices: vec![self.device()],
            bytes: self.sizes.bytes,
            block_bytes: self.sizes.block_bytes,
            policy: case.policy(),
            directory: None,
        }
    }

    /// A plain pinned copy of as many bytes.
    fn copy_floor(&mut self, layout: &Layout) -> Result<Ways, Failure> {
        let (device, cycles) = (self.device(), self.cycles);
        self.floors.copy(&self.driver, device, layout.bytes, cycles)
    }

    /// The driver's own calls for as many handles.
    fn calls_floor(&mut self, layout: &Layout) -> Result<Ways, Failure> {
        let (device, cycles) = (self.device(), self.cycles);
        let blocks = layout.bytes / layout.block_bytes;
        self.floors.calls(&self.driver, device, layout.block_bytes, blocks, cycles)
    }

    /// Compares the contents, and takes note of what is wrong.
    fn check(&mut self, case: Case, bed: &mut Bed) -> Result<(), Failure> {
        let wrong = bed.verify()?;
        self.problems.extend(wrong.into_iter().map(|text| format!("{}: {text}", case.name())));
        Ok(())
    }
}
