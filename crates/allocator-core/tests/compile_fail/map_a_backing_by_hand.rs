use allocator_core::{Backing, Device, Driver, Range};

fn misuse<D: Driver>(backing: &Backing<D>, range: &Range) {
    // SAFETY: none; only a block may map.
    let _ = unsafe { backing.map(range, &[Device(0)]) };
}

fn main() {}
