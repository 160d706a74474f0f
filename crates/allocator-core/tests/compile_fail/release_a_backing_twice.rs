use allocator_core::{Backing, Driver};

fn misuse<D: Driver>(backing: Backing<D>) {
    let _ = backing.release();
    let _ = backing.release();
}

fn main() {}
