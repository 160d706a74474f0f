use allocator_core::{Driver, Range};

fn misuse<D: Driver>(driver: &D, range: Range) {
    // SAFETY: none; the second call must not compile.
    unsafe {
        let _ = driver.unreserve(range);
        let _ = driver.unreserve(range);
    }
}

fn main() {}
