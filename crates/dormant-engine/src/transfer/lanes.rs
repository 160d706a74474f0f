//! Lanes that are open and wait for their next use.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use allocator_core::{Device, Driver, Result};
use dormant_host::{Lane, Node};

use crate::config::MAX_WORKERS;
use crate::sync::{Mutex, lock};

/// Open lanes that nobody is using.
#[derive(Debug)]
pub(crate) struct Lanes<D: Driver> {
    driver: Arc<D>,
    idle: Mutex<Vec<(Lane<D>, Instant)>>,
    /// The CPUs near each device, where that is known; asked for at the first copy.
    nodes: OnceLock<BTreeMap<Device, Node>>,
}

impl<D: Driver> Lanes<D> {
    pub(crate) fn new(driver: Arc<D>) -> Self {
        Self { driver, idle: Mutex::new(Vec::new()), nodes: OnceLock::new() }
    }

    /// Keeps the calling thread on the CPUs near a device.
    pub(super) fn bind_to(&self, device: Device) {
        let nodes = self.nodes.get_or_init(|| {
            let devices = self.driver.devices().unwrap_or_default();
            let near = devices
                .into_iter()
                .filter_map(|info| Some((info.device, Node::of_pci(&info.pci_address?)?)));
            near.collect()
        });
        if let Some(node) = nodes.get(&device) {
            node.bind_this_thread();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.idle).is_empty()
    }

    pub(super) fn take(&self, device: Device) -> Result<Lane<D>> {
        let mut idle = lock(&self.idle);
        let place = idle.iter().rposition(|(lane, _)| lane.device() == device);
        let found = place.map(|place| idle.remove(place).0);
        drop(idle);
        found.map_or_else(|| Lane::open(&self.driver, device), Ok)
    }

    /// Takes a lane back; one that met an error is closed, as is one more than a transition uses.
    pub(super) fn give(&self, lane: Lane<D>, whole: bool) {
        let device = lane.device();
        {
            let mut idle = lock(&self.idle);
            let kept = idle.iter().filter(|(lane, _)| lane.device() == device).count();
            if whole && kept < MAX_WORKERS {
                idle.push((lane, Instant::now()));
                return;
            }
        }
        let _ = lane.close();
    }

    /// Opens lanes until so many are idle, or one cannot be opened.
    pub(crate) fn warm(&self, device: Device, count: usize) {
        let count = count.min(MAX_WORKERS);
        let idle = lock(&self.idle).iter().filter(|(lane, _)| lane.device() == device).count();
        for _ in idle..count {
            match Lane::open(&self.driver, device) {
                Ok(lane) => self.give(lane, true),
                Err(_) => return,
            }
        }
    }

    /// Closes the lanes that have been idle for at least `age`.
    pub(crate) fn trim(&self, age: Duration) {
        let mut old = Vec::new();
        {
            let mut idle = lock(&self.idle);
            let mut index = 0;
            while let Some((_, since)) = idle.get(index) {
                if since.elapsed() >= age {
                    old.push(idle.remove(index).0);
                } else {
                    index += 1;
                }
            }
        }
        for lane in old {
            let _ = lane.close();
        }
    }

    /// Runs `work` with a lane.
    pub(crate) fn with<T>(
        &self,
        device: Device,
        work: impl FnOnce(&mut Lane<D>) -> Result<T>,
    ) -> Result<T> {
        let mut lane = self.take(device)?;
        let result = work(&mut lane);
        self.give(lane, result.is_ok());
        result
    }
}
