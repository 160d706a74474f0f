use allocator_core::{ActiveBlock, Driver};

fn misuse<D: Driver>(block: ActiveBlock<D>) {
    let _ = block.detach::<()>(None, false);
    let _ = block.detach::<()>(None, false);
}

fn main() {}
