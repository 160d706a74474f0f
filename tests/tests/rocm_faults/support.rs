//! What the cases share.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use allocator_core::{Backing, Block, Device, Driver};
use dormant_hip::Hip;
use dormant_sim::{Fault, Sim, SimConfig};
use dormant_tests::doubles::{Double, Loaded};

pub(crate) const GRANULE: u64 = 2 << 20;
/// A granule, as C has it.
pub(crate) const BYTES: usize = 2 << 20;
pub(crate) const CAPACITY: u64 = 64 << 20;
pub(crate) const ZERO: Device = Device(0);

/// A block that holds nothing saved.
pub(crate) type Paused<D> = allocator_core::PausedBlock<D, Vec<u8>>;
pub(crate) type Active<D> = allocator_core::ActiveBlock<D>;

/// A device with these faults.
pub(crate) fn sim(faults: &[Fault]) -> Arc<Sim> {
    let config = SimConfig::new().devices(1).capacity_bytes(CAPACITY);
    let config = faults.iter().fold(config, |config, &fault| config.fault(fault));
    Arc::new(Sim::new(config).expect("a simulated device"))
}

/// The stand-in for HIP, and the driver on it.
pub(crate) fn hip(configuration: &str) -> (Loaded, Arc<Hip>) {
    let text = format!("DORMANT_SIM_DEVICES=1;DORMANT_SIM_CAPACITY=64MiB;{configuration}");
    let library = Loaded::new(Double::Hip, &text);
    // SAFETY: the stand-in has no initialisers, and its functions are declared as the runtime's.
    let driver = unsafe { Hip::open_at(library.path()) }.expect("a driver on the stand-in");
    (library, Arc::new(driver))
}

pub(crate) fn free<D: Driver>(driver: &Arc<D>) -> u64 {
    driver.memory(ZERO).expect("memory").free_bytes
}

/// A block of handles of `piece_bytes`.
pub(crate) fn active<D: Driver>(driver: &Arc<D>, bytes: u64, piece_bytes: u64) -> Active<D> {
    let paused: Paused<D> =
        Block::reserve(driver, ZERO, bytes, driver.granularity(ZERO).expect("granularity"))
            .expect("reserve");
    let backing = Backing::create(driver, ZERO, bytes, piece_bytes).expect("create");
    paused.attach(backing, [ZERO]).expect("attach").settle().0
}

/// The functions of HIP that a program without answers uses.
pub(crate) struct Raw {
    pub(crate) reserve: unsafe extern "C" fn(*mut *mut c_void, usize, usize, usize, u64) -> u32,
    pub(crate) address_free: unsafe extern "C" fn(*mut c_void, usize) -> u32,
    create: unsafe extern "C" fn(*mut *mut c_void, usize, *const [u32; 8], u64) -> u32,
    pub(crate) release: unsafe extern "C" fn(*mut c_void) -> u32,
    map: unsafe extern "C" fn(*mut c_void, usize, usize, *mut c_void, u64) -> u32,
    pub(crate) unmap: unsafe extern "C" fn(*mut c_void, usize) -> u32,
    set_access: unsafe extern "C" fn(*mut c_void, usize, *const [c_int; 3], usize) -> u32,
    pub(crate) ipc_handle: unsafe extern "C" fn(*mut [u8; 64], *mut c_void) -> u32,
    _library: Loaded,
}

impl Raw {
    pub(crate) fn load(configuration: &str) -> Self {
        let text = format!("DORMANT_SIM_DEVICES=1;DORMANT_SIM_CAPACITY=64MiB;{configuration}");
        let library = Loaded::new(Double::Hip, &text);
        Self {
            // SAFETY: this and the others are the functions' types.
            reserve: unsafe { library.function("hipMemAddressReserve") },
            // SAFETY: as above.
            address_free: unsafe { library.function("hipMemAddressFree") },
            // SAFETY: as above.
            create: unsafe { library.function("hipMemCreate") },
            // SAFETY: as above.
            release: unsafe { library.function("hipMemRelease") },
            // SAFETY: as above.
            map: unsafe { library.function("hipMemMap") },
            // SAFETY: as above.
            unmap: unsafe { library.function("hipMemUnmap") },
            // SAFETY: as above.
            set_access: unsafe { library.function("hipMemSetAccess") },
            // SAFETY: as above.
            ipc_handle: unsafe { library.function("hipIpcGetMemHandle") },
            _library: library,
        }
    }

    /// A range of this many granules.
    pub(crate) fn reserved(&self, granules: usize) -> *mut c_void {
        let mut at = std::ptr::null_mut();
        // SAFETY: `at` is writable.
        let code = unsafe { (self.reserve)(&raw mut at, granules * BYTES, 0, 0, 0) };
        assert_eq!(code, 0, "reserve");
        at
    }

    pub(crate) fn created(&self, bytes: usize) -> Result<*mut c_void, u32> {
        // Pinned memory of device zero.
        let properties = [1, 0, 1, 0, 0, 0, 0, 0];
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is writable, the properties readable.
        match unsafe { (self.create)(&raw mut handle, bytes, &raw const properties, 0) } {
            0 => Ok(handle),
            code => Err(code),
        }
    }

    /// Maps a fresh handle of one granule.
    pub(crate) fn mapped(&self, at: *mut c_void) -> *mut c_void {
        let handle = self.created(BYTES).expect("create");
        // SAFETY: the stand-in checks both.
        assert_eq!(unsafe { (self.map)(at, BYTES, 0, handle, 0) }, 0, "map");
        handle
    }

    /// Opens this many granules to these locations: 1 is a device, 2 is the host.
    pub(crate) fn opened(&self, at: *mut c_void, granules: usize, locations: &[c_int]) -> u32 {
        let descriptors: Vec<_> = locations.iter().map(|&location| [location, 0, 3]).collect();
        let bytes = granules * BYTES;
        // SAFETY: the descriptors are readable; the stand-in checks the rest.
        unsafe { (self.set_access)(at, bytes, descriptors.as_ptr(), descriptors.len()) }
    }
}

/// The address of the granule after this one.
pub(crate) fn next(at: *mut c_void) -> *mut c_void {
    at.wrapping_byte_add(BYTES)
}
