//! What is known of each device, asked once.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use allocator_core::call::Call;
use allocator_core::waiting::Rounds;
use allocator_core::{
    Capabilities, Device, DeviceInfo, Error, ErrorKind, Granularity, MemoryInfo, Operation, Result,
};

use crate::Hip;
use crate::context::{DeviceScope, Scope, ordinal};
use crate::loader::Symbols;
use crate::memory;
use crate::quirks::Asked;
use crate::sys::error::SUCCESS;
use crate::sys::{ATTRIBUTE_VIRTUAL_MEMORY, GRANULARITY_RECOMMENDED};

/// One device and all that belongs to it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) device: Device,
    /// Waiting for it.
    pub(crate) rounds: Arc<Rounds>,
    /// Whether any block was ever opened to this device.
    pub(crate) granted: AtomicBool,
    /// What asking it for its quirks came to.
    pub(crate) asked: Asked,
    /// Whether it holds, or held, a range, memory or a stream of ours.
    used: AtomicBool,
    facts: OnceLock<Facts>,
    granularity: OnceLock<Granularity>,
}

/// What a device says about itself.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) total_bytes: u64,
    pub(crate) virtual_memory: bool,
    pci_address: Option<String>,
}

impl Slot {
    /// All devices. Uses none.
    pub(crate) fn all(symbols: &Symbols) -> Result<Box<[Self]>> {
        let mut count = 0;
        // SAFETY: `count` is writable.
        let code = unsafe { (symbols.get_device_count)(&raw mut count) };
        symbols.check(code, Call::new(Operation::Open, "hipGetDeviceCount"))?;
        Ok((0..count).map(|ordinal| Self::new(Device(ordinal.unsigned_abs()))).collect())
    }

    fn new(device: Device) -> Self {
        Self {
            device,
            rounds: Arc::default(),
            granted: AtomicBool::new(false),
            asked: Asked::default(),
            used: AtomicBool::new(false),
            facts: OnceLock::new(),
            granularity: OnceLock::new(),
        }
    }

    /// Takes note that the device is used now.
    pub(crate) fn use_it(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn facts(&self, symbols: &Symbols, operation: Operation) -> Result<&Facts> {
        if let Some(facts) = self.facts.get() {
            return Ok(facts);
        }
        let facts = self.ask(symbols, operation)?;
        Ok(self.facts.get_or_init(|| facts))
    }

    /// The facts of a device that has virtual memory management; without it there is no block.
    pub(crate) fn virtual_memory(&self, symbols: &Symbols, operation: Operation) -> Result<&Facts> {
        let facts = self.facts(symbols, operation)?;
        if facts.virtual_memory {
            return Ok(facts);
        }
        let text = format!(
            "{} has no virtual memory management \
             (hipDeviceAttributeVirtualMemoryManagementSupported is 0)",
            facts.name
        );
        Err(Error::new(ErrorKind::NotSupported, operation, text).with_device(self.device))
    }

    fn ask(&self, symbols: &Symbols, operation: Operation) -> Result<Facts> {
        let ordinal = ordinal(self.device);
        let mut name: [c_char; 256] = [0; 256];
        // SAFETY: `name` is writable for 256 bytes, and the runtime is told one less, so that the
        // last stays zero.
        let code = unsafe { (symbols.device_get_name)(name.as_mut_ptr(), 255, ordinal) };
        symbols.check(code, Call::new(operation, "hipDeviceGetName").on(self.device))?;
        // SAFETY: the last of the 256 bytes is zero.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();

        let mut total = 0_usize;
        // SAFETY: `total` is writable.
        let code = unsafe { (symbols.device_total_mem)(&raw mut total, ordinal) };
        symbols.check(code, Call::new(operation, "hipDeviceTotalMem").on(self.device))?;

        let mut value = 0;
        let ask = symbols.device_get_attribute;
        // SAFETY: `value` is writable.
        let code = unsafe { ask(&raw mut value, ATTRIBUTE_VIRTUAL_MEMORY, ordinal) };
        symbols.check(code, Call::new(operation, "hipDeviceGetAttribute").on(self.device))?;
        let pci_address = self.pci_address(symbols);
        Ok(Facts { name, total_bytes: total as u64, virtual_memory: value != 0, pci_address })
    }

    /// Where it is on the bus; nothing where the runtime does not say.
    fn pci_address(&self, symbols: &Symbols) -> Option<String> {
        let mut text: [c_char; 32] = [0; 32];
        let ask = symbols.device_get_pci_bus_id?;
        // SAFETY: `text` is writable for 32 bytes, and the runtime is told one less, so that the last
        // stays zero.
        let code = unsafe { ask(text.as_mut_ptr(), 31, ordinal(self.device)) };
        // SAFETY: the last of the 32 bytes is zero.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        (code == SUCCESS).then(|| text.to_string_lossy().into_owned())
    }
}

impl Hip {
    /// The slot of a device.
    pub(crate) fn slot(&self, device: Device, operation: Operation) -> Result<&Slot> {
        usize::try_from(device.0).ok().and_then(|index| self.slots.get(index)).ok_or_else(|| {
            let text = format!("no such device; {} visible", self.slots.len());
            Error::new(ErrorKind::NotFound, operation, text).with_device(device)
        })
    }

    pub(crate) fn device_list(&self) -> Result<Vec<DeviceInfo>> {
        self.slots
            .iter()
            .map(|slot| {
                let facts = slot.facts(&self.symbols, Operation::Devices)?;
                Ok(DeviceInfo {
                    device: slot.device,
                    name: facts.name.clone(),
                    total_bytes: facts.total_bytes,
                    pci_address: facts.pci_address.clone(),
                })
            })
            .collect()
    }

    pub(crate) fn memory_info(&self, device: Device) -> Result<MemoryInfo> {
        let operation = Operation::Memory;
        self.slot(device, operation)?;
        let _scope = Scope::enter(&self.symbols, device, operation)?;
        self.reading(device, operation)
    }

    /// What the runtime reads for the current device, which is `device`.
    pub(crate) fn reading(&self, device: Device, operation: Operation) -> Result<MemoryInfo> {
        let (mut free, mut total) = (0_usize, 0_usize);
        // SAFETY: both are writable.
        let code = unsafe { (self.symbols.mem_get_info)(&raw mut free, &raw mut total) };
        self.symbols.check(code, Call::new(operation, "hipMemGetInfo").on(device))?;
        Ok(MemoryInfo { free_bytes: free as u64, total_bytes: total as u64 })
    }

    pub(crate) fn granule(&self, device: Device) -> Result<Granularity> {
        let operation = Operation::Granularity;
        let slot = self.slot(device, operation)?;
        if let Some(granularity) = slot.granularity.get() {
            return Ok(*granularity);
        }
        slot.virtual_memory(&self.symbols, operation)?;
        let properties = memory::properties(device);
        let mut bytes = 0_usize;
        let ask = self.symbols.mem_get_allocation_granularity;
        // Newer runtimes answer for the current device, whatever the properties say.
        let _scope = DeviceScope::enter(&self.symbols, device, operation)?;
        // SAFETY: `bytes` is writable and `properties` readable, fully set.
        let code = unsafe { ask(&raw mut bytes, &raw const properties, GRANULARITY_RECOMMENDED) };
        let call = Call::new(operation, "hipMemGetAllocationGranularity").on(device);
        self.symbols.check(code, call)?;
        let granularity = Granularity::new(bytes as u64).map_err(|e| e.with_device(device))?;
        Ok(*slot.granularity.get_or_init(|| granularity))
    }

    pub(crate) fn offers(&self, device: Device) -> Result<Capabilities> {
        let operation = Operation::Capabilities;
        let slot = self.slot(device, operation)?;
        let facts = slot.facts(&self.symbols, operation)?;
        Ok(if facts.virtual_memory {
            Capabilities::VIRTUAL_MEMORY | self.quirks_of(slot)
        } else {
            Capabilities::empty()
        })
    }

    /// Checks only: `set_access` alone opens memory to a peer, and `hipDeviceEnablePeerAccess`
    /// would open every other allocation of the program as well.
    pub(crate) fn check_peer(&self, from: Device, to: Device) -> Result<()> {
        let operation = Operation::EnablePeer;
        self.slot(from, operation)?;
        self.slot(to, operation)?;
        if from == to {
            return Ok(());
        }
        let call = Call::new(operation, "hipDeviceCanAccessPeer").on(from);
        let mut can = 0;
        let ask = self.symbols.device_can_access_peer;
        // SAFETY: `can` is writable.
        let code = unsafe { ask(&raw mut can, ordinal(from), ordinal(to)) };
        self.symbols.check(code, call)?;
        if can == 0 {
            let text = format!("device {from} cannot reach memory of device {to}");
            return Err(call.refuse(ErrorKind::NotSupported, text));
        }
        Ok(())
    }
}
