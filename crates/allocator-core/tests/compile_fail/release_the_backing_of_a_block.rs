use allocator_core::{Backing, Device, Driver, PausedBlock};

fn misuse<D: Driver>(block: PausedBlock<D, ()>, backing: Backing<D>) {
    let _attached = block.attach(backing, [Device(0)]);
    let _ = backing.release();
}

fn main() {}
