//! Putting physical memory under addresses, and taking it away.

use allocator_core::Access;

use super::Machine;
use super::addresses::length;
use super::answer::{Answer, Code, Refusal};
use super::memory::{Mapping, Memory};
use crate::config::Fault;

const HOST_REFUSED: Refusal =
    Code::OutOfMemory.because("the host refused the mapping (is vm.max_map_count reached?)");

impl Machine {
    /// Maps a whole handle into a reserved range (`cuMemMap`). Nobody may use it before
    /// [`set_access`](Self::set_access).
    ///
    /// # Errors
    /// `InvalidValue`: outside any range, past the end of one (the real driver lets that pass),
    /// unaligned, on top of a mapping, not a live handle. `NotSupported`: less or more than the
    /// handle, or an offset. `OutOfMemory`: the host has no more mappings.
    pub fn map(&self, address: u64, bytes: u64, offset: u64, handle: u64) -> Answer {
        self.core.enter();
        let mut memory = self.core.change();
        self.map_in(&mut memory, address, bytes, offset, handle, false)
    }

    pub(crate) fn map_in(
        &self,
        memory: &mut Memory,
        address: u64,
        bytes: u64,
        offset: u64,
        handle: u64,
        malloc: bool,
    ) -> Answer {
        let found = memory.live_handle(handle)?;
        let (owner, at, whole) = (found.device, found.at, found.bytes);
        if bytes == 0 || !self.is_granular(address) || !self.is_granular(bytes) {
            return Err(Code::InvalidValue.because("mappings come in whole granules"));
        }
        let (start, span) = memory
            .span_of(address)
            .filter(|(_, span)| span.malloc == malloc)
            .ok_or(Code::InvalidValue.because("the address is in no reserved range"))?;
        if offset != 0 || bytes != whole {
            return Err(Code::NotSupported.because("a handle is mapped whole"));
        }
        if address - start + bytes > span.bytes {
            return Err(Code::InvalidValue
                .because("past the end of the reserved range (the real driver lets this pass)"));
        }
        if memory.any_mapped(address, bytes) {
            return Err(Code::InvalidValue.because("something is mapped there"));
        }
        let file = self.core.device(owner)?.arena.file();
        memory.addresses.map(address, bytes, file, at).map_err(|_| HOST_REFUSED)?;
        if let Some(found) = memory.handles.get_mut(&handle) {
            found.uses += 1;
        }
        let access = vec![Access::empty(); self.core.devices.len()];
        let host = Access::empty();
        memory.mappings.insert(address, Mapping { bytes, handle, owner, at, access, host, malloc });
        Ok(())
    }

    /// Says how devices may use mapped memory (`cuMemSetAccess`); devices that are not named keep
    /// what they had. An empty [`Access`] takes it away.
    ///
    /// # Errors
    /// `InvalidValue`: no devices, one that is not there, or not exactly whole mappings.
    /// `NotSupported`: a device that is no peer of the memory's. `OutOfMemory`: the host has no
    /// more mappings.
    pub fn set_access(&self, address: u64, bytes: u64, access: &[(u32, Access)]) -> Answer {
        self.core.enter();
        if access.is_empty() {
            return Err(Code::InvalidValue.because("no device"));
        }
        if access.iter().any(|&(device, _)| self.core.device(device).is_err()) {
            return Err(Code::InvalidValue.because("a device that is not there"));
        }
        let mut memory = self.core.change();
        let starts = self.joined(&memory, address, bytes)?;
        let peers = self.core.config.peers;
        let strange = starts.iter().filter_map(|start| memory.mappings.get(start)).any(|mapping| {
            access.iter().any(|&(device, how)| !peers && device != mapping.owner && !how.is_empty())
        });
        if strange {
            return Err(Code::NotSupported.because("the devices are not peers"));
        }
        starts.into_iter().try_for_each(|start| self.set_one(&mut memory, start, access))
    }

    /// Says how the host may use mapped memory. Only of consequence where the host needs that
    /// ([`Fault::HostAccessNeeded`]).
    ///
    /// # Errors
    /// `InvalidValue`: not exactly whole mappings. `OutOfMemory`: the host has no more mappings.
    pub fn set_host_access(&self, address: u64, bytes: u64, access: Access) -> Answer {
        self.core.enter();
        let mut memory = self.core.change();
        self.joined(&memory, address, bytes)?.into_iter().try_for_each(|start| {
            if let Some(mapping) = memory.mappings.get_mut(&start) {
                mapping.host = access;
            }
            self.set_one(&mut memory, start, &[])
        })
    }

    /// The mappings that one `set_access` is about.
    fn joined(&self, memory: &Memory, address: u64, bytes: u64) -> Answer<Vec<u64>> {
        let starts = memory.whole_mappings(address, bytes)?;
        if starts.len() > 1 && self.core.config.has(Fault::NoJoinedAccess) {
            return Err(
                Code::InvalidValue.because("more than one mapping (a fault that is acted out)")
            );
        }
        Ok(starts)
    }

    /// How a device may use mapped memory (`cuMemGetAccess`).
    ///
    /// # Errors
    /// `InvalidValue` where nothing is mapped, or for a device that is not there.
    pub fn access(&self, address: u64, device: u32) -> Answer<Access> {
        self.core.enter();
        let memory = self.core.look();
        memory
            .mapping_of(address)
            .and_then(|(_, mapping)| mapping.access.get(length(device.into())).copied())
            .ok_or(Code::InvalidValue.because("nothing is mapped there, or no such device"))
    }

    /// Takes whole mappings away (`cuMemUnmap`). Waits for nothing: work that uses them gets
    /// `IllegalAddress`.
    ///
    /// # Errors
    /// `InvalidValue`: a part of a mapping, an address that is not reserved, or (strict; the real
    /// driver lets it pass) a reserved range in which nothing is mapped. `OutOfMemory`: the host
    /// has no more mappings.
    pub fn unmap(&self, address: u64, bytes: u64) -> Answer {
        self.core.enter();
        let doomed: Vec<_> = {
            let mut memory = self.core.change();
            if self.unmap_of_nothing(&memory, address, bytes)? {
                return Ok(());
            }
            let starts = memory.whole_mappings(address, bytes)?;
            if starts.len() > 1 && self.core.config.has(Fault::NoJoinedUnmap) {
                return Err(
                    Code::InvalidValue.because("more than one mapping (a fault that is acted out)")
                );
            }
            memory.addresses.unmap(address, bytes).map_err(|_| HOST_REFUSED)?;
            let keeps = self.core.config.keeps_until_unreserved();
            let handles: Vec<_> = starts
                .into_iter()
                .filter_map(|start| memory.mappings.remove(&start).map(|m| (start, m.handle)))
                .collect();
            handles
                .into_iter()
                .filter_map(|(start, handle)| {
                    let range = memory.span_of(start).map(|(range, _)| range);
                    match range.and_then(|range| memory.spans.get_mut(&range)) {
                        Some(span) if keeps => {
                            span.kept.push(handle);
                            None
                        }
                        _ => memory.drop_use(handle),
                    }
                })
                .collect()
        };
        self.core.bury(doomed);
        Ok(())
    }

    /// Whether this is an unmap of reserved addresses with nothing mapped, and that may pass.
    fn unmap_of_nothing(&self, memory: &Memory, address: u64, bytes: u64) -> Answer<bool> {
        let inside = memory.span_of(address).is_some_and(|(start, span)| {
            bytes > 0 && (address - start).checked_add(bytes).is_some_and(|end| end <= span.bytes)
        });
        if !inside || memory.any_mapped(address, bytes) {
            return Ok(false);
        }
        if self.core.config.strict {
            return Err(Code::InvalidValue
                .because("nothing is mapped there (the real driver lets a double unmap pass)"));
        }
        Ok(true)
    }

    /// Sets the access of one mapping, and what the CPU may do: all that some device may.
    pub(crate) fn set_one(
        &self,
        memory: &mut Memory,
        start: u64,
        access: &[(u32, Access)],
    ) -> Answer {
        let Some(mapping) = memory.mappings.get(&start) else { return Ok(()) };
        let mut granted = mapping.access.clone();
        for &(device, how) in access {
            if let Some(slot) = granted.get_mut(length(device.into())) {
                *slot = how;
            }
        }
        let together = if self.core.config.has(Fault::HostAccessNeeded) && !mapping.malloc {
            mapping.host
        } else {
            granted.iter().fold(Access::empty(), |all, &one| all | one)
        };
        memory.addresses.protect(start, mapping.bytes, together).map_err(|_| HOST_REFUSED)?;
        if let Some(mapping) = memory.mappings.get_mut(&start) {
            mapping.access = granted;
        }
        Ok(())
    }
}
