//! The CUDA stand-in's functions as a C program has them.

use std::ffi::{c_int, c_void};

use dormant_tests::doubles::{Double, Loaded};

/// A granule of device memory.
pub(crate) const GRANULE: usize = 2 << 20;

pub(crate) const OK: u32 = 0;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
pub(crate) const NOT_PERMITTED: u32 = 800;
pub(crate) const NOT_SUPPORTED: u32 = 801;
pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;
pub(crate) const CAPTURE_INVALIDATED: u32 = 901;

/// `CUmemAllocationProp`: pinned memory of a device.
#[repr(C)]
pub(crate) struct Properties {
    kind: c_int,
    handle_types: c_int,
    location: [c_int; 2],
    windows: usize,
    flags: [u8; 8],
}

pub(crate) static PROPERTIES: Properties = Properties::exportable(0);

impl Properties {
    /// With these handle types.
    pub(crate) const fn exportable(handle_types: c_int) -> Self {
        Self { kind: 1, handle_types, location: [1, 0], windows: 0, flags: [0; 8] }
    }
}

macro_rules! api {
    ($($field:ident($($argument:ty),*) = $name:literal;)*) => {
        /// The functions, and a context of device zero that is current.
        pub(crate) struct Api {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> u32,)*
            _library: Loaded,
        }

        impl Api {
            pub(crate) fn load(configuration: &str) -> Self {
                let library = Loaded::new(Double::Cuda, configuration);
                let api = Self {
                    // SAFETY: these are the functions' types.
                    $($field: unsafe { library.function($name) },)*
                    _library: library,
                };
                let mut context = std::ptr::null_mut();
                // SAFETY: flags are zero.
                assert_eq!(unsafe { (api.init)(0) }, OK);
                // SAFETY: `context` is writable.
                assert_eq!(unsafe { (api.retain)(&raw mut context, 0) }, OK);
                // SAFETY: the context is held.
                assert_eq!(unsafe { (api.set_current)(context) }, OK);
                api
            }
        }
    };
}

type Pointer = *mut c_void;

api! {
    init(u32) = "cuInit";
    retain(*mut Pointer, c_int) = "cuDevicePrimaryCtxRetain";
    set_current(Pointer) = "cuCtxSetCurrent";
    synchronize() = "cuCtxSynchronize";
    exchange_mode(*mut u32) = "cuThreadExchangeStreamCaptureMode";
    mem_info(*mut usize, *mut usize) = "cuMemGetInfo_v2";
    create(*mut u64, usize, *const Properties, u64) = "cuMemCreate";
    release(u64) = "cuMemRelease";
    retain_handle(*mut u64, u64) = "cuMemRetainAllocationHandle";
    reserve(*mut u64, usize, usize, u64, u64) = "cuMemAddressReserve";
    address_free(u64, usize) = "cuMemAddressFree";
    map(u64, usize, usize, u64, u64) = "cuMemMap";
    unmap(u64, usize) = "cuMemUnmap";
    set_access(u64, usize, *const [c_int; 3], usize) = "cuMemSetAccess";
    address_range(*mut u64, *mut usize, u64) = "cuMemGetAddressRange_v2";
    attribute(*mut u32, c_int, u64) = "cuPointerGetAttribute";
    export(*mut c_int, u64, c_int, u64) = "cuMemExportToShareableHandle";
    ipc_handle(*mut [u8; 64], u64) = "cuIpcGetMemHandle";
    alloc(*mut u64, usize) = "cuMemAlloc_v2";
    free(u64) = "cuMemFree_v2";
    fill(u64, u8, usize) = "cuMemsetD8_v2";
    register(Pointer, usize, u32) = "cuMemHostRegister_v2";
    unregister(Pointer) = "cuMemHostUnregister";
    to_host_async(Pointer, u64, usize, Pointer) = "cuMemcpyDtoHAsync_v2";
    stream_create(*mut Pointer, u32) = "cuStreamCreate";
    begin_capture(Pointer, u32) = "cuStreamBeginCapture_v2";
    end_capture(Pointer, *mut Pointer) = "cuStreamEndCapture";
    launch(Pointer, u64, u64, c_int, usize) = "double_launch";
    function(*const std::ffi::c_char, *mut Pointer, c_int, u64, *mut c_int) = "cuGetProcAddress_v2";
}

/// Calls a function of the stand-in and compares its answer.
macro_rules! answers {
    ($api:ident.$function:ident($($argument:expr),*), $code:expr) => {
        // SAFETY: the stand-in checks addresses, handles and sizes of the device, and out-parameters
        // of these tests are writable.
        assert_eq!(unsafe { ($api.$function)($($argument),*) }, $code, stringify!($function))
    };
}

pub(crate) use answers;

impl Api {
    pub(crate) fn free_bytes(&self) -> usize {
        let (mut free, mut total) = (0, 0);
        answers!(self.mem_info(&raw mut free, &raw mut total), OK);
        free
    }

    pub(crate) fn created(&self, bytes: usize) -> u64 {
        let mut handle = 0;
        answers!(self.create(&raw mut handle, bytes, &raw const PROPERTIES, 0), OK);
        handle
    }

    pub(crate) fn reserved(&self, bytes: usize) -> u64 {
        let mut address = 0;
        answers!(self.reserve(&raw mut address, bytes, 0, 0, 0), OK);
        address
    }

    pub(crate) fn opened(&self, address: u64, bytes: usize) -> u32 {
        // Device zero, read and write.
        let descriptor = [1, 0, 3];
        // SAFETY: the descriptor is readable; the stand-in checks the rest.
        unsafe { (self.set_access)(address, bytes, &raw const descriptor, 1) }
    }
}
