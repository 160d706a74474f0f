//! How many workers copy, and how much each keeps queued on its device.

use std::collections::{BTreeMap, BTreeSet};

use allocator_core::Device;
use dormant_host::LANE_BYTES;

use super::jobs::{Direction, Load};
use crate::config::{Config, MAX_WORKERS};

/// The most of our own copies that is queued on one device, in bytes: it bounds how long a free of an
/// active block waits for them (1.2 ms at the speed of an H200's link).
const QUEUED_BYTES: usize = 64 << 20;

/// Workers that wait for a disk, where a share of the CPUs would be fewer: they wait rather than
/// work, and a disk wants several requests at once.
const DISK_WORKERS: usize = 4;

/// The most where other contents are copied at the same time.
const MIXED_DISK_WORKERS: usize = 2;

/// Workers that keep the link busy with memory that the device writes itself: one queues while the other
/// waits. To the device one is quicker (an H200 lost a thirtieth to two).
const LINK_WORKERS: usize = 2;

/// What there is to copy.
pub(crate) type Loads = BTreeMap<(Device, Load), usize>;

/// Workers for one device and load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) workers: usize,
    /// Bytes that each may keep queued in one of the two halves of its lane.
    pub(super) window_bytes: u64,
}

/// Workers for a run of copies. Those of a disk are counted for all devices together, so that few of
/// them are enough where their staging memory is limited.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) disk: usize,
    pub(super) others: BTreeMap<(Device, Load), Share>,
}

impl Config {
    /// Shares out the workers, by the number of jobs of each kind.
    pub(super) fn crew(&self, loads: &Loads, direction: Direction) -> Crew {
        let devices: BTreeSet<_> = loads.keys().map(|(device, _)| *device).collect();
        let share = self.workers_for(devices.len());
        let mut others = BTreeMap::new();
        for (&(device, load), &jobs) in loads {
            let has = |load| loads.contains_key(&(device, load));
            let disk = if has(Load::Disk) { MIXED_DISK_WORKERS * LANE_BYTES } else { 0 };
            let direct = direction.direct_bytes();
            let link = if has(Load::Link) { 2 * direct } else { 0 };
            let (workers, window) = match load {
                Load::Disk => continue,
                Load::Link => match direction {
                    Direction::Save if !has(Load::Cpu) => (LINK_WORKERS.min(share), direct),
                    Direction::Save | Direction::Restore => (1, direct),
                },
                Load::Cpu => {
                    let window = direction.staged_bytes();
                    (share.min((QUEUED_BYTES - disk - link) / window / 2), window)
                }
            };
            let share = Share { workers: workers.min(jobs).max(1), window_bytes: window as u64 };
            others.insert((device, load), share);
        }
        Crew { disk: self.disk_workers(share, loads), others }
    }

    /// Workers that wait for disks: within the limit on staging memory, and few where other contents
    /// are copied as well.
    fn disk_workers(&self, share: usize, loads: &Loads) -> usize {
        let devices = loads.keys().filter(|(_, load)| *load == Load::Disk).count();
        if devices == 0 {
            return 0;
        }
        let few = if self.workers.is_none() { DISK_WORKERS } else { 1 };
        let mixed = loads.len() > devices;
        let most = if mixed { MIXED_DISK_WORKERS } else { QUEUED_BYTES / LANE_BYTES };
        let lanes = usize::try_from(self.disk_staging_bytes / LANE_BYTES as u64);
        (share.max(few).min(most) * devices).min(lanes.unwrap_or(usize::MAX)).max(1)
    }

    /// Workers for each of `devices` devices at work at once, at least one. One CPU in eight is left to
    /// the program: where all of them copied, its own allocations waited several milliseconds for a
    /// CPU (p99, 16 CPUs), and copying was no quicker.
    pub(crate) fn workers_for(&self, devices: usize) -> usize {
        let share = self.workers.unwrap_or_else(|| {
            let cpus = dormant_host::process::cpus();
            (cpus - cpus / 8).div_ceil(self.ranks_on_node.max(1)).div_ceil(devices.max(1))
        });
        share.clamp(1, MAX_WORKERS)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn loads(of: &[(u32, Load, usize)]) -> Loads {
        of.iter().map(|(device, load, jobs)| ((Device(*device), *load), *jobs)).collect()
    }

    #[test]
    fn staging_for_the_disk_stays_under_its_limit_and_a_disk_gets_several_requests() {
        let mut config = Config { workers: Some(16), ..Config::default() };
        let disks = |config: &Config, devices: u32| {
            let of: Vec<_> = (0..devices).map(|device| (device, Load::Disk, 1000)).collect();
            config.crew(&loads(&of), Direction::Save).disk
        };
        assert_eq!([disks(&config, 1), disks(&config, 2), disks(&config, 3)], [8, 8, 8]);
        config.disk_staging_bytes = 16 << 20;
        assert_eq!(disks(&config, 3), 2);
        config.disk_staging_bytes = 0;
        assert_eq!(disks(&config, 3), 1);
        let shared = Config { ranks_on_node: 1 << 20, ..Config::default() };
        assert_eq!(disks(&shared, 1), 4);
        assert_eq!(disks(&Config { workers: Some(1), ..shared }, 1), 1);
    }

    #[test]
    fn no_more_than_64_mib_are_queued_on_a_device_whatever_is_copied() {
        let kinds = [Load::Link, Load::Cpu, Load::Disk];
        for workers in [1, 2, 5, 16, 1000] {
            let config = Config { workers: Some(workers), ..Config::default() };
            for (set, direction) in
                (1..8_usize).flat_map(|set| [(set, Direction::Save), (set, Direction::Restore)])
            {
                let of: Vec<_> = (0..3)
                    .filter(|bit| set >> bit & 1 == 1)
                    .map(|bit| (0, kinds[bit], 1_000_000))
                    .collect();
                let crew = config.crew(&loads(&of), direction);
                let queued: u64 = crew
                    .others
                    .values()
                    .map(|share| share.workers as u64 * 2 * share.window_bytes)
                    .sum::<u64>()
                    + (crew.disk * LANE_BYTES) as u64;
                assert!(queued <= 64 << 20, "{workers} {direction:?} {of:?}: {queued} {crew:?}");
                assert_eq!(crew.others.len() + usize::from(crew.disk > 0), of.len());
            }
        }
    }

    #[test]
    fn there_are_no_more_workers_than_jobs_and_few_large_copies_to_the_device() {
        let config = Config { workers: Some(16), ..Config::default() };
        let workers = |of, direction| -> Vec<_> {
            let crew = config.crew(&loads(of), direction);
            crew.others.values().map(|share| share.workers).collect()
        };
        let few = [(0, Load::Cpu, 3), (1, Load::Link, 1)];
        assert_eq!(workers(&few, Direction::Save), [3, 1]);
        let alone = [(0, Load::Link, 300)];
        assert_eq!(workers(&alone, Direction::Save), [2]);
        assert_eq!(workers(&alone, Direction::Restore), [1]);
        let many = [(0, Load::Cpu, 300)];
        assert_eq!(workers(&many, Direction::Save), [16]);
        assert_eq!(workers(&many, Direction::Restore), [8]);
    }
}
