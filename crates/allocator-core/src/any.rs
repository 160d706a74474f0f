//! One driver type out of several, by one macro, so that no method is typed once per backend.

use crate::error::{Error, ErrorKind, Operation};

/// The error for a handle or stream that another variant's driver made.
#[must_use]
pub fn foreign(operation: Operation) -> Error {
    Error::new(ErrorKind::InvalidArgument, operation, "that came from another driver")
}

/// Declares an enum over drivers that is a [`Driver`](crate::Driver) itself, with enums over
/// their handles and streams. A handle or stream of another variant than the driver's own is
/// refused with `InvalidArgument`; with one driver in a process that cannot occur.
///
/// ```text
/// any_driver! {
///     /// The driver that was found.
///     pub enum Driver, Physical, Stream { Cuda(dormant_cuda::Cuda), Sim(dormant_sim::Sim), }
/// }
/// ```
#[macro_export]
macro_rules! any_driver {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident, $physical:ident, $stream:ident {
            $($variant:ident($driver:ty),)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $visibility enum $name {
            $(#[doc = concat!("The backend `", stringify!($variant), "`.")] $variant($driver),)*
        }

        /// Physical memory of one of the drivers.
        #[derive(Debug)]
        $visibility enum $physical {
            $(
                #[doc = concat!("Of the backend `", stringify!($variant), "`.")]
                $variant(<$driver as $crate::Driver>::Physical),
            )*
        }

        /// A stream of one of the drivers.
        #[derive(Debug)]
        $visibility enum $stream {
            $(
                #[doc = concat!("Of the backend `", stringify!($variant), "`.")]
                $variant(<$driver as $crate::Driver>::Stream),
            )*
        }

        $(impl From<$driver> for $name {
            fn from(driver: $driver) -> Self {
                Self::$variant(driver)
            }
        })*

        // SAFETY: every method is the same method of one of the drivers, which keeps the contract.
        unsafe impl $crate::Driver for $name {
            type Physical = $physical;
            type Stream = $stream;

            fn info(&self) -> $crate::DriverInfo {
                match self { $(Self::$variant(driver) => driver.info(),)* }
            }

            fn devices(&self) -> $crate::Result<Vec<$crate::DeviceInfo>> {
                match self { $(Self::$variant(driver) => driver.devices(),)* }
            }

            fn memory(&self, device: $crate::Device) -> $crate::Result<$crate::MemoryInfo> {
                match self { $(Self::$variant(driver) => driver.memory(device),)* }
            }

            fn granularity(&self, device: $crate::Device) -> $crate::Result<$crate::Granularity> {
                match self { $(Self::$variant(driver) => driver.granularity(device),)* }
            }

            fn capabilities(
                &self,
                device: $crate::Device,
            ) -> $crate::Result<$crate::Capabilities> {
                match self { $(Self::$variant(driver) => driver.capabilities(device),)* }
            }

            fn quiesce(
                &self,
                device: $crate::Device,
                deadline: $crate::Deadline,
            ) -> $crate::Result<()> {
                match self { $(Self::$variant(driver) => driver.quiesce(device, deadline),)* }
            }

            unsafe fn is_capturing(
                &self,
                device: $crate::Device,
                stream: $crate::RawStream,
            ) -> $crate::Result<bool> {
                match self {
                    // SAFETY: the caller's promise, handed on.
                    $(Self::$variant(driver) => unsafe { driver.is_capturing(device, stream) },)*
                }
            }

            fn enable_peer(
                &self,
                from: $crate::Device,
                to: $crate::Device,
            ) -> $crate::Result<()> {
                match self { $(Self::$variant(driver) => driver.enable_peer(from, to),)* }
            }

            fn reserve(
                &self,
                device: $crate::Device,
                bytes: u64,
            ) -> $crate::Result<$crate::Range> {
                match self { $(Self::$variant(driver) => driver.reserve(device, bytes),)* }
            }

            fn create(
                &self,
                device: $crate::Device,
                bytes: u64,
            ) -> $crate::Result<Self::Physical> {
                match self {
                    $(Self::$variant(driver) => {
                        driver.create(device, bytes).map($physical::$variant)
                    })*
                }
            }

            unsafe fn map(
                &self,
                range: &$crate::Range,
                offset: u64,
                physical: &Self::Physical,
            ) -> $crate::Result<()> {
                match (self, physical) {
                    $((Self::$variant(driver), $physical::$variant(physical)) => {
                        // SAFETY: the caller's promise, handed on.
                        unsafe { driver.map(range, offset, physical) }
                    })*
                    _ => Err($crate::any::foreign($crate::Operation::Map)),
                }
            }

            unsafe fn set_access(
                &self,
                range: &$crate::Range,
                offset: u64,
                bytes: u64,
                devices: &[$crate::Device],
            ) -> $crate::Result<()> {
                match self {
                    $(Self::$variant(driver) => {
                        // SAFETY: the caller's promise, handed on.
                        unsafe { driver.set_access(range, offset, bytes, devices) }
                    })*
                }
            }

            unsafe fn unmap(
                &self,
                range: &$crate::Range,
                offset: u64,
                bytes: u64,
            ) -> $crate::Result<()> {
                match self {
                    // SAFETY: the caller's promise, handed on.
                    $(Self::$variant(driver) => unsafe { driver.unmap(range, offset, bytes) },)*
                }
            }

            fn release(&self, physical: Self::Physical) -> $crate::Result<()> {
                match (self, physical) {
                    $((Self::$variant(driver), $physical::$variant(physical)) => {
                        driver.release(physical)
                    })*
                    _ => Err($crate::any::foreign($crate::Operation::Release)),
                }
            }

            unsafe fn vacate(&self, range: &mut $crate::Range) -> $crate::Result<()> {
                match self {
                    // SAFETY: the caller's promise, handed on.
                    $(Self::$variant(driver) => unsafe { driver.vacate(range) },)*
                }
            }

            unsafe fn unreserve(&self, range: $crate::Range) -> $crate::Result<()> {
                match self {
                    // SAFETY: the caller's promise, handed on.
                    $(Self::$variant(driver) => unsafe { driver.unreserve(range) },)*
                }
            }

            fn open_stream(&self, device: $crate::Device) -> $crate::Result<Self::Stream> {
                match self {
                    $(Self::$variant(driver) => driver.open_stream(device).map($stream::$variant),)*
                }
            }

            fn close_stream(&self, stream: Self::Stream) -> $crate::Result<()> {
                match (self, stream) {
                    $((Self::$variant(driver), $stream::$variant(stream)) => {
                        driver.close_stream(stream)
                    })*
                    _ => Err($crate::any::foreign($crate::Operation::CloseStream)),
                }
            }

            unsafe fn read(
                &self,
                stream: &Self::Stream,
                from: $crate::Address,
                to: ::std::ptr::NonNull<u8>,
                bytes: u64,
            ) -> $crate::Result<()> {
                match (self, stream) {
                    $((Self::$variant(driver), $stream::$variant(stream)) => {
                        // SAFETY: the caller's promise, handed on.
                        unsafe { driver.read(stream, from, to, bytes) }
                    })*
                    _ => Err($crate::any::foreign($crate::Operation::Read)),
                }
            }

            unsafe fn write(
                &self,
                stream: &Self::Stream,
                to: $crate::Address,
                from: ::std::ptr::NonNull<u8>,
                bytes: u64,
            ) -> $crate::Result<()> {
                match (self, stream) {
                    $((Self::$variant(driver), $stream::$variant(stream)) => {
                        // SAFETY: the caller's promise, handed on.
                        unsafe { driver.write(stream, to, from, bytes) }
                    })*
                    _ => Err($crate::any::foreign($crate::Operation::Write)),
                }
            }

            unsafe fn fill(
                &self,
                stream: &Self::Stream,
                at: $crate::Address,
                byte: u8,
                bytes: u64,
            ) -> $crate::Result<()> {
                match (self, stream) {
                    $((Self::$variant(driver), $stream::$variant(stream)) => {
                        // SAFETY: the caller's promise, handed on.
                        unsafe { driver.fill(stream, at, byte, bytes) }
                    })*
                    _ => Err($crate::any::foreign($crate::Operation::Fill)),
                }
            }

            fn wait(&self, stream: &Self::Stream) -> $crate::Result<()> {
                match (self, stream) {
                    $((Self::$variant(driver), $stream::$variant(stream)) => driver.wait(stream),)*
                    _ => Err($crate::any::foreign($crate::Operation::Wait)),
                }
            }

            unsafe fn register_host(
                &self,
                at: ::std::ptr::NonNull<u8>,
                bytes: u64,
            ) -> $crate::Result<()> {
                match self {
                    // SAFETY: the caller's promise, handed on.
                    $(Self::$variant(driver) => unsafe { driver.register_host(at, bytes) },)*
                }
            }

            unsafe fn unregister_host(&self, at: ::std::ptr::NonNull<u8>) -> $crate::Result<()> {
                match self {
                    // SAFETY: the caller's promise, handed on.
                    $(Self::$variant(driver) => unsafe { driver.unregister_host(at) },)*
                }
            }
        }
    };
}
