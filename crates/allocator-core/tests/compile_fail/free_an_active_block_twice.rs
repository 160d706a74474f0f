use allocator_core::{ActiveBlock, Driver};

fn misuse<D: Driver>(block: ActiveBlock<D>) {
    let _ = block.free::<()>();
    let _ = block.free::<()>();
}

fn main() {}
