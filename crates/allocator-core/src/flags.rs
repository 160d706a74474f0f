//! Flag types.

use std::fmt;

bitflags::bitflags! {
    /// How a device may use a mapping.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u32 {
        /// Loads.
        const READ = 1;
        /// Stores.
        const WRITE = 1 << 1;
    }

    /// What a device and its driver offer, and the quirks that were found by asking.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Capabilities: u32 {
        /// Virtual memory management: reserve, create, map. Without it there is no block.
        const VIRTUAL_MEMORY = 1;
        /// Physical memory can be made with the GPUDirect RDMA flag, and is.
        const RDMA = 1 << 1;
        /// All streams of a context can be polled for completion; else a quiesce holds a helper
        /// thread until the device is idle.
        const POLLED_QUIESCE = 1 << 2;
        /// Physical memory stays with the reserved range after unmap and release, so that a
        /// pause must also [`vacate`](crate::Driver::vacate) the range (ROCm 7.2).
        const KEEPS_UNTIL_UNRESERVED = 1 << 3;
        /// The host needs an access descriptor of its own before it may read device memory
        /// through a large BAR (HIP 7.2).
        const HOST_ACCESS_NEEDED = 1 << 4;
        /// Asking for [`KEEPS_UNTIL_UNRESERVED`](Self::KEEPS_UNTIL_UNRESERVED) gave no clear
        /// answer, because other processes moved the readings or memory was short. It is then
        /// taken to be so: a vacate that was not needed costs little, and memory that stays is
        /// what a pause is there to give back.
        const QUIRKS_IN_DOUBT = 1 << 5;
        /// One unmap over several mappings does not work (ROCm 6). For information: pieces
        /// are always unmapped as they were mapped.
        const NO_JOINED_UNMAP = 1 << 6;
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (name, _) in self.iter_names() {
            if !first {
                f.write_str(" ")?;
            }
            first = false;
            f.write_str(&name.to_ascii_lowercase())?;
        }
        Ok(())
    }
}
