use allocator_core::Driver;

fn misuse<D: Driver>(driver: &D, physical: D::Physical) {
    let _ = driver.release(physical);
    let _ = driver.release(physical);
}

fn main() {}
