use allocator_core::{ActiveBlock, Backing, Device, Driver};

fn misuse<D: Driver>(block: ActiveBlock<D>, backing: Backing<D>) {
    let _ = block.attach(backing, [Device(0)]);
}

fn main() {}
