//! What can be set about an engine.

use std::path::PathBuf;
use std::time::Duration;

use crate::policy::{Checksum, HostMode};

/// The most workers that copy for one device. With two chunks of 2 MiB each they keep no more than
/// 64 MiB of our own copies queued on it, which bounds how long a free has to wait.
pub const MAX_WORKERS: usize = 16;

/// Settings of an [`Engine`](crate::Engine).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// How long a pause or resume waits for another transition, and a pause for work in flight,
    /// unless the call says otherwise.
    pub transition_timeout: Duration,
    /// How long a free of an active block waits for work in flight on its device.
    pub free_timeout: Duration,
    /// Threads that copy for one device: `None` takes seven of eight CPUs of the process's affinity,
    /// divided by [`ranks_on_node`](Self::ranks_on_node) and by the devices at work; at most
    /// [`MAX_WORKERS`], half as many on the way to the device, and one or two where it reads and
    /// writes the memory itself.
    pub workers: Option<usize>,
    /// Processes that share the node with this one (`LOCAL_WORLD_SIZE`).
    pub ranks_on_node: usize,
    /// The most bytes of host memory that backups may take together, what is retained between them
    /// included. `None`: what the container's limits and the machine's memory leave at the time, less
    /// [`host_margin_bytes`](Self::host_margin_bytes), divided by
    /// [`ranks_on_node`](Self::ranks_on_node).
    pub host_limit_bytes: Option<u64>,
    /// Host memory that is left to everybody else when no limit is set, in bytes.
    pub host_margin_bytes: u64,
    /// How host memory of backups is held, where neither block nor region says.
    pub host_mode: HostMode,
    /// The most bytes of host memory that are retained. `None`: as much as backups may take, and half
    /// of that in the mode `auto`.
    pub retain_limit_bytes: Option<u64>,
    /// Whether saved contents are checked, where neither call, block nor region says.
    pub checksum: Checksum,
    /// Where contents of the policy `disk` go for which the block names no directory. `None`: the
    /// system's directory for temporary files, which on many machines is memory.
    pub disk_directory: Option<PathBuf>,
    /// The most bytes of staging memory that a pause or resume uses together when contents go to
    /// disk or come from there. A worker has 8 MiB, and there is at least one.
    pub disk_staging_bytes: u64,
    /// The most bytes of disk space that the file of a device and directory keeps for the next pause,
    /// which writes to it quicker than to new space. `None`: all that it had. Zero: everything goes back
    /// to the disk when its blocks are resumed or freed.
    pub disk_keep_bytes: Option<u64>,
    /// How long staging buffers and streams stay open after their last use.
    pub idle_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            transition_timeout: Duration::from_secs(300),
            free_timeout: Duration::from_secs(300),
            workers: None,
            ranks_on_node: 1,
            host_limit_bytes: None,
            host_margin_bytes: 512 << 20,
            host_mode: HostMode::default(),
            retain_limit_bytes: None,
            checksum: Checksum::default(),
            disk_directory: None,
            disk_staging_bytes: 64 << 20,
            disk_keep_bytes: None,
            idle_timeout: Duration::from_secs(5),
        }
    }
}

impl Config {
    /// The defaults, with `LOCAL_WORLD_SIZE` (set by torchrun and its like) and
    /// `DORMANT_DISK_DIR` taken into account.
    #[must_use]
    pub fn from_env() -> Self {
        let ranks = std::env::var("LOCAL_WORLD_SIZE").ok().and_then(|text| text.parse().ok());
        let directory = std::env::var_os("DORMANT_DISK_DIR").filter(|name| !name.is_empty());
        Self {
            ranks_on_node: ranks.unwrap_or(1).max(1),
            disk_directory: directory.map(PathBuf::from),
            ..Self::default()
        }
    }
}
