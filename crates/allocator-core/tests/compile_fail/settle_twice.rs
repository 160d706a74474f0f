use allocator_core::{AttachedBlock, Driver};

fn misuse<D: Driver>(block: AttachedBlock<D, ()>) {
    let _ = block.settle();
    let _ = block.settle();
}

fn main() {}
