//! Primary contexts, and scopes that leave the calling thread as it was.

use std::marker::PhantomData;
use std::ptr;
use std::sync::{Mutex, OnceLock};

use allocator_core::call::Call;
use allocator_core::waiting::lock;
use allocator_core::{Device, Operation, Result};
use cudarc::driver::sys::{CUcontext, CUdevice, CUstreamCaptureMode};

use crate::loader::Symbols;
use crate::result::SUCCESS;

/// A primary context of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context(CUcontext);

// SAFETY: a context handle is a name for an object of the driver, which may be used from any
// thread and by several at once.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn raw(self) -> CUcontext {
        self.0
    }
}

/// The primary context of one device: not made before it is needed, then kept for the life of
/// the process.
#[derive(Debug)]
pub(crate) struct Primary {
    device: Device,
    handle: CUdevice,
    kept: OnceLock<Context>,
    keeping: Mutex<()>,
}

impl Primary {
    pub(crate) fn new(device: Device, handle: CUdevice) -> Self {
        Self { device, handle, kept: OnceLock::new(), keeping: Mutex::new(()) }
    }

    /// The context, if one is kept.
    pub(crate) fn kept(&self) -> Option<Context> {
        self.kept.get().copied()
    }

    /// The context, made now if need be and kept from now on.
    pub(crate) fn keep(&self, symbols: &Symbols, operation: Operation) -> Result<Context> {
        if let Some(context) = self.kept() {
            return Ok(context);
        }
        let _turn = lock(&self.keeping);
        if let Some(context) = self.kept() {
            return Ok(context);
        }
        let context = self.retain(symbols, operation)?;
        Ok(*self.kept.get_or_init(|| context))
    }

    /// The context for the length of one call: the kept one, or else one that is given back.
    pub(crate) fn borrow<'a>(
        &'a self,
        symbols: &'a Symbols,
        operation: Operation,
    ) -> Result<Borrowed<'a>> {
        let (context, give_back) = match self.kept() {
            Some(context) => (context, false),
            None => (self.retain(symbols, operation)?, true),
        };
        Ok(Borrowed { symbols, handle: self.handle, context, give_back })
    }

    /// Whether anybody in this process has the context.
    pub(crate) fn is_active(&self, symbols: &Symbols, operation: Operation) -> Result<bool> {
        let (mut flags, mut active) = (0, 0);
        let state = symbols.primary_ctx_get_state;
        // SAFETY: both are writable; the handle is the driver's.
        let code = unsafe { state(self.handle, &raw mut flags, &raw mut active) };
        symbols.check(code, Call::new(operation, "cuDevicePrimaryCtxGetState").on(self.device))?;
        Ok(active != 0)
    }

    fn retain(&self, symbols: &Symbols, operation: Operation) -> Result<Context> {
        let call = Call::new(operation, "cuDevicePrimaryCtxRetain").on(self.device);
        let _relaxed = CaptureScope::enter(symbols, operation)?;
        let mut context = ptr::null_mut();
        // SAFETY: `context` is writable; the handle is the driver's. The call makes nothing
        // current.
        let code = unsafe { (symbols.primary_ctx_retain)(&raw mut context, self.handle) };
        symbols.check(code, call)?;
        Ok(Context(context))
    }
}

/// A primary context that stays at least as long as this value.
#[derive(Debug)]
pub(crate) struct Borrowed<'a> {
    symbols: &'a Symbols,
    handle: CUdevice,
    context: Context,
    give_back: bool,
}

impl Borrowed<'_> {
    pub(crate) fn context(&self) -> Context {
        self.context
    }

    /// Whether the context is ours for the life of the process.
    pub(crate) fn is_kept(&self) -> bool {
        !self.give_back
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if self.give_back {
            // SAFETY: `borrow` retained the context once for this value. A failure leaves a
            // reference behind and nothing else; nobody could act on it.
            let _code = unsafe { (self.symbols.primary_ctx_release)(self.handle) };
        }
    }
}

/// Makes a context current in this thread until dropped. Costs one query where it is current
/// already, which is the caller's usual case.
#[derive(Debug)]
pub(crate) struct ContextScope<'a> {
    symbols: &'a Symbols,
    restore: Option<CUcontext>,
}

impl<'a> ContextScope<'a> {
    pub(crate) fn enter(
        symbols: &'a Symbols,
        context: Context,
        operation: Operation,
        device: Device,
    ) -> Result<Self> {
        let mut current = ptr::null_mut();
        // SAFETY: `current` is writable.
        let code = unsafe { (symbols.ctx_get_current)(&raw mut current) };
        symbols.check(code, Call::new(operation, "cuCtxGetCurrent").on(device))?;
        if current == context.raw() {
            return Ok(Self { symbols, restore: None });
        }
        // SAFETY: the context is retained for longer than this scope.
        let code = unsafe { (symbols.ctx_set_current)(context.raw()) };
        symbols.check(code, Call::new(operation, "cuCtxSetCurrent").on(device))?;
        Ok(Self { symbols, restore: Some(current) })
    }

    /// For calls that need no context of a certain device: makes `context` current only in a
    /// thread that has none. Where the driver refuses even that, the call itself is to say why:
    /// unmap and release must go through after a failure of the device.
    pub(crate) fn if_none(symbols: &'a Symbols, context: Option<Context>) -> Self {
        let mut current = ptr::null_mut();
        // SAFETY: `current` is writable.
        let code = unsafe { (symbols.ctx_get_current)(&raw mut current) };
        let mut scope = Self { symbols, restore: None };
        if code == SUCCESS
            && current.is_null()
            && let Some(context) = context
        {
            // SAFETY: the context is kept for the life of the process.
            let code = unsafe { (symbols.ctx_set_current)(context.raw()) };
            scope.restore = (code == SUCCESS).then_some(current);
        }
        scope
    }
}

impl Drop for ContextScope<'_> {
    fn drop(&mut self) {
        if let Some(previous) = self.restore {
            // SAFETY: `previous` was this thread's current context when the scope began, or null
            // for none. A failure means that the program destroyed it meanwhile.
            let _code = unsafe { (self.symbols.ctx_set_current)(previous) };
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
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32;
        // SAFETY: `mode` is writable and holds a mode; it comes back with the thread's own.
        let code = unsafe { (symbols.thread_exchange_stream_capture_mode)(&raw mut mode) };
        symbols.check(code, Call::new(operation, "cuThreadExchangeStreamCaptureMode"))?;
        Ok(Self { symbols, previous: mode, _thread: PhantomData })
    }
}

impl Drop for CaptureScope<'_> {
    fn drop(&mut self) {
        let exchange = self.symbols.thread_exchange_stream_capture_mode;
        // SAFETY: `previous` is writable and holds a mode that the driver gave us. The exchange
        // touches a field of this thread's and has no way to fail.
        let _code = unsafe { exchange(&raw mut self.previous) };
    }
}

/// Both scopes, for calls that need the owner's context and that a capture may forbid.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    _context: Option<ContextScope<'a>>,
    _relaxed: Option<CaptureScope<'a>>,
}

impl<'a> Scope<'a> {
    pub(crate) fn enter(
        symbols: &'a Symbols,
        context: Context,
        operation: Operation,
        device: Device,
    ) -> Result<Self> {
        Ok(Self {
            _context: Some(ContextScope::enter(symbols, context, operation, device)?),
            _relaxed: Some(CaptureScope::enter(symbols, operation)?),
        })
    }

    /// For calls that must be made in any case: as far as the driver lets us. Where it refuses,
    /// the call itself is to say why.
    pub(crate) fn if_possible(
        symbols: &'a Symbols,
        context: Context,
        operation: Operation,
        device: Device,
    ) -> Self {
        Self {
            _context: ContextScope::enter(symbols, context, operation, device).ok(),
            _relaxed: CaptureScope::enter(symbols, operation).ok(),
        }
    }
}
