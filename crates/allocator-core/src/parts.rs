//! A driver whose calls are spread over files by subject, put together by one macro: a trait
//! cannot be implemented in parts, and the same list of forwards need not stand in each backend.

/// Implements [`Driver`](crate::Driver) by inherent methods of one set of names, which every
/// backend with a driver library has:
///
/// `device_list`, `memory_info`, `granule`, `offers` (device.rs); `await_idle` (quiesce.rs);
/// `reserve_range`, `create_physical`, `map_physical`, `open_to`, `unmap_piece`,
/// `release_physical`, `renew`, `free_range` (memory.rs); `captures`, `check_peer`,
/// `create_stream`, `destroy_stream`, `copy_to_host`, `copy_to_device`, `set_bytes`,
/// `synchronize`, `register`, `unregister` (stream.rs); and a field `info`.
///
/// Whoever calls it vouches for the trait's contract: `unsafe` in the call says so, and a comment
/// beside it says why it holds.
#[macro_export]
macro_rules! driver_in_parts {
    (unsafe $driver:ty, $physical:ty, $stream:ty) => {
        // SAFETY: whoever calls the macro vouches for the contract.
        unsafe impl $crate::Driver for $driver {
            type Physical = $physical;
            type Stream = $stream;

            fn info(&self) -> $crate::DriverInfo {
                self.info.clone()
            }

            fn devices(&self) -> $crate::Result<Vec<$crate::DeviceInfo>> {
                self.device_list()
            }

            fn memory(&self, device: $crate::Device) -> $crate::Result<$crate::MemoryInfo> {
                self.memory_info(device)
            }

            fn granularity(&self, device: $crate::Device) -> $crate::Result<$crate::Granularity> {
                self.granule(device)
            }

            fn capabilities(&self, device: $crate::Device) -> $crate::Result<$crate::Capabilities> {
                self.offers(device)
            }

            fn quiesce(
                &self,
                device: $crate::Device,
                deadline: $crate::Deadline,
            ) -> $crate::Result<()> {
                self.await_idle(device, deadline)
            }

            unsafe fn is_capturing(
                &self,
                device: $crate::Device,
                stream: $crate::RawStream,
            ) -> $crate::Result<bool> {
                // SAFETY: the caller's promise.
                unsafe { self.captures(device, stream) }
            }

            fn enable_peer(&self, from: $crate::Device, to: $crate::Device) -> $crate::Result<()> {
                self.check_peer(from, to)
            }

            fn reserve(&self, device: $crate::Device, bytes: u64) -> $crate::Result<$crate::Range> {
                self.reserve_range(device, bytes)
            }

            fn create(&self, device: $crate::Device, bytes: u64) -> $crate::Result<Self::Physical> {
                self.create_physical(device, bytes)
            }

            unsafe fn map(
                &self,
                range: &$crate::Range,
                offset: u64,
                physical: &Self::Physical,
            ) -> $crate::Result<()> {
                // SAFETY: the caller's promise.
                unsafe { self.map_physical(range, offset, physical) }
            }

            unsafe fn set_access(
                &self,
                range: &$crate::Range,
                offset: u64,
                bytes: u64,
                devices: &[$crate::Device],
            ) -> $crate::Result<()> {
                // SAFETY: the caller's promise.
                unsafe { self.open_to(range, offset, bytes, devices) }
            }

            unsafe fn unmap(
                &self,
                range: &$crate::Range,
                offset: u64,
                bytes: u64,
            ) -> $crate::Result<()> {
                // SAFETY: the caller's promise.
                unsafe { self.unmap_piece(range, offset, bytes) }
            }

            fn release(&self, physical: Self::Physical) -> $crate::Result<()> {
                self.release_physical(physical)
            }

            unsafe fn vacate(&self, range: &mut $crate::Range) -> $crate::Result<()> {
                // SAFETY: the caller's promise.
                unsafe { self.renew(range) }
            }

            unsafe fn unreserve(&self, range: $crate::Range) -> $crate::Result<()> {
                // SAFETY: the caller's promise.
                unsafe { self.free_range(range) }
            }

            fn open_stream(&self, device: $crate::Device) -> $crate::Result<Self::Stream> {
                self.create_stream(device)
            }

            fn close_stream(&self, stream: Self::Stream) -> $crate::Result<()> {
                self.destroy_stream(stream)
            }

            unsafe fn read(
                &self,
                stream: &Self::Stream,
                from: $crate::Address,
                to: ::std::ptr::NonNull<u8>,
                bytes: u64,
            ) -> $crate::Result<()> {
                // SAFETY: the caller's promise.
                unsafe { self.copy_to_host(stream, from, to, bytes) }
            }

            unsafe fn write(
                &self,
                stream: &Self::Stream,
                to: $crate::Address,
                from: ::std::ptr::NonNull<u8>,
                bytes: u64,
            ) -> $crate::Result<()> {
                // SAFETY: the caller's promise.
                unsafe { self.copy_to_device(stream, to, from, bytes) }
            }

            unsafe fn fill(
                &self,
                stream: &Self::Stream,
                at: $crate::Address,
                byte: u8,
                bytes: u64,
            ) -> $crate::Result<()> {
                // SAFETY: the caller's promise.
                unsafe { self.set_bytes(stream, at, byte, bytes) }
            }

            fn wait(&self, stream: &Self::Stream) -> $crate::Result<()> {
                self.synchronize(stream)
            }

            unsafe fn register_host(
                &self,
                at: ::std::ptr::NonNull<u8>,
                bytes: u64,
            ) -> $crate::Result<()> {
                // SAFETY: the caller's promise.
                unsafe { self.register(at, bytes) }
            }

            unsafe fn unregister_host(&self, at: ::std::ptr::NonNull<u8>) -> $crate::Result<()> {
                // SAFETY: the caller's promise.
                unsafe { self.unregister(at) }
            }
        }
    };
}
