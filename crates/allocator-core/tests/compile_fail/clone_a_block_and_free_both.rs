use allocator_core::{ActiveBlock, Driver};

fn misuse<D: Driver>(block: ActiveBlock<D>) {
    let copy = block.clone();
    let _ = block.free::<()>();
    let _ = copy.free::<()>();
}

fn main() {}
