use allocator_core::{Driver, PausedBlock};

fn misuse<D: Driver>(block: PausedBlock<D, ()>) {
    let _ = block.free();
    let _ = block.free();
}

fn main() {}
