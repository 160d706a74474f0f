use allocator_core::{Address, Driver, PausedBlock};

fn misuse<D: Driver>(block: PausedBlock<D, ()>) -> Address {
    let _ = block.free();
    block.address()
}

fn main() {}
