//! Ranges of addresses: reserve, give back, ask.

use super::Machine;
use super::answer::{Answer, Code};
use super::memory::Span;
use crate::config::Fault;

impl Machine {
    /// Reserves addresses (`cuMemAddressReserve`): at the hint when it is free, else anywhere. An
    /// alignment or hint of zero means any.
    ///
    /// # Errors
    /// `InvalidValue` for no bytes, not whole granules, or an alignment that is no power of two;
    /// `OutOfMemory` when addresses have run out.
    pub fn reserve(&self, bytes: u64, alignment: u64, hint: u64) -> Answer<u64> {
        self.core.enter();
        self.needs_virtual_memory()?;
        if bytes == 0 || !self.is_granular(bytes) {
            return Err(Code::InvalidValue.because("ranges come in whole granules"));
        }
        if alignment != 0 && !alignment.is_power_of_two() {
            return Err(Code::InvalidValue.because("an alignment is a power of two"));
        }
        self.take_range(bytes, alignment, hint, false)
    }

    pub(crate) fn take_range(
        &self,
        bytes: u64,
        alignment: u64,
        hint: u64,
        malloc: bool,
    ) -> Answer<u64> {
        let alignment = alignment.max(self.core.config.granularity);
        let mut memory = self.core.change();
        let none = Code::OutOfMemory.because("the process has not as many addresses left");
        let address = if hint != 0 && self.core.config.has(Fault::AddressLost) {
            let first = memory.addresses.take(bytes, alignment, 0).ok_or(none)?;
            if first == hint {
                let second = memory.addresses.take(bytes, alignment, 0);
                memory.addresses.give(first, bytes);
                second.ok_or(none)?
            } else {
                first
            }
        } else {
            memory.addresses.take(bytes, alignment, hint).ok_or(none)?
        };
        memory.spans.insert(address, Span { bytes, malloc, kept: Vec::new(), busy: false });
        Ok(address)
    }

    /// Gives a whole range back (`cuMemAddressFree`).
    ///
    /// # Errors
    /// `InvalidValue` for a part of a range, one given back before, or one in which something is
    /// mapped.
    pub fn address_free(&self, address: u64, bytes: u64) -> Answer {
        self.core.enter();
        self.give_range(address, bytes, false)
    }

    pub(crate) fn give_range(&self, address: u64, bytes: u64, malloc: bool) -> Answer {
        let doomed: Vec<_> = {
            let mut memory = self.core.change();
            let whole = memory
                .spans
                .get(&address)
                .is_some_and(|span| span.bytes == bytes && span.malloc == malloc);
            if !whole {
                return Err(Code::InvalidValue.because("not exactly a reserved range"));
            }
            if memory.any_mapped(address, bytes) {
                return Err(Code::InvalidValue.because("something is mapped in the range"));
            }
            if memory.spans.get(&address).is_some_and(|span| span.busy) {
                return Err(Code::InvalidValue.because(
                    "a handle was released while mapped here (a fault that is acted out)",
                ));
            }
            let kept = memory.spans.remove(&address).map(|span| span.kept).unwrap_or_default();
            memory.addresses.give(address, bytes);
            kept.into_iter().filter_map(|handle| memory.drop_use(handle)).collect()
        };
        self.core.bury(doomed);
        Ok(())
    }

    /// First address and bytes of what is mapped at an address: the one mapping, not the range
    /// (`cuMemGetAddressRange`).
    ///
    /// # Errors
    /// `InvalidValue` where nothing is mapped.
    pub fn address_range(&self, address: u64) -> Answer<(u64, u64)> {
        self.core.enter();
        let memory = self.core.look();
        memory
            .mapping_of(address)
            .map(|(start, mapping)| (start, mapping.bytes))
            .ok_or(Code::InvalidValue.because("nothing is mapped there"))
    }

    /// The device whose memory is mapped at an address (`cuPointerGetAttribute`).
    ///
    /// # Errors
    /// `InvalidValue` where nothing is mapped, reserved or not.
    pub fn pointer_device(&self, address: u64) -> Answer<u32> {
        self.core.enter();
        let memory = self.core.look();
        memory
            .mapping_of(address)
            .map(|(_, mapping)| mapping.owner)
            .ok_or(Code::InvalidValue.because("nothing is mapped there"))
    }

    /// First address and bytes of the reserved range that an address lies in.
    #[must_use]
    pub fn reserved_range(&self, address: u64) -> Option<(u64, u64)> {
        self.core.look().span_of(address).map(|(start, span)| (start, span.bytes))
    }

    /// A legacy handle for other processes (`cuIpcGetMemHandle`): memory that can be mapped has
    /// none, and other memory has none here.
    ///
    /// # Errors
    /// `InvalidValue`, `NotSupported`.
    pub fn ipc_handle(&self, address: u64) -> Answer {
        self.core.enter();
        let memory = self.core.look();
        match memory.mapping_of(address) {
            Some((_, mapping)) if mapping.malloc => {
                Err(Code::NotSupported.because("the simulated machine has one process"))
            }
            Some(_) if self.core.config.has(Fault::BogusIpcHandle) => Ok(()),
            _ => Err(Code::InvalidValue.because("no legacy handle for virtual memory")),
        }
    }
}
