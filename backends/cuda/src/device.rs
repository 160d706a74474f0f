//! What is known of each device, asked once.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use allocator_core::call::Call;
use allocator_core::{
    Capabilities, Device, DeviceInfo, Error, ErrorKind, Granularity, MemoryInfo, Operation, Result,
};
use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUmemAllocationGranularity_flags};

use crate::Cuda;
use crate::context::{Primary, Scope};
use crate::loader::Symbols;
use crate::memory;
use crate::quiesce::Quiescer;
use crate::result::SUCCESS;

/// One device and all that belongs to it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) device: Device,
    pub(crate) handle: CUdevice,
    pub(crate) primary: Primary,
    pub(crate) quiescer: Quiescer,
    /// Whether any block was ever opened to this device.
    pub(crate) granted: AtomicBool,
    facts: OnceLock<Facts>,
    granularity: OnceLock<Granularity>,
}

/// What a device says about itself.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) total_bytes: u64,
    pub(crate) virtual_memory: bool,
    pub(crate) rdma: bool,
    pub(crate) pci_address: Option<String>,
}

impl Slot {
    /// All devices. Makes no context.
    pub(crate) fn all(symbols: &Symbols) -> Result<Box<[Self]>> {
        let mut count = 0;
        // SAFETY: `count` is writable.
        let code = unsafe { (symbols.device_get_count)(&raw mut count) };
        symbols.check(code, Call::new(Operation::Open, "cuDeviceGetCount"))?;
        (0..count).map(|ordinal| Self::one(symbols, ordinal)).collect()
    }

    fn one(symbols: &Symbols, ordinal: c_int) -> Result<Self> {
        let device = Device(ordinal.unsigned_abs());
        let mut handle = 0;
        // SAFETY: `handle` is writable.
        let code = unsafe { (symbols.device_get)(&raw mut handle, ordinal) };
        symbols.check(code, Call::new(Operation::Open, "cuDeviceGet").on(device))?;
        Ok(Self {
            device,
            handle,
            primary: Primary::new(device, handle),
            quiescer: Quiescer::default(),
            granted: AtomicBool::new(false),
            facts: OnceLock::new(),
            granularity: OnceLock::new(),
        })
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
             (CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED is 0)",
            facts.name
        );
        Err(Error::new(ErrorKind::NotSupported, operation, text).with_device(self.device))
    }

    fn ask(&self, symbols: &Symbols, operation: Operation) -> Result<Facts> {
        let mut name: [c_char; 256] = [0; 256];
        // SAFETY: `name` is writable for 256 bytes, and the driver is told one less, so that the
        // last stays zero.
        let code = unsafe { (symbols.device_get_name)(name.as_mut_ptr(), 255, self.handle) };
        symbols.check(code, Call::new(operation, "cuDeviceGetName").on(self.device))?;
        // SAFETY: the last of the 256 bytes is zero.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();

        let mut total = 0_usize;
        // SAFETY: `total` is writable.
        let code = unsafe { (symbols.device_total_mem)(&raw mut total, self.handle) };
        symbols.check(code, Call::new(operation, "cuDeviceTotalMem").on(self.device))?;

        use CUdevice_attribute as Attribute;
        let virtual_memory = self.attribute(
            symbols,
            operation,
            // Its newer name is CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.
            Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED,
        )?;
        let rdma = self.attribute(
            symbols,
            operation,
            Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
        )?;
        let pci_address = self.pci_address(symbols);
        Ok(Facts { name, total_bytes: total as u64, virtual_memory, rdma, pci_address })
    }

    /// Where it is on the bus; nothing where the driver does not say.
    fn pci_address(&self, symbols: &Symbols) -> Option<String> {
        let mut text: [c_char; 32] = [0; 32];
        let ask = symbols.device_get_pci_bus_id?;
        // SAFETY: `text` is writable for 32 bytes, and the driver is told one less, so that the last
        // stays zero.
        let code = unsafe { ask(text.as_mut_ptr(), 31, self.handle) };
        // SAFETY: the last of the 32 bytes is zero.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        (code == SUCCESS).then(|| text.to_string_lossy().into_owned())
    }

    fn attribute(
        &self,
        symbols: &Symbols,
        operation: Operation,
        attribute: CUdevice_attribute,
    ) -> Result<bool> {
        let mut value = 0;
        let ask = symbols.device_get_attribute;
        // SAFETY: `value` is writable.
        let code = unsafe { ask(&raw mut value, attribute, self.handle) };
        symbols.check(code, Call::new(operation, "cuDeviceGetAttribute").on(self.device))?;
        Ok(value != 0)
    }
}

impl Cuda {
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
        let primary = &self.slot(device, operation)?.primary;
        let borrowed = primary.borrow(&self.symbols, operation)?;
        let _scope = Scope::enter(&self.symbols, borrowed.context(), operation, device)?;
        let (mut free, mut total) = (0_usize, 0_usize);
        // SAFETY: both are writable, and the device's context is current.
        let code = unsafe { (self.symbols.mem_get_info)(&raw mut free, &raw mut total) };
        self.symbols.check(code, Call::new(operation, "cuMemGetInfo").on(device))?;
        Ok(MemoryInfo { free_bytes: free as u64, total_bytes: total as u64 })
    }

    pub(crate) fn granule(&self, device: Device) -> Result<Granularity> {
        let operation = Operation::Granularity;
        let slot = self.slot(device, operation)?;
        if let Some(granularity) = slot.granularity.get() {
            return Ok(*granularity);
        }
        let facts = slot.virtual_memory(&self.symbols, operation)?;
        let properties = memory::properties(slot.handle, facts);
        let mut bytes = 0_usize;
        let ask = self.symbols.mem_get_allocation_granularity;
        let option = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: `bytes` is writable and `properties` readable, fully set.
        let code = unsafe { ask(&raw mut bytes, &raw const properties, option) };
        let call = Call::new(operation, "cuMemGetAllocationGranularity").on(device);
        self.symbols.check(code, call)?;
        let granularity = Granularity::new(bytes as u64).map_err(|e| e.with_device(device))?;
        Ok(*slot.granularity.get_or_init(|| granularity))
    }

    pub(crate) fn offers(&self, device: Device) -> Result<Capabilities> {
        let operation = Operation::Capabilities;
        let facts = self.slot(device, operation)?.facts(&self.symbols, operation)?;
        let mut found = Capabilities::empty();
        found.set(Capabilities::VIRTUAL_MEMORY, facts.virtual_memory);
        found.set(Capabilities::RDMA, facts.virtual_memory && facts.rdma);
        found.set(Capabilities::POLLED_QUIESCE, self.recorder().is_some());
        Ok(found)
    }

    /// Checks only: `set_access` alone opens memory to a peer (seen), and the legacy
    /// `cuCtxEnablePeerAccess` would open every other allocation of the program as well.
    pub(crate) fn check_peer(&self, from: Device, to: Device) -> Result<()> {
        let operation = Operation::EnablePeer;
        let from_slot = self.slot(from, operation)?;
        let to_slot = self.slot(to, operation)?;
        if from == to {
            return Ok(());
        }
        let call = Call::new(operation, "cuDeviceCanAccessPeer").on(from);
        let mut can = 0;
        let ask = self.symbols.device_can_access_peer;
        // SAFETY: `can` is writable.
        let code = unsafe { ask(&raw mut can, from_slot.handle, to_slot.handle) };
        self.symbols.check(code, call)?;
        if can == 0 {
            let text = format!("device {from} cannot reach memory of device {to}");
            return Err(call.refuse(ErrorKind::NotSupported, text));
        }
        Ok(())
    }
}
