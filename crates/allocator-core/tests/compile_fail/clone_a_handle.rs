use allocator_core::Driver;

fn misuse<D: Driver>(driver: &D, physical: D::Physical) {
    let copy = physical.clone();
    let _ = driver.release(physical);
    let _ = driver.release(copy);
}

fn main() {}
