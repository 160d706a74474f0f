//! What a pause or a resume did: our own counts first, the device's reading beside them.

use std::time::Duration;

use allocator_core::Device;

use crate::notice::Notice;
use crate::registry::Facts;
use crate::tag::Tag;

/// Blocks and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many blocks.
    pub blocks: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.blocks += 1;
        self.bytes += bytes;
    }

    fn plus(self, other: Self) -> Self {
        Self { blocks: self.blocks + other.blocks, bytes: self.bytes + other.bytes }
    }
}

/// What happened to one tag on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagReport {
    /// The tag.
    pub tag: Tag,
    /// The device.
    pub device: Device,
    /// Physical bytes given back by a pause, or taken by a resume.
    pub moved: Amount,
    /// Logical bytes saved in host memory or on disk by a pause, or brought back by a resume.
    pub copied: Amount,
    /// Logical bytes set to zero by a resume.
    pub zeroed: Amount,
    /// Physical bytes of blocks that were in the wanted state already.
    pub already: Amount,
    /// Physical bytes of blocks that are poisoned, from before or by this call.
    pub poisoned: Amount,
}

impl TagReport {
    fn empty(device: Device, tag: Tag) -> Self {
        Self {
            tag,
            device,
            moved: Amount::default(),
            copied: Amount::default(),
            zeroed: Amount::default(),
            already: Amount::default(),
            poisoned: Amount::default(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.moved = self.moved.plus(other.moved);
        self.copied = self.copied.plus(other.copied);
        self.zeroed = self.zeroed.plus(other.zeroed);
        self.already = self.already.plus(other.already);
        self.poisoned = self.poisoned.plus(other.poisoned);
    }
}

/// A device's own free reading around the call. Other processes move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// The device.
    pub device: Device,
    /// Physical bytes that our own count says were given back or taken.
    pub moved_bytes: u64,
    /// Free bytes before, as the device reads them; `None` where it could not be asked.
    pub free_before: Option<u64>,
    /// Free bytes after.
    pub free_after: Option<u64>,
}

impl DeviceReport {
    /// After a pause: the device's reading did not rise although our count says that memory was
    /// given back. Another process may have taken it, or the driver keeps it.
    #[must_use]
    pub fn freed_nothing(&self) -> bool {
        match (self.free_before, self.free_after) {
            (Some(before), Some(after)) => self.moved_bytes > 0 && after <= before,
            _ => false,
        }
    }
}

/// How long each part of a call took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Waiting for another transition.
    pub turn: Duration,
    /// Pause: waiting for work in flight.
    pub quiesce: Duration,
    /// Pause: taking host memory and disk space. Resume: creating physical memory.
    pub create: Duration,
    /// Pause: unmapping and releasing. Resume: mapping.
    pub map: Duration,
    /// Copying and filling. A resume copies what is mapped while it maps the rest, so that this time
    /// holds that of `map`.
    pub copy: Duration,
    /// The whole call.
    pub total: Duration,
}

/// What one pause or resume did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// One entry for each tag on each device, in order of device and tag.
    pub tags: Vec<TagReport>,
    /// One entry for each device that had something to do.
    pub devices: Vec<DeviceReport>,
    /// Time spent.
    pub phases: Phases,
    /// Threads that copied, all devices together.
    pub workers: usize,
    /// How the host memory of these backups is held: `retain`, `reclaim`, `mixed`, or `none` where
    /// there are none.
    pub host_mode: &'static str,
    /// Pause: why it is held so. `asked`; in the mode `auto`, `share_allows` or `share_too_small`;
    /// `retain_limit` where the limit on retained memory was met.
    pub host_mode_reason: &'static str,
    /// Whether every staging buffer could be registered; copies are slower where not.
    pub staging_registered: bool,
    /// What works less well than it could, and has not been said before by this engine.
    pub notices: Vec<Notice>,
}

impl Report {
    fn sum(&self, part: impl Fn(&TagReport) -> Amount) -> Amount {
        self.tags.iter().map(part).fold(Amount::default(), Amount::plus)
    }

    /// Physical bytes given back by a pause, or taken by a resume.
    #[must_use]
    pub fn moved(&self) -> Amount {
        self.sum(|tag| tag.moved)
    }

    /// Logical bytes saved in host memory or on disk by a pause, or brought back by a resume.
    #[must_use]
    pub fn copied(&self) -> Amount {
        self.sum(|tag| tag.copied)
    }

    /// Logical bytes set to zero.
    #[must_use]
    pub fn zeroed(&self) -> Amount {
        self.sum(|tag| tag.zeroed)
    }

    /// Blocks that were in the wanted state already.
    #[must_use]
    pub fn already(&self) -> Amount {
        self.sum(|tag| tag.already)
    }

    /// Blocks that take part in nothing any more.
    #[must_use]
    pub fn poisoned(&self) -> Amount {
        self.sum(|tag| tag.poisoned)
    }
}

/// Counts up a report, tag by tag.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// In the order of device and tag.
    reports: Vec<TagReport>,
    /// Where the last look-up ended: blocks of one tag come one after another.
    last: usize,
}

impl Tally {
    pub(crate) fn of(&mut self, facts: &Facts) -> &mut TagReport {
        let key = (facts.device, &facts.tag);
        let is_it = |report: &TagReport| (report.device, &report.tag) == key;
        if !self.reports.get(self.last).is_some_and(is_it) {
            let place = self.reports.binary_search_by(|have| (have.device, &have.tag).cmp(&key));
            self.last = place.unwrap_or_else(|place| {
                self.reports.insert(place, TagReport::empty(facts.device, facts.tag.clone()));
                place
            });
        }
        &mut self.reports[self.last]
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for theirs in other.reports {
            let key = (theirs.device, &theirs.tag);
            match self.reports.binary_search_by(|have| (have.device, &have.tag).cmp(&key)) {
                Ok(place) => self.reports[place].add(&theirs),
                Err(place) => self.reports.insert(place, theirs),
            }
        }
    }

    pub(crate) fn moved_bytes(&self, device: Device) -> u64 {
        self.reports
            .iter()
            .filter(|report| report.device == device)
            .map(|report| report.moved.bytes)
            .sum()
    }

    pub(crate) fn into_tags(self) -> Vec<TagReport> {
        self.reports
    }
}
