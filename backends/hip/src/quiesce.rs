//! Waiting until a device has no work of this process in flight.
//!
//! HIP has no event behind all streams of a device. A helper thread synchronises the device, which
//! cannot be called off; the caller stops waiting for it at the deadline. It is done also where
//! nobody seems to use the device: HIP's answer to that question
//! (`hipDevicePrimaryCtxGetState`) is about the calling thread, not the process.

use std::sync::Arc;

use allocator_core::call::Call;
use allocator_core::{Deadline, Device, Operation, Result};

use crate::Hip;
use crate::context::Scope;
use crate::loader::Symbols;

const OPERATION: Operation = Operation::Quiesce;

impl Hip {
    pub(crate) fn await_idle(&self, device: Device, deadline: Deadline) -> Result<()> {
        let rounds: &Arc<_> = &self.slot(device, OPERATION)?.rounds;
        let symbols = self.symbols;
        rounds.join(device, deadline, move || synchronize(&symbols, device))
    }
}

/// Synchronises a device, in a thread of ours.
fn synchronize(symbols: &Symbols, device: Device) -> Result<()> {
    let _scope = Scope::enter(symbols, device, OPERATION)?;
    // SAFETY: the call has no conditions; the device that it means is current.
    let code = unsafe { (symbols.device_synchronize)() };
    symbols.check(code, Call::new(OPERATION, "hipDeviceSynchronize").on(device))
}
