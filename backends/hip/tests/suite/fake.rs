//! Builds `fake.c` and looks into it.

use std::ops::Deref;

use dormant_hip::Hip;

use crate::stand_in::StandIn;
pub(crate) use crate::stand_in::compile;

/// One runtime library of its own file, hence with its own state.
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

    pub(crate) fn open(&self) -> Hip {
        self.try_open().expect("the stand-in opens")
    }

    pub(crate) fn try_open(&self) -> allocator_core::Result<Hip> {
        // SAFETY: `fake.c` has no initialisers, and its functions are declared as the runtime's.
        unsafe { Hip::open_at(self.path()) }
    }

    /// The calling thread's current device.
    pub(crate) fn current(&self) -> i32 {
        let mut device = -1;
        // SAFETY: the function has this type in `fake.c`.
        let ask = unsafe { self.function::<unsafe extern "C" fn(*mut i32) -> i32>("hipGetDevice") };
        // SAFETY: `device` is writable.
        assert_eq!(unsafe { ask(&raw mut device) }, 0);
        device
    }

    /// Makes a device current in the calling thread, as a program would.
    pub(crate) fn enter(&self, device: i32) {
        // SAFETY: the function has this type in `fake.c`.
        let set = unsafe { self.function::<unsafe extern "C" fn(i32) -> i32>("hipSetDevice") };
        // SAFETY: any number may be given.
        assert_eq!(unsafe { set(device) }, 0);
    }

    /// The calling thread's last error, which stays.
    pub(crate) fn last_error(&self) -> i32 {
        // SAFETY: the function has this type in `fake.c`.
        let peek = unsafe { self.function::<unsafe extern "C" fn() -> i32>("hipPeekAtLastError") };
        // SAFETY: the call has no conditions.
        unsafe { peek() }
    }

    /// The calling thread's capture mode; sets another.
    pub(crate) fn exchange_mode(&self, mode: u32) -> u32 {
        self.exchange("hipThreadExchangeStreamCaptureMode", mode)
    }

    /// Fails unless every range and handle was given back.
    #[track_caller]
    pub(crate) fn expect_nothing_left(&self) {
        assert_eq!(self.get("reserves"), self.get("frees"), "ranges");
        assert_eq!(self.get("creates"), self.get("handle_releases"), "handles");
        assert_eq!(self.get("handle_bytes_mib"), 0);
    }
}
