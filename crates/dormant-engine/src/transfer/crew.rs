//! How many workers copy, and how much each keeps queued on its device.

use std::collections::BTreeMap;

use allocator_core::Device;
use dormant_host::LANE_BYTES;

use super::jobs::Load;
use crate::config::{Config, MAX_WORKERS};

/// Workers that wait for a disk, where a share of the CPUs would be fewer: they wait rather than
/// work, and a disk wants several requests at once. As many of the [`MAX_WORKERS`] are theirs where other
/// contents are copied at the same time.
const DISK_WORKERS: usize = 4;

/// The same for memory that the device reads and writes itself, which takes one worker then.
const LINK_SHARE: usize = 4;

/// Workers that keep the link busy with such memory when there is nothing else: one queues while the
/// other waits.
const LINK_WORKERS: usize = 2;

/// What there is to copy.
pub(crate) type Loads = BTreeMap<(Device, Load), usize>;

/// Workers for one device and load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) workers: usize,
    /// Bytes that each may keep queued in one half of its lane.
    pub(super) window_bytes: u64,
}

/// Workers for a run of copies. Those of a disk serve all devices in turn, so that few of them are
/// enough where their staging memory is limited.
#[derive(Debug)]
pub(super) struct Crew {
    /// For all devices together.
    pub(super) disk: usize,
    pub(super) others: BTreeMap<(Device, Load), Share>,
}

impl Config {
    /// Shares out the workers, by the number of jobs of each kind.
    pub(super) fn crew(&self, loads: &Loads) -> Crew {
        let jobs_of = |load| loads.keys().filter(move |(_, has)| *has == load).count();
        let devices =
            loads.keys().map(|(device, _)| *device).collect::<std::collections::BTreeSet<_>>();
        let share = self.workers_for(devices.len());
        let disk = self.disk_workers(share, jobs_of(Load::Disk), loads.len());
        let mut others = BTreeMap::new();
        for (&(device, load), &jobs) in loads {
            let has = |load| loads.contains_key(&(device, load));
            let units = MAX_WORKERS - if has(Load::Disk) { DISK_WORKERS } else { 0 };
            let (workers, units) = match load {
                Load::Disk => continue,
                Load::Link if has(Load::Cpu) => (1, LINK_SHARE),
                Load::Link => (LINK_WORKERS.min(share), units),
                Load::Cpu if has(Load::Link) => (share.min(units - LINK_SHARE), units - LINK_SHARE),
                Load::Cpu => (share.min(units), units),
            };
            // A lane has two halves.
            let window = match load {
                Load::Link => units * LANE_BYTES / workers / 2,
                Load::Cpu | Load::Disk => LANE_BYTES / 2,
            };
            let share = Share { workers: workers.min(jobs).max(1), window_bytes: window as u64 };
            others.insert((device, load), share);
        }
        Crew { disk, others }
    }

    /// Workers that wait for disks: within the limit on staging memory, and few where other contents
    /// are copied as well.
    fn disk_workers(&self, share: usize, devices: usize, kinds: usize) -> usize {
        if devices == 0 {
            return 0;
        }
        let few = if self.workers.is_none() { DISK_WORKERS } else { 1 };
        let alone = kinds == devices;
        let each = if alone { share.max(few) } else { DISK_WORKERS.min(share.max(few)) };
        let lanes = usize::try_from(self.disk_staging_bytes / LANE_BYTES as u64);
        (each * devices).min(lanes.unwrap_or(usize::MAX)).max(1)
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
            config.crew(&loads(&of)).disk
        };
        assert_eq!([disks(&config, 1), disks(&config, 2), disks(&config, 3)], [16, 16, 16]);
        config.disk_staging_bytes = 8 << 20;
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
            for set in 1..8_usize {
                let of: Vec<_> = (0..3)
                    .filter(|bit| set >> bit & 1 == 1)
                    .map(|bit| (0, kinds[bit], 1_000_000))
                    .collect();
                let crew = config.crew(&loads(&of));
                let queued: u64 = crew
                    .others
                    .values()
                    .map(|share| share.workers as u64 * 2 * share.window_bytes)
                    .sum::<u64>()
                    + (crew.disk * LANE_BYTES) as u64;
                assert!(queued <= 64 << 20, "{workers} {of:?}: {queued} {crew:?}");
                assert_eq!(crew.others.len() + usize::from(crew.disk > 0), of.len());
            }
        }
    }

    #[test]
    fn there_are_no_more_workers_than_jobs() {
        let config = Config { workers: Some(16), ..Config::default() };
        let crew = config.crew(&loads(&[(0, Load::Cpu, 3), (1, Load::Link, 1)]));
        let workers: Vec<_> = crew.others.values().map(|share| share.workers).collect();
        assert_eq!(workers, [3, 1]);
    }
}
