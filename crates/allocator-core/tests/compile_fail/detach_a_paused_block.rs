use allocator_core::{Driver, PausedBlock};

fn misuse<D: Driver>(block: PausedBlock<D, ()>) {
    let _ = block.detach(None, false);
}

fn main() {}
