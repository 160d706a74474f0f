use allocator_core::{Driver, Mapped, PausedBlock};

fn copy<M: Mapped>(_block: &M) {}

fn misuse<D: Driver>(block: &PausedBlock<D, ()>) {
    copy(block);
}

fn main() {}
