//! Builds `fake.c` and looks into it.

use std::ops::Deref;

use dormant_cuda::Cuda;

use crate::stand_in::StandIn;
pub(crate) use crate::stand_in::compile;

/// One driver library of its own file, hence with its own state.
pub(crate) struct Fake(StandIn);

impl Deref for Fake {
    type Target = StandIn;

    fn deref(&self) -> &StandIn {
        &self.0
    }
}

impl Fake {
    /// Builds the library; `defines` leave functions out.
    pub(crate) fn build(defines: &[&str]) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/fake.c");
        Self(StandIn::build(source, defines))
    }

    pub(crate) fn open(&self) -> Cuda {
        self.try_open().expect("the stand-in opens")
    }

    pub(crate) fn try_open(&self) -> allocator_core::Result<Cuda> {
        // SAFETY: `fake.c` has no initialisers, and its functions are declared as the driver's.
        unsafe { Cuda::open_at(self.path()) }
    }

    /// The calling thread's current context.
    pub(crate) fn current(&self) -> usize {
        let mut context = 0;
        // SAFETY: the function has this type in `fake.c`.
        let ask =
            unsafe { self.function::<unsafe extern "C" fn(*mut usize) -> i32>("cuCtxGetCurrent") };
        // SAFETY: `context` is writable.
        assert_eq!(unsafe { ask(&raw mut context) }, 0);
        context
    }

    /// Makes a device's context current in the calling thread, as a program would.
    pub(crate) fn enter(&self, device: i32) -> usize {
        type Retain = unsafe extern "C" fn(*mut usize, i32) -> i32;
        let mut context = 0;
        // SAFETY: the function has this type in `fake.c`.
        let retain = unsafe { self.function::<Retain>("cuDevicePrimaryCtxRetain") };
        // SAFETY: `context` is writable.
        assert_eq!(unsafe { retain(&raw mut context, device) }, 0);
        // SAFETY: the function has this type in `fake.c`.
        let set = unsafe { self.function::<unsafe extern "C" fn(usize) -> i32>("cuCtxSetCurrent") };
        // SAFETY: the context was retained above.
        assert_eq!(unsafe { set(context) }, 0);
        self.set("retains", 0);
        self.set("not_relaxed", 0);
        context
    }

    /// The calling thread's capture mode; sets another.
    pub(crate) fn exchange_mode(&self, mode: u32) -> u32 {
        self.exchange("cuThreadExchangeStreamCaptureMode", mode)
    }
}
