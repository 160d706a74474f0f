use allocator_core::{ActiveBlock, Driver};

fn misuse<D: Driver>(block: ActiveBlock<D>) {
    let _asleep = block.detach::<()>(None, false);
    let _ = block.free::<()>();
}

fn main() {}
