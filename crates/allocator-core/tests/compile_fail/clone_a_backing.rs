use allocator_core::{Backing, Driver};

fn misuse<D: Driver>(backing: Backing<D>) {
    let copy = backing.clone();
    let _ = backing.release();
    let _ = copy.release();
}

fn main() {}
