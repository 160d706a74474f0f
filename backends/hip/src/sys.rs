//! The types and numbers of HIP that this crate uses, checked in: the bindings there are turn into
//! an empty crate, or fail to build, on a machine whose ROCm they do not know.
//!
//! They hold for HIP 6.0 to 7.14 and 10; `tests/layout.rs` compares them with published bindings.
//! HIP 5 ordered the fields of [`AllocationProperties`] otherwise, which is why
//! [`loader`](crate::loader) refuses it.
//!
//! Enums are plain integers, since a newer runtime answers with values that no list here has.
//! Device addresses, handles and streams are numbers: the host never follows them, and a pointer
//! and an integer of its size are passed alike on every platform that HIP has.

use std::ffi::{c_int, c_uint};

/// `hipError_t`.
pub(crate) type Code = u32;
/// `hipDevice_t`, and a device's ordinal.
pub(crate) type Ordinal = c_int;
/// A device address, `void*` or `hipDeviceptr_t`.
pub(crate) type DevicePointer = u64;
/// `hipMemGenericAllocationHandle_t`.
pub(crate) type Handle = usize;
/// `hipStream_t`.
pub(crate) type StreamHandle = usize;

const _: () = assert!(size_of::<DevicePointer>() == size_of::<*mut u8>(), "64-bit only");

/// `hipMemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// A `hipMemLocationType`.
    pub(crate) kind: c_uint,
    pub(crate) id: c_int,
}

/// `hipMemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessDescriptor {
    pub(crate) location: Location,
    /// `hipMemAccessFlags`.
    pub(crate) flags: c_uint,
}

/// `hipMemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllocationProperties {
    /// A `hipMemAllocationType`.
    pub(crate) kind: c_uint,
    /// In an anonymous union from 7.2 on; zero, for none, either way.
    pub(crate) requested_handle_types: c_uint,
    pub(crate) location: Location,
    /// A pointer to what only Windows has.
    pub(crate) win32_handle_meta_data: usize,
    pub(crate) flags: AllocationFlags,
    /// Padding of the C struct, so that all of it is written.
    pub(crate) padding: u32,
}

/// The anonymous `allocFlags` of `hipMemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AllocationFlags {
    pub(crate) compression_type: u8,
    pub(crate) gpu_direct_rdma_capable: u8,
    pub(crate) usage: u16,
}

/// `hipMemLocationTypeDevice`.
pub(crate) const LOCATION_DEVICE: c_uint = 1;
/// `hipMemLocationTypeHost`; HIP before 7.1 takes every location for a device's.
pub(crate) const LOCATION_HOST: c_uint = 2;
/// `hipMemAllocationTypePinned`.
pub(crate) const ALLOCATION_PINNED: c_uint = 1;
/// `hipMemHandleTypeNone`.
pub(crate) const HANDLE_NONE: c_uint = 0;
/// `hipMemAccessFlagsProtNone`.
pub(crate) const ACCESS_NONE: c_uint = 0;
/// `hipMemAccessFlagsProtReadWrite`.
pub(crate) const ACCESS_READ_WRITE: c_uint = 3;
/// `hipMemAllocationGranularityRecommended`.
pub(crate) const GRANULARITY_RECOMMENDED: c_uint = 1;
/// `hipDeviceAttributeVirtualMemoryManagementSupported`.
pub(crate) const ATTRIBUTE_VIRTUAL_MEMORY: c_uint = 89;
/// `hipStreamCaptureModeRelaxed`.
pub(crate) const CAPTURE_RELAXED: c_uint = 2;
/// `hipStreamCaptureStatusNone`.
pub(crate) const CAPTURE_STATUS_NONE: c_uint = 0;
/// `hipStreamNonBlocking`.
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
/// `hipHostRegisterPortable`.
pub(crate) const REGISTER_PORTABLE: c_uint = 1;

/// The codes that have a meaning here; the names are those of `hipError_t`.
pub(crate) mod error {
    use super::Code;

    pub(crate) const SUCCESS: Code = 0;
    pub(crate) const INVALID_VALUE: Code = 1;
    pub(crate) const OUT_OF_MEMORY: Code = 2;
    pub(crate) const NOT_INITIALIZED: Code = 3;
    pub(crate) const DEINITIALIZED: Code = 4;
    pub(crate) const INVALID_DEVICE_POINTER: Code = 17;
    pub(crate) const INSUFFICIENT_DRIVER: Code = 35;
    pub(crate) const PRIOR_LAUNCH_FAILURE: Code = 53;
    pub(crate) const NO_DEVICE: Code = 100;
    pub(crate) const INVALID_DEVICE: Code = 101;
    pub(crate) const INVALID_CONTEXT: Code = 201;
    pub(crate) const ALREADY_MAPPED: Code = 208;
    pub(crate) const NOT_MAPPED: Code = 211;
    pub(crate) const ECC_NOT_CORRECTABLE: Code = 214;
    pub(crate) const UNSUPPORTED_LIMIT: Code = 215;
    pub(crate) const PEER_ACCESS_UNSUPPORTED: Code = 217;
    pub(crate) const OPERATING_SYSTEM: Code = 304;
    pub(crate) const INVALID_HANDLE: Code = 400;
    pub(crate) const ILLEGAL_STATE: Code = 401;
    pub(crate) const NOT_FOUND: Code = 500;
    pub(crate) const NOT_READY: Code = 600;
    pub(crate) const ILLEGAL_ADDRESS: Code = 700;
    pub(crate) const LAUNCH_TIME_OUT: Code = 702;
    pub(crate) const CONTEXT_IS_DESTROYED: Code = 709;
    pub(crate) const ASSERT: Code = 710;
    pub(crate) const HOST_MEMORY_ALREADY_REGISTERED: Code = 712;
    pub(crate) const HOST_MEMORY_NOT_REGISTERED: Code = 713;
    pub(crate) const LAUNCH_FAILURE: Code = 719;
    pub(crate) const NOT_SUPPORTED: Code = 801;
    pub(crate) const STREAM_CAPTURE_UNSUPPORTED: Code = 900;
    pub(crate) const STREAM_CAPTURE_WRONG_THREAD: Code = 908;
    pub(crate) const RUNTIME_MEMORY: Code = 1052;
}
