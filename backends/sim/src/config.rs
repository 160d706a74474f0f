//! What the simulated machine is made of, and how it misbehaves.

use std::time::Duration;

use allocator_core::{Capabilities, Error, ErrorKind, Operation, Result};

pub(crate) mod environment;

/// A known fault of a real driver, to be acted out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Physical memory stays with the range that it was mapped in until the range is unreserved
    /// (ROCm 7.2); [`Capabilities::KEEPS_UNTIL_UNRESERVED`] is reported.
    KeepUntilUnreserved,
    /// The same, but the capability does not say so: as when asking for it went wrong.
    KeepUnsaid,
    /// One unmap over several whole mappings is refused.
    NoJoinedUnmap,
    /// `create` of more bytes than this is out of memory, although there is room.
    MaxPiece(u64),
    /// A range that is unreserved and reserved again comes back at another address. Implies
    /// [`KeepUntilUnreserved`](Self::KeepUntilUnreserved), since nobody vacates otherwise.
    AddressLost,
    /// Registering host memory fails, as under a limit on locked memory.
    RefuseHostRegistration,
    /// A handle that is released while it is mapped keeps the range busy: unreserving it is refused
    /// ever after (ROCR-Runtime#257).
    EarlyReleaseKeepsRange,
    /// One `set_access` over several whole mappings is refused (rocm-systems#2516).
    NoJoinedAccess,
    /// The host reads and writes device memory only where it was given access of its own (HIP 7.2
    /// with a large BAR); [`Capabilities::HOST_ACCESS_NEEDED`] is reported.
    HostAccessNeeded,
    /// A legacy handle for other processes is given out for virtual memory, and is good for nothing
    /// (clr#265).
    BogusIpcHandle,
}

/// How to build a simulated machine.
///
/// ```
/// # fn main() -> allocator_core::Result<()> {
/// let config = dormant_sim::SimConfig::new().devices(1).capacity_bytes(64 << 20);
/// let sim = dormant_sim::Sim::new(config)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SimConfig {
    pub(crate) devices: u32,
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) held_back_bytes: u64,
    pub(crate) granularity: u64,
    pub(crate) link_bytes_per_second: Option<u64>,
    pub(crate) strict: bool,
    pub(crate) peers: bool,
    pub(crate) scribble: Option<u8>,
    pub(crate) latency: Option<Duration>,
    pub(crate) capabilities: Capabilities,
    pub(crate) faults: Vec<Fault>,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            devices: 2,
            capacity_bytes: None,
            held_back_bytes: 0,
            granularity: 2 << 20,
            link_bytes_per_second: None,
            strict: true,
            peers: true,
            scribble: None,
            latency: None,
            capabilities: Capabilities::VIRTUAL_MEMORY
                | Capabilities::RDMA
                | Capabilities::POLLED_QUIESCE,
            faults: Vec::new(),
        }
    }
}

impl SimConfig {
    /// Two devices, each with 4 GiB or a quarter of what the host has available, whichever is
    /// less; 2 MiB granules; a link as fast as memory; strict; no faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many devices there are.
    #[must_use]
    pub fn devices(mut self, count: u32) -> Self {
        self.devices = count;
        self
    }

    /// The memory of each device; rounded down to whole granules.
    #[must_use]
    pub fn capacity_bytes(mut self, bytes: u64) -> Self {
        self.capacity_bytes = Some(bytes);
        self
    }

    /// Bytes of each device that read as free but are given to nobody. An H200 (driver 580) reads
    /// 129 MiB as free when it refuses 128 MiB.
    #[must_use]
    pub fn held_back_bytes(mut self, bytes: u64) -> Self {
        self.held_back_bytes = bytes;
        self
    }

    /// The granule: a power of two, at least a page. Small ones make small tests, but each mapped
    /// piece is a mapping of the process, of which Linux allows `vm.max_map_count` (65530 unless
    /// set): beyond some 60 000 mapped pieces, `map` is out of memory. Reserved ranges with
    /// nothing mapped do not count; they lie side by side and are one mapping.
    #[must_use]
    pub fn granularity(mut self, bytes: u64) -> Self {
        self.granularity = bytes;
        self
    }

    /// How fast copies run, per device and direction, all streams together. `None` is as fast as
    /// memory.
    #[must_use]
    pub fn link_bytes_per_second(mut self, speed: Option<u64>) -> Self {
        self.link_bytes_per_second = speed;
        self
    }

    /// Whether what the real driver lets pass, though it hides a mistake, is refused.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Whether the devices can reach each other's memory.
    #[must_use]
    pub fn peers(mut self, peers: bool) -> Self {
        self.peers = peers;
        self
    }

    /// Fills fresh physical memory with this byte, so that a program that relies on zeroes where
    /// nothing is promised is found out. `None` leaves zeroes.
    #[must_use]
    pub fn scribble(mut self, byte: Option<u8>) -> Self {
        self.scribble = byte;
        self
    }

    /// Makes every driver call take this much longer.
    #[must_use]
    pub fn latency(mut self, latency: Option<Duration>) -> Self {
        self.latency = latency;
        self
    }

    /// What the devices say they offer. Without [`Capabilities::VIRTUAL_MEMORY`], `create` and
    /// `reserve` are not supported. Faults add to it.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Adds a fault.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    pub(crate) fn keeps_until_unreserved(&self) -> bool {
        [Fault::KeepUntilUnreserved, Fault::KeepUnsaid, Fault::AddressLost]
            .into_iter()
            .any(|fault| self.has(fault))
    }

    pub(crate) fn max_piece(&self) -> Option<u64> {
        self.faults
            .iter()
            .filter_map(|fault| match fault {
                Fault::MaxPiece(bytes) => Some(*bytes),
                _ => None,
            })
            .min()
    }

    /// What is reported: the configured flags, and what the faults amount to.
    pub(crate) fn reported_capabilities(&self) -> Capabilities {
        let mut all = self.capabilities;
        all.set(
            Capabilities::KEEPS_UNTIL_UNRESERVED,
            (self.keeps_until_unreserved() && !self.has(Fault::KeepUnsaid))
                || all.contains(Capabilities::KEEPS_UNTIL_UNRESERVED),
        );
        if self.has(Fault::HostAccessNeeded) {
            all |= Capabilities::HOST_ACCESS_NEEDED;
        }
        all
    }

    /// The capacity in whole granules.
    pub(crate) fn device_bytes(&self) -> u64 {
        let bytes = self.capacity_bytes.unwrap_or_else(default_capacity_bytes);
        bytes - bytes % self.granularity.max(1)
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let page = rustix::param::page_size() as u64;
        if !self.granularity.is_power_of_two() || self.granularity < page {
            return Err(invalid("the granularity is a power of two, and at least a page")
                .with_bytes(self.granularity));
        }
        if self.device_bytes() == 0 {
            return Err(invalid("the capacity is less than one granule"));
        }
        if self.device_bytes() > super::machine::ARENA_BYTES / 2 {
            return Err(invalid("the capacity is more than can be simulated"));
        }
        if self.link_bytes_per_second == Some(0) {
            return Err(invalid("a link of no bytes per second"));
        }
        Ok(())
    }
}

pub(crate) fn invalid(text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidArgument, Operation::Open, text)
}

/// 4 GiB, or a quarter of what the host has available.
fn default_capacity_bytes() -> u64 {
    const MOST: u64 = 4 << 30;
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    available.map_or(MOST, |kib| (kib * 1024 / 4).min(MOST))
}
