use allocator_core::{AttachedBlock, Driver};

fn misuse<D: Driver>(mut block: AttachedBlock<D, ()>) {
    let _ = block.take_stash();
}

fn main() {}
