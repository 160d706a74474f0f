//! What the machine has, and what this process takes of its memory.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dormant_host::process;
use serde::Serialize;

use crate::size::Bytes;

/// The host, as JSON has it.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// CPUs of this process's affinity.
    pub(crate) cpus: usize,
    /// All memory of the host, in bytes.
    memory_bytes: u64,
    /// What is left of it now, and of the container's limit.
    pub(crate) available_bytes: u64,
    pub(crate) backend: &'static str,
    driver_version: String,
    devices: Vec<DeviceFacts>,
}

#[derive(Debug, Serialize)]
pub(crate) struct DeviceFacts {
    pub(crate) ordinal: u32,
    pub(crate) name: String,
    pub(crate) total_bytes: u64,
    pub(crate) free_bytes: u64,
}

impl Machine {
    pub(crate) fn look(driver: dormant::DriverInfo, devices: Vec<DeviceFacts>) -> Self {
        Self {
            cpus: process::cpus(),
            memory_bytes: field("/proc/meminfo", "MemTotal:").unwrap_or(0),
            available_bytes: available_bytes(),
            backend: driver.backend,
            driver_version: driver.version,
            devices,
        }
    }

    pub(crate) fn devices(&self) -> &[DeviceFacts] {
        &self.devices
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpus, memory_bytes, backend, driver_version, devices, .. } = self;
        write!(f, "{backend}, driver {driver_version}")?;
        for DeviceFacts { ordinal, name, total_bytes, .. } in devices {
            write!(f, "; device {ordinal}: {name}, {}", Bytes(*total_bytes))?;
        }
        write!(f, "; {cpus} CPUs, {} of memory", Bytes(*memory_bytes))
    }
}

/// Host memory that this process may still take, in bytes.
fn available_bytes() -> u64 {
    let machine = field("/proc/meminfo", "MemAvailable:").unwrap_or(u64::MAX);
    control_groups().iter().filter_map(|group| group_leaves(group)).fold(machine, u64::min)
}

/// The directories of this process's control group (version 2) and of its ancestors.
fn control_groups() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return Vec::new();
    };
    Path::new(path).ancestors().map(|part| Path::new("/sys/fs/cgroup").join(part)).collect()
}

/// What a group's limit leaves. File pages that nobody uses go when memory is wanted.
fn group_leaves(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let most: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let idle = read("memory.stat")
        .and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok())
        })
        .unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(idle)))
}

/// Anonymous memory that is in this process's pages, in bytes; file pages and the memory of a
/// simulated device are not among it. `None` where the kernel does not say.
pub(crate) fn anonymous_bytes() -> Option<u64> {
    field("/proc/self/status", "RssAnon:")
}

/// A field that `/proc` gives in KiB, in bytes.
fn field(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Waits until host memory that goes back in the background has gone: until the reading stands
/// still. No longer than 5 s.
pub(crate) fn settle() {
    const STILL: Duration = Duration::from_millis(150);
    const NOISE_BYTES: u64 = 4 << 20;
    let begun = Instant::now();
    let mut before = anonymous_bytes();
    let mut since = Instant::now();
    while since.elapsed() < STILL && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
        let now = anonymous_bytes();
        let moved = match (before, now) {
            (Some(before), Some(now)) => before.abs_diff(now) > NOISE_BYTES,
            _ => false,
        };
        if moved {
            (before, since) = (now, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_and_of_the_machine_is_read_in_bytes() {
        let available = available_bytes();
        assert!(available > 1 << 20 && available < u64::MAX, "{available}");
        assert!(anonymous_bytes().is_none_or(|bytes| bytes > 0 && bytes < available));
        assert_eq!(field("/proc/meminfo", "NoSuchField:"), None);
        assert_eq!(field("/no/such/file", "MemTotal:"), None);
    }
}
