//! The checked-in types and numbers against published bindings. A target of its own: where a
//! `hipconfig` prints a version that they do not list, the bindings are empty, and this alone
//! does not compile.

#![allow(dead_code, reason = "some of the numbers are used by the crate only")]

use std::mem::{align_of, offset_of, size_of};

use hip_sys as hip;

#[path = "../src/sys.rs"]
mod sys;

macro_rules! same_layout {
    ($ours:ty, $theirs:ty, { $($field:ident = $other:ident),* $(,)? }) => {
        assert_eq!(size_of::<$ours>(), size_of::<$theirs>(), stringify!($ours));
        assert_eq!(align_of::<$ours>(), align_of::<$theirs>(), stringify!($ours));
        $(
            let at = stringify!($ours . $field);
            assert_eq!(offset_of!($ours, $field), offset_of!($theirs, $other), "{at}");
        )*
    };
}

#[test]
fn the_structs_are_laid_out_as_in_the_bindings() {
    same_layout!(sys::Location, hip::hipMemLocation, { kind = type_, id = id });
    same_layout!(sys::AccessDescriptor, hip::hipMemAccessDesc, {
        location = location,
        flags = flags,
    });
    // The requested handle type is a field in older bindings and a union's in newer ones: it lies
    // between its neighbours in both.
    same_layout!(sys::AllocationProperties, hip::hipMemAllocationProp, {
        kind = type_,
        location = location,
        win32_handle_meta_data = win32HandleMetaData,
        flags = allocFlags,
    });
    assert_eq!(size_of::<sys::AllocationProperties>(), 32);
    assert_eq!(offset_of!(sys::AllocationProperties, requested_handle_types), 4);
    assert_eq!(offset_of!(sys::AllocationProperties, location), 8);
    assert_eq!(offset_of!(sys::AllocationFlags, gpu_direct_rdma_capable), 1);
    assert_eq!(offset_of!(sys::AllocationFlags, usage), 2);
}

#[test]
fn numbers_stand_for_pointers_of_the_same_size() {
    assert_eq!(size_of::<sys::Code>(), size_of::<hip::hipError_t>());
    assert_eq!(size_of::<sys::Ordinal>(), size_of::<hip::hipDevice_t>());
    assert_eq!(size_of::<sys::DevicePointer>(), size_of::<hip::hipDeviceptr_t>());
    assert_eq!(size_of::<sys::Handle>(), size_of::<hip::hipMemGenericAllocationHandle_t>());
    assert_eq!(size_of::<sys::StreamHandle>(), size_of::<hip::hipStream_t>());
}

#[test]
fn the_numbers_are_those_of_the_bindings() {
    for (ours, theirs) in [
        (sys::LOCATION_DEVICE, hip::hipMemLocationType_hipMemLocationTypeDevice),
        (sys::LOCATION_HOST, hip::hipMemLocationType_hipMemLocationTypeHost),
        (sys::ALLOCATION_PINNED, hip::hipMemAllocationType_hipMemAllocationTypePinned),
        (sys::HANDLE_NONE, hip::hipMemAllocationHandleType_hipMemHandleTypeNone),
        (sys::ACCESS_NONE, hip::hipMemAccessFlags_hipMemAccessFlagsProtNone),
        (sys::ACCESS_READ_WRITE, hip::hipMemAccessFlags_hipMemAccessFlagsProtReadWrite),
        (
            sys::GRANULARITY_RECOMMENDED,
            hip::hipMemAllocationGranularity_flags_hipMemAllocationGranularityRecommended,
        ),
        (
            sys::ATTRIBUTE_VIRTUAL_MEMORY,
            hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported,
        ),
        (sys::CAPTURE_RELAXED, hip::hipStreamCaptureMode_hipStreamCaptureModeRelaxed),
        (sys::CAPTURE_STATUS_NONE, hip::hipStreamCaptureStatus_hipStreamCaptureStatusNone),
        (sys::STREAM_NON_BLOCKING, hip::hipStreamNonBlocking),
        (sys::REGISTER_PORTABLE, hip::hipHostRegisterPortable),
    ] {
        assert_eq!(ours, theirs);
    }
}

macro_rules! same_codes {
    ($($ours:ident = $theirs:ident),* $(,)?) => {
        $(assert_eq!(sys::error::$ours, hip::$theirs, stringify!($ours));)*
    };
}

#[test]
fn the_error_codes_are_those_of_the_bindings() {
    same_codes!(
        SUCCESS = hipError_t_hipSuccess,
        INVALID_VALUE = hipError_t_hipErrorInvalidValue,
        OUT_OF_MEMORY = hipError_t_hipErrorOutOfMemory,
        NOT_INITIALIZED = hipError_t_hipErrorNotInitialized,
        DEINITIALIZED = hipError_t_hipErrorDeinitialized,
        INVALID_DEVICE_POINTER = hipError_t_hipErrorInvalidDevicePointer,
        INSUFFICIENT_DRIVER = hipError_t_hipErrorInsufficientDriver,
        PRIOR_LAUNCH_FAILURE = hipError_t_hipErrorPriorLaunchFailure,
        NO_DEVICE = hipError_t_hipErrorNoDevice,
        INVALID_DEVICE = hipError_t_hipErrorInvalidDevice,
        INVALID_CONTEXT = hipError_t_hipErrorInvalidContext,
        ALREADY_MAPPED = hipError_t_hipErrorAlreadyMapped,
        NOT_MAPPED = hipError_t_hipErrorNotMapped,
        ECC_NOT_CORRECTABLE = hipError_t_hipErrorECCNotCorrectable,
        UNSUPPORTED_LIMIT = hipError_t_hipErrorUnsupportedLimit,
        PEER_ACCESS_UNSUPPORTED = hipError_t_hipErrorPeerAccessUnsupported,
        OPERATING_SYSTEM = hipError_t_hipErrorOperatingSystem,
        INVALID_HANDLE = hipError_t_hipErrorInvalidHandle,
        ILLEGAL_STATE = hipError_t_hipErrorIllegalState,
        NOT_FOUND = hipError_t_hipErrorNotFound,
        NOT_READY = hipError_t_hipErrorNotReady,
        ILLEGAL_ADDRESS = hipError_t_hipErrorIllegalAddress,
        LAUNCH_TIME_OUT = hipError_t_hipErrorLaunchTimeOut,
        CONTEXT_IS_DESTROYED = hipError_t_hipErrorContextIsDestroyed,
        ASSERT = hipError_t_hipErrorAssert,
        HOST_MEMORY_ALREADY_REGISTERED = hipError_t_hipErrorHostMemoryAlreadyRegistered,
        HOST_MEMORY_NOT_REGISTERED = hipError_t_hipErrorHostMemoryNotRegistered,
        LAUNCH_FAILURE = hipError_t_hipErrorLaunchFailure,
        NOT_SUPPORTED = hipError_t_hipErrorNotSupported,
        STREAM_CAPTURE_UNSUPPORTED = hipError_t_hipErrorStreamCaptureUnsupported,
        STREAM_CAPTURE_WRONG_THREAD = hipError_t_hipErrorStreamCaptureWrongThread,
        RUNTIME_MEMORY = hipError_t_hipErrorRuntimeMemory,
    );
}
