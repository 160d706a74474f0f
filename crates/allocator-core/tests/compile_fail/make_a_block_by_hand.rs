use allocator_core::{Block, Driver, Paused, PausedBlock, Range};

fn misuse<D: Driver>(
    driver: std::sync::Arc<D>,
    range: Range,
    state: Paused<()>,
) -> PausedBlock<D, ()> {
    Block { driver, range, bytes: 1, state }
}

fn main() {}
