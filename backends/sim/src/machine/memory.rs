//! The books: ranges, mappings, handles, and who may use what. No system call but those that
//! keep the process's address space in step.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;

use allocator_core::Access;

use super::addresses::Addresses;
use super::answer::{Answer, Code, Refusal};
use super::arena::ARENA_BYTES;
use super::extents::Extents;

/// A reserved range.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) bytes: u64,
    /// Made by `malloc`, and not for the calls of virtual memory.
    pub(crate) malloc: bool,
    /// Handles whose memory stays until the range goes (a known fault).
    pub(crate) kept: Vec<u64>,
    /// Cannot be given back any more (a known fault).
    pub(crate) busy: bool,
}

/// A handle, mapped whole.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    pub(crate) handle: u64,
    pub(crate) owner: u32,
    /// Where in the owner's arena it lies.
    pub(crate) at: u64,
    /// By device.
    pub(crate) access: Vec<Access>,
    /// What the host was given of its own; of use where that is needed (a known fault).
    pub(crate) host: Access,
    pub(crate) malloc: bool,
}

/// Physical memory.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) device: u32,
    pub(crate) bytes: u64,
    pub(crate) at: u64,
    /// Releases that are owed.
    pub(crate) references: u32,
    /// Mappings of it, and ranges that keep it.
    pub(crate) uses: u32,
    pub(crate) exportable: bool,
    /// Our ends of the pipes whose other ends were exported.
    pub(crate) exports: Vec<OwnedFd>,
}

/// Physical memory that nothing holds any more, on its way back to the system.
#[derive(Debug)]
#[must_use]
pub(crate) struct Doomed {
    pub(crate) device: u32,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// What a device has given out.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) extents: Extents,
    pub(crate) used: u64,
}

#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) addresses: Addresses,
    pub(crate) spans: BTreeMap<u64, Span>,
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    pub(crate) handles: HashMap<u64, Handle>,
    pub(crate) pools: Vec<Pool>,
    /// Pairs (from, to) of devices.
    pub(crate) peers: Vec<(u32, u32)>,
    /// Handles that only an exported descriptor keeps.
    pub(crate) lingering: Vec<u64>,
    last_handle: u64,
}

/// A piece of memory that is mapped in one stretch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) owner: u32,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

impl Memory {
    pub(crate) fn new(devices: u32) -> Self {
        let pools = (0..devices)
            .map(|_| {
                let mut extents = Extents::default();
                extents.give(0, ARENA_BYTES);
                Pool { extents, used: 0 }
            })
            .collect();
        Self {
            addresses: Addresses::default(),
            spans: BTreeMap::new(),
            mappings: BTreeMap::new(),
            handles: HashMap::new(),
            pools,
            peers: Vec::new(),
            lingering: Vec::new(),
            last_handle: 0x5000,
        }
    }

    /// A number that no handle has had.
    pub(crate) fn fresh_handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }

    /// A handle with releases owed.
    pub(crate) fn live_handle(&mut self, handle: u64) -> Answer<&mut Handle> {
        match self.handles.get_mut(&handle) {
            Some(found) if found.references > 0 => Ok(found),
            _ if handle == 0 => Err(Code::InvalidValue.because("handle 0")),
            _ => Err(Code::InvalidValue
                .because("no such handle, or released before (the real driver may crash on one)")),
        }
    }

    /// The range that an address lies in.
    pub(crate) fn span_of(&self, address: u64) -> Option<(u64, &Span)> {
        let (&start, span) = self.spans.range(..=address).next_back()?;
        (address - start < span.bytes).then_some((start, span))
    }

    /// The mapping that an address lies in.
    pub(crate) fn mapping_of(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (&start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.bytes).then_some((start, mapping))
    }

    /// Whether anything is mapped in `[start, start + bytes)`.
    pub(crate) fn any_mapped(&self, start: u64, bytes: u64) -> bool {
        self.mapping_of(start).is_some()
            || self.mappings.range(start..start.saturating_add(bytes)).next().is_some()
    }

    /// The mappings that together are exactly `[start, start + bytes)`.
    pub(crate) fn whole_mappings(&self, start: u64, bytes: u64) -> Answer<Vec<u64>> {
        let refusal = Code::InvalidValue.because("not exactly whole mappings");
        let end = start.checked_add(bytes).filter(|_| bytes > 0).ok_or(refusal)?;
        let mut found = Vec::new();
        let mut reached = start;
        while reached < end {
            let mapping = self.mappings.get(&reached).ok_or(refusal)?;
            if mapping.malloc {
                return Err(Code::InvalidValue.because("this memory was not mapped, but allocated"));
            }
            found.push(reached);
            reached += mapping.bytes;
        }
        if reached == end { Ok(found) } else { Err(refusal) }
    }

    /// Whether a device may use a mapping so.
    pub(crate) fn allows(&self, mapping: &Mapping, device: u32, need: Access) -> bool {
        let granted = usize::try_from(device).ok().and_then(|index| mapping.access.get(index));
        granted.is_some_and(|granted| granted.contains(need))
            || (mapping.malloc && self.peers.contains(&(device, mapping.owner)))
    }

    /// The longest stretch from `address` on, up to `most` bytes, that the device may use.
    pub(crate) fn stretch(
        &self,
        device: u32,
        address: u64,
        most: u64,
        need: Access,
    ) -> Option<Stretch> {
        let (start, mapping) = self.mapping_of(address)?;
        let into = address - start;
        self.allows(mapping, device, need).then(|| Stretch {
            owner: mapping.owner,
            at: mapping.at + into,
            bytes: most.min(mapping.bytes - into),
        })
    }

    /// Whether the device may use every byte.
    pub(crate) fn check(&self, device: u32, address: u64, bytes: u64, need: Access) -> Answer {
        let (mut at, mut left) = (address, bytes);
        while left > 0 {
            let stretch = self.stretch(device, at, left, need).ok_or(Refusal {
                code: Code::InvalidValue,
                why: "memory that is not mapped, or not accessible to this device",
            })?;
            at += stretch.bytes;
            left -= stretch.bytes;
        }
        Ok(())
    }

    /// Forgets a handle that nothing holds any more.
    pub(crate) fn reap(&mut self, handle: u64) -> Option<Doomed> {
        let found = self.handles.get_mut(&handle)?;
        if found.references > 0 || found.uses > 0 {
            return None;
        }
        found.exports.retain(has_other_end);
        if !found.exports.is_empty() {
            if !self.lingering.contains(&handle) {
                self.lingering.push(handle);
            }
            return None;
        }
        let found = self.handles.remove(&handle)?;
        self.lingering.retain(|&other| other != handle);
        Some(Doomed { device: found.device, at: found.at, bytes: found.bytes })
    }

    /// Handles whose exported descriptors have all been closed meanwhile.
    pub(crate) fn reap_lingering(&mut self) -> Vec<Doomed> {
        let lingering = self.lingering.clone();
        lingering.into_iter().filter_map(|handle| self.reap(handle)).collect()
    }

    /// One mapping of the handle, or range that keeps it, has gone.
    pub(crate) fn drop_use(&mut self, handle: u64) -> Option<Doomed> {
        if let Some(found) = self.handles.get_mut(&handle) {
            found.uses = found.uses.saturating_sub(1);
        }
        self.reap(handle)
    }

    /// The ranges that a handle is mapped in can never be given back.
    pub(crate) fn mark_busy(&mut self, handle: u64) {
        let places: Vec<_> = self
            .mappings
            .iter()
            .filter(|(_, mapping)| mapping.handle == handle && !mapping.malloc)
            .filter_map(|(&at, _)| self.span_of(at).map(|(start, _)| start))
            .collect();
        for start in places {
            if let Some(span) = self.spans.get_mut(&start) {
                span.busy = true;
            }
        }
    }

    pub(crate) fn pool(&mut self, device: u32) -> Answer<&mut Pool> {
        usize::try_from(device)
            .ok()
            .and_then(|index| self.pools.get_mut(index))
            .ok_or(Code::InvalidDevice.because("no such device"))
    }
}

/// Whether anybody still has the other end of this pipe.
fn has_other_end(end: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut polled = [PollFd::new(end, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut polled, Some(&now)) {
        Ok(_) => !polled.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR)),
        Err(_) => true,
    }
}
