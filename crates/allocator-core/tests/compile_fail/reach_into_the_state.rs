use allocator_core::{ActiveBlock, Driver};

fn misuse<D: Driver>(block: ActiveBlock<D>) {
    let _ = block.state.backing.release();
}

fn main() {}
