use allocator_core::{Backing, Device, Driver, PausedBlock};

fn misuse<D: Driver>(one: PausedBlock<D, ()>, two: PausedBlock<D, ()>, backing: Backing<D>) {
    let _ = one.attach(backing, [Device(0)]);
    let _ = two.attach(backing, [Device(0)]);
}

fn main() {}
