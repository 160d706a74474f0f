//! The hooks: names of the GPU runtimes' functions that our libraries export.

use std::ffi::c_void;

/// Which runtime a hook stands in front of.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// The CUDA runtime, of any version.
    Cuda = 0,
    /// HIP.
    Hip = 1,
}

/// The address of the real function, of whichever type; null where there is none.
pub type Raw = *mut c_void;
/// Device memory, a stream, a graph: what hooks only hand on.
pub type Pointer = *mut c_void;

/// `cudaMalloc`, `hipMalloc`.
pub type MallocFn = unsafe extern "C" fn(*mut Pointer, usize) -> i32;
/// `cudaFree`, `hipFree`.
pub type FreeFn = unsafe extern "C" fn(Pointer) -> i32;
/// `cudaDeviceEnablePeerAccess`, `hipDeviceEnablePeerAccess`.
pub type EnablePeerFn = unsafe extern "C" fn(i32, u32) -> i32;
/// `cudaDeviceDisablePeerAccess`, `hipDeviceDisablePeerAccess`.
pub type DisablePeerFn = unsafe extern "C" fn(i32) -> i32;
/// `cudaStreamBeginCapture`, `hipStreamBeginCapture`.
pub type BeginCaptureFn = unsafe extern "C" fn(Pointer, i32) -> i32;
/// `cudaStreamBeginCaptureToGraph`, `hipStreamBeginCaptureToGraph`.
pub type BeginCaptureToFn =
    unsafe extern "C" fn(Pointer, Pointer, Pointer, Pointer, usize, i32) -> i32;
/// `cudaStreamEndCapture`, `hipStreamEndCapture`.
pub type EndCaptureFn = unsafe extern "C" fn(Pointer, *mut Pointer) -> i32;
/// `cudaIpcGetMemHandle`, `hipIpcGetMemHandle`.
pub type IpcGetFn = unsafe extern "C" fn(Pointer, Pointer) -> i32;

/// What `cudaErrorInitializationError` and `hipErrorNotInitialized` are both numbered: the answer
/// where the process has no real function.
pub const NOT_INITIALIZED: i32 = 3;

/// The arguments of `...StreamBeginCaptureToGraph` after the stream.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CaptureTo {
    /// The graph.
    pub graph: Pointer,
    /// Nodes that it depends on.
    pub dependencies: Pointer,
    /// Data of these dependencies.
    pub data: Pointer,
    /// How many.
    pub count: usize,
    /// The capture mode.
    pub mode: i32,
}

/// What an instance does for each hook. Each gets the address of the real function, and answers
/// with the runtime's own error codes.
///
/// Safety of all: the arguments are those of the function that was called, and the real function,
/// if there is one, is that function.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// `...Malloc`.
    pub malloc: unsafe extern "C" fn(Api, Raw, *mut Pointer, usize) -> i32,
    /// `...Free`.
    pub free: unsafe extern "C" fn(Api, Raw, Pointer) -> i32,
    /// `...DeviceEnablePeerAccess`.
    pub enable_peer: unsafe extern "C" fn(Api, Raw, i32, u32) -> i32,
    /// `...DeviceDisablePeerAccess`.
    pub disable_peer: unsafe extern "C" fn(Api, Raw, i32) -> i32,
    /// `...StreamBeginCapture`.
    pub begin_capture: unsafe extern "C" fn(Api, Raw, Pointer, i32) -> i32,
    /// `...StreamBeginCaptureToGraph`.
    pub begin_capture_to: unsafe extern "C" fn(Api, Raw, Pointer, *const CaptureTo) -> i32,
    /// `...StreamEndCapture`.
    pub end_capture: unsafe extern "C" fn(Api, Raw, Pointer, *mut Pointer) -> i32,
    /// `...IpcGetMemHandle`.
    pub ipc_get: unsafe extern "C" fn(Api, Raw, Pointer, Pointer) -> i32,
}

/// Calls the real function of this type at `raw`, or answers that there is none.
///
/// # Safety
/// As for the real function; `raw` is null or its address.
#[macro_export]
macro_rules! call_real {
    ($type:ty, $raw:expr, $($argument:expr),*) => {{
        let raw: $crate::Raw = $raw;
        if raw.is_null() {
            $crate::NOT_INITIALIZED
        } else {
            // SAFETY: the address is that of a function of this type.
            let real = unsafe { ::std::mem::transmute::<$crate::Raw, $type>(raw) };
            // SAFETY: the arguments are the caller's own, and so is the promise about them.
            unsafe { real($($argument),*) }
        }
    }};
}

/// Exports the hooks. `$instance` is a function that gives `Option<&'static Instance>`; without an
/// instance a hook is the real function.
#[macro_export]
macro_rules! export_hooks {
    ($instance:path) => {
        $crate::export_hooks! { @names $instance,
            Cuda ["libcudart.so", "libcudart-"]
            malloc { cudaMalloc }
            free { cudaFree }
            enable_peer { cudaDeviceEnablePeerAccess }
            disable_peer { cudaDeviceDisablePeerAccess }
            begin_capture { cudaStreamBeginCapture cudaStreamBeginCapture_ptsz }
            begin_capture_to {
                cudaStreamBeginCaptureToGraph cudaStreamBeginCaptureToGraph_ptsz
            }
            end_capture { cudaStreamEndCapture cudaStreamEndCapture_ptsz }
            ipc_get { cudaIpcGetMemHandle }
        }
        $crate::export_hooks! { @names $instance,
            Hip ["libamdhip64.so", "libamdhip64-"]
            malloc { hipMalloc }
            free { hipFree }
            enable_peer { hipDeviceEnablePeerAccess }
            disable_peer { hipDeviceDisablePeerAccess }
            begin_capture { hipStreamBeginCapture hipStreamBeginCapture_spt }
            begin_capture_to { hipStreamBeginCaptureToGraph }
            end_capture { hipStreamEndCapture hipStreamEndCapture_spt }
            ipc_get { hipIpcGetMemHandle }
        }
    };
    (@names $instance:path, $api:ident $libraries:tt
        $($kind:ident { $($name:ident)* })*) => {
        $($($crate::export_hooks! { @$kind $instance, $api $libraries $name })*)*
    };
    (@malloc $($rest:tt)*) => {
        $crate::export_hooks! { @one malloc MallocFn
            (address: *mut $crate::Pointer, bytes: usize) $($rest)* }
    };
    (@free $($rest:tt)*) => {
        $crate::export_hooks! { @one free FreeFn (address: $crate::Pointer) $($rest)* }
    };
    (@enable_peer $($rest:tt)*) => {
        $crate::export_hooks! { @one enable_peer EnablePeerFn (peer: i32, flags: u32) $($rest)* }
    };
    (@disable_peer $($rest:tt)*) => {
        $crate::export_hooks! { @one disable_peer DisablePeerFn (peer: i32) $($rest)* }
    };
    (@begin_capture $($rest:tt)*) => {
        $crate::export_hooks! { @one begin_capture BeginCaptureFn
            (stream: $crate::Pointer, mode: i32) $($rest)* }
    };
    (@end_capture $($rest:tt)*) => {
        $crate::export_hooks! { @one end_capture EndCaptureFn
            (stream: $crate::Pointer, graph: *mut $crate::Pointer) $($rest)* }
    };
    (@ipc_get $($rest:tt)*) => {
        $crate::export_hooks! { @one ipc_get IpcGetFn
            (handle: $crate::Pointer, address: $crate::Pointer) $($rest)* }
    };
    (@begin_capture_to $instance:path, $api:ident [$($library:literal),*] $name:ident) => {
        $crate::export_hooks! { @doc $name
            pub unsafe extern "C" fn $name(
                stream: $crate::Pointer,
                graph: $crate::Pointer,
                dependencies: $crate::Pointer,
                data: $crate::Pointer,
                count: usize,
                mode: i32,
            ) -> i32 {
                static REAL: $crate::real::Real =
                    $crate::real::Real::new($crate::c_name!($name), &[$($library),*]);
                let real = REAL.address().unwrap_or(::std::ptr::null_mut());
                match $instance() {
                    Some(instance) => {
                        let to = $crate::CaptureTo { graph, dependencies, data, count, mode };
                        let hook = instance.hooks.begin_capture_to;
                        // SAFETY: the caller's own arguments, for the function of this name.
                        unsafe { hook($crate::Api::$api, real, stream, &raw const to) }
                    }
                    None => $crate::call_real!(
                        $crate::BeginCaptureToFn, real, stream, graph, dependencies, data, count, mode
                    ),
                }
            }
        }
    };
    (@one $kind:ident $type:ident ($($argument:ident: $argument_type:ty),*)
        $instance:path, $api:ident [$($library:literal),*] $name:ident) => {
        $crate::export_hooks! { @doc $name
            pub unsafe extern "C" fn $name($($argument: $argument_type),*) -> i32 {
                static REAL: $crate::real::Real =
                    $crate::real::Real::new($crate::c_name!($name), &[$($library),*]);
                let real = REAL.address().unwrap_or(::std::ptr::null_mut());
                match $instance() {
                    Some(instance) => {
                        let hook = instance.hooks.$kind;
                        // SAFETY: the caller's own arguments, for the function of this name.
                        unsafe { hook($crate::Api::$api, real, $($argument),*) }
                    }
                    None => $crate::call_real!($crate::$type, real, $($argument),*),
                }
            }
        }
    };
    (@doc $name:ident $function:item) => {
        #[doc = concat!("The hook in front of `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As for the real function.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the runtime's own name")]
        $function
    };
}

/// A name as a C string.
#[macro_export]
macro_rules! c_name {
    ($name:ident) => {
        const {
            match ::std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes())
            {
                Ok(name) => name,
                Err(_) => c"",
            }
        }
    };
}
