use allocator_core::{AttachedBlock, Backing, Device, Driver};

fn misuse<D: Driver>(block: AttachedBlock<D, ()>, backing: Backing<D>) {
    let _ = block.attach(backing, [Device(0)]);
}

fn main() {}
