//! An engine of its own with blocks of one policy: what the cases pause and resume.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dormant::{
    Allocation, Buffer, Config, Device, Driver, Engine, HostMode, PauseOptions, Policy, Report,
    ResumeOptions, Selection,
};

use super::machine::settle;
use super::samples::Samples;
use crate::failure::Failure;
use crate::pattern::Contents;
use crate::progress::Progress;

/// Contents go over the host in pieces of at most this size.
const MOST_HOST_BYTES: u64 = 256 << 20;

/// What the host's buffer holds before a read, so that a read that brings nothing is found out.
const STALE: Contents = Contents::Pattern { seed: 0x57a1_e57a_1e57_a1e5 };

/// No pause waits longer for backups of the cycle before to go.
const MOST_WAIT: Duration = Duration::from_secs(5);

/// What to allocate on each device.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) devices: Vec<Device>,
    /// On each device, in whole blocks.
    pub(crate) bytes: u64,
    pub(crate) block_bytes: u64,
    pub(crate) policy: Policy,
    pub(crate) directory: Option<Arc<Path>>,
}

impl Layout {
    pub(crate) fn blocks(&self) -> u64 {
        self.bytes / self.block_bytes * self.devices.len() as u64
    }
}

/// The engine and its blocks. The fields are dropped in this order.
#[derive(Debug)]
pub(crate) struct Bed {
    blocks: Vec<Buffer>,
    engine: Arc<Engine>,
    devices: Vec<Device>,
    host: Vec<u8>,
}

/// Times of some cycles, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Cycles {
    pub(crate) pause: Samples,
    pub(crate) resume: Samples,
    /// The copying alone.
    pub(crate) pause_copy: Samples,
    pub(crate) resume_copy: Samples,
}

/// Settings of an engine whose backups in host memory are held like this.
pub(crate) fn config(mode: HostMode) -> Config {
    let mut config = Config::default();
    config.host_mode = mode;
    config
}

impl Bed {
    /// Allocates, and fills every block with a pattern of its own unless contents are discarded.
    pub(crate) fn new(
        driver: &Arc<Driver>,
        config: Config,
        layout: &Layout,
    ) -> Result<Self, Failure> {
        let engine = Arc::new(Engine::new(Arc::clone(driver), config));
        let keeps = layout.policy != Policy::Discard;
        let host_bytes = if keeps { layout.block_bytes.min(MOST_HOST_BYTES) } else { 0 };
        let host = vec![0; to_usize(host_bytes)];
        let devices = layout.devices.clone();
        let mut bed = Self { blocks: Vec::new(), engine, devices, host };
        for device in &layout.devices {
            for _ in 0..layout.bytes / layout.block_bytes {
                let mut allocation = Allocation::new(layout.block_bytes, *device)
                    .tag(tag(*device))
                    .policy(layout.policy);
                if let Some(directory) = &layout.directory {
                    allocation = allocation.directory(Arc::clone(directory));
                }
                bed.blocks.push(Buffer::new(&bed.engine, &allocation)?);
            }
        }
        if keeps {
            bed.fill()?;
        }
        Ok(bed)
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The blocks of all devices; other blocks of the engine are not among them.
    pub(crate) fn selection(&self) -> Selection {
        Selection::tags(self.devices.iter().map(|device| tag(*device)))
    }

    /// The blocks of the first device.
    pub(crate) fn first_device(&self) -> Selection {
        Selection::tags(self.devices.iter().take(1).map(|device| tag(*device)))
    }

    fn fill(&mut self) -> Result<(), Failure> {
        for (index, block) in (0_u64..).zip(&self.blocks) {
            for (offset, length) in pieces(block.len(), self.host.len()) {
                let piece = &mut self.host[..length];
                pattern(index).fill(offset, piece);
                block.write(offset, piece)?;
            }
        }
        Ok(())
    }

    /// Reads every byte. The first wrong one of each block that has one.
    pub(crate) fn verify(&mut self) -> Result<Vec<String>, Failure> {
        let mut wrong = Vec::new();
        if self.host.is_empty() {
            return Ok(wrong);
        }
        for (index, block) in (0_u64..).zip(&self.blocks) {
            let mut first = None;
            for (offset, length) in pieces(block.len(), self.host.len()) {
                let piece = &mut self.host[..length];
                STALE.fill(offset, piece);
                block.read(offset, piece)?;
                first = first.or_else(|| pattern(index).difference(offset, piece));
            }
            let place = format!("block {index} at {}", block.address());
            wrong.extend(first.map(|difference| format!("{place}: {difference}")));
        }
        Ok(wrong)
    }

    pub(crate) fn pause(&self, selection: Selection) -> Result<(Duration, Report), Failure> {
        let begun = Instant::now();
        let report = self.engine.pause(selection, &PauseOptions::default())?;
        Ok((begun.elapsed(), report))
    }

    pub(crate) fn resume(&self, selection: Selection) -> Result<(Duration, Report), Failure> {
        let begun = Instant::now();
        let report = self.engine.resume(selection, &ResumeOptions::default())?;
        Ok((begun.elapsed(), report))
    }

    /// One cycle that does not count, and then some that do.
    pub(crate) fn cycles(
        &self,
        selection: &Selection,
        count: u32,
        progress: &Progress,
    ) -> Result<Cycles, Failure> {
        let mut cycles = Cycles::default();
        for cycle in 0..=count {
            progress.counted(cycle, count);
            self.settle();
            let (pause, paused) = self.pause(selection.clone())?;
            let (resume, resumed) = self.resume(selection.clone())?;
            if cycle > 0 {
                cycles.pause.push(pause);
                cycles.resume.push(resume);
                cycles.pause_copy.push(paused.phases.copy);
                cycles.resume_copy.push(resumed.phases.copy);
            }
        }
        Ok(cycles)
    }

    /// Waits until backups that go in the background have gone.
    pub(crate) fn settle(&self) {
        let begun = Instant::now();
        let keeps = self.engine.config().host_mode != HostMode::Reclaim;
        while !keeps && begun.elapsed() < MOST_WAIT {
            let stats = self.engine.stats();
            if stats.host_backup_bytes == 0 && stats.disk_backup_bytes == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Frees every block, and waits until the host's memory is back as well.
    pub(crate) fn free(self) -> Result<(), Failure> {
        for block in self.blocks {
            block.free()?;
        }
        let _bytes = self.engine.trim();
        drop(self.engine);
        settle();
        Ok(())
    }
}

fn tag(device: Device) -> String {
    format!("bench_{device}")
}

/// What the block of this number is filled with.
fn pattern(index: u64) -> Contents {
    Contents::Pattern { seed: (index + 1) << 32 }
}

/// Offsets and lengths of the pieces, each but the last as long as the host's buffer.
fn pieces(bytes: u64, host_bytes: usize) -> impl Iterator<Item = (u64, usize)> {
    (0..bytes)
        .step_by(host_bytes.max(1))
        .map(move |offset| (offset, to_usize(bytes - offset).min(host_bytes)))
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[cfg(feature = "sim")]
mod tests {
    use dormant::Backend;

    use super::*;

    fn bed(policy: Policy) -> Bed {
        let driver = Arc::new(dormant::open(Some(Backend::Sim)).unwrap());
        let layout = Layout {
            devices: vec![Device(0), Device(1)],
            bytes: 8 << 20,
            block_bytes: 4 << 20,
            policy,
            directory: None,
        };
        assert_eq!(layout.blocks(), 4);
        Bed::new(&driver, config(HostMode::Reclaim), &layout).unwrap()
    }

    #[test]
    fn a_byte_that_changed_is_found_with_its_block_and_position() {
        let mut bed = bed(Policy::Host);
        let progress = Progress::spinner("");
        bed.cycles(&bed.selection(), 1, &progress).unwrap();
        assert_eq!(bed.verify().unwrap(), [""; 0]);
        let at = bed.blocks[2].len() - 1;
        let mut byte = [0];
        bed.blocks[2].read(at, &mut byte).unwrap();
        bed.blocks[2].write(at, &[!byte[0]]).unwrap();
        let wrong = bed.verify().unwrap();
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with("block 2 at 0x"), "{wrong:?}");
        assert!(wrong[0].contains(&format!("byte {at} is")), "{wrong:?}");
        bed.free().unwrap();
    }

    #[test]
    fn the_first_device_is_paused_alone_and_all_with_one_call() {
        let bed = bed(Policy::Discard);
        let (_, report) = bed.pause(bed.first_device()).unwrap();
        assert_eq!((report.moved().bytes, report.devices.len()), (8 << 20, 1));
        let (_, report) = bed.pause(bed.selection()).unwrap();
        assert_eq!((report.moved().bytes, report.already().bytes), (8 << 20, 8 << 20));
        let (_, report) = bed.resume(bed.selection()).unwrap();
        assert_eq!(report.devices.len(), 2);
        bed.free().unwrap();
    }
}
