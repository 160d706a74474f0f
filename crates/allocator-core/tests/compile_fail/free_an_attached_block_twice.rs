use allocator_core::{AttachedBlock, Driver};

fn misuse<D: Driver>(block: AttachedBlock<D, ()>) {
    let _ = block.free();
    let _ = block.free();
}

fn main() {}
