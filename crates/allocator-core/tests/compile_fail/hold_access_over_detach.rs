use allocator_core::{ActiveBlock, Driver};

fn misuse<D: Driver>(block: ActiveBlock<D>) {
    let access = block.access();
    let _asleep = block.detach::<()>(None, false);
    let _ = access.len();
}

fn main() {}
