use allocator_core::{Driver, Range};

fn misuse<D: Driver>(driver: &D, range: &Range, physical: &D::Physical) {
    let _ = driver.map(range, 0, physical);
}

fn main() {}
