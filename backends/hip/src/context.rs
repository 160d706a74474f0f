//! Scopes that leave the calling thread as it was. HIP has no contexts to speak of: what a thread
//! has is a current device, and a device is set up when it is first used.

use std::ffi::c_int;
use std::marker::PhantomData;

use allocator_core::call::Call;
use allocator_core::{Device, Operation, Result};

use crate::loader::Symbols;
use crate::sys::error::SUCCESS;
use crate::sys::{CAPTURE_RELAXED, Ordinal};

/// A device's ordinal as the runtime takes it; one that does not fit names no device.
pub(crate) fn ordinal(device: Device) -> Ordinal {
    c_int::try_from(device.0).unwrap_or(-1)
}

/// Makes a device current in this thread until dropped. Costs one query where it is current
/// already, which is the caller's usual case.
#[derive(Debug)]
pub(crate) struct DeviceScope<'a> {
    symbols: &'a Symbols,
    restore: Option<Ordinal>,
    _thread: PhantomData<*const ()>,
}

impl<'a> DeviceScope<'a> {
    pub(crate) fn enter(
        symbols: &'a Symbols,
        device: Device,
        operation: Operation,
    ) -> Result<Self> {
        let mut scope = Self { symbols, restore: None, _thread: PhantomData };
        let mut current = 0;
        // SAFETY: `current` is writable.
        let code = unsafe { (symbols.get_device)(&raw mut current) };
        symbols.check(code, Call::new(operation, "hipGetDevice").on(device))?;
        if current != ordinal(device) {
            // SAFETY: any number may be given; one that is no device is refused.
            let code = unsafe { (symbols.set_device)(ordinal(device)) };
            symbols.check(code, Call::new(operation, "hipSetDevice").on(device))?;
            scope.restore = Some(current);
        }
        Ok(scope)
    }
}

impl Drop for DeviceScope<'_> {
    fn drop(&mut self) {
        if let Some(previous) = self.restore {
            // SAFETY: `previous` was this thread's current device when the scope began.
            let code = unsafe { (self.symbols.set_device)(previous) };
            if code != SUCCESS {
                self.symbols.forget(code);
            }
        }
    }
}

/// Puts this thread into relaxed capture mode until dropped, so that a call which a capture
/// elsewhere in the process forbids does not invalidate that capture.
#[derive(Debug)]
pub(crate) struct CaptureScope<'a> {
    symbols: &'a Symbols,
    previous: u32,
    _thread: PhantomData<*const ()>,
}

impl<'a> CaptureScope<'a> {
    pub(crate) fn enter(symbols: &'a Symbols, operation: Operation) -> Result<Self> {
        let mut mode = CAPTURE_RELAXED;
        // SAFETY: `mode` is writable and holds a mode; it comes back with the thread's own.
        let code = unsafe { (symbols.thread_exchange_stream_capture_mode)(&raw mut mode) };
        symbols.check(code, Call::new(operation, "hipThreadExchangeStreamCaptureMode"))?;
        Ok(Self { symbols, previous: mode, _thread: PhantomData })
    }
}

impl Drop for CaptureScope<'_> {
    fn drop(&mut self) {
        let exchange = self.symbols.thread_exchange_stream_capture_mode;
        // SAFETY: `previous` is writable and holds a mode that the runtime gave us. The exchange
        // touches a field of this thread's and has no way to fail.
        let _code = unsafe { exchange(&raw mut self.previous) };
    }
}

/// Both scopes, for calls that concern the current device and that a capture may forbid.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    _device: Option<DeviceScope<'a>>,
    _relaxed: Option<CaptureScope<'a>>,
}

impl<'a> Scope<'a> {
    pub(crate) fn enter(
        symbols: &'a Symbols,
        device: Device,
        operation: Operation,
    ) -> Result<Self> {
        Ok(Self {
            _device: Some(DeviceScope::enter(symbols, device, operation)?),
            _relaxed: Some(CaptureScope::enter(symbols, operation)?),
        })
    }

    /// For calls that must go through after a failure of the device as well: as far as the runtime
    /// lets us. Where it refuses, the call itself is to say why.
    pub(crate) fn if_possible(symbols: &'a Symbols, device: Device, operation: Operation) -> Self {
        Self {
            _device: DeviceScope::enter(symbols, device, operation).ok(),
            _relaxed: CaptureScope::enter(symbols, operation).ok(),
        }
    }
}
