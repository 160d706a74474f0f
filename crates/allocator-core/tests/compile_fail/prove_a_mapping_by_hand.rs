use std::sync::Arc;

use allocator_core::{Address, Device, Driver, Mapped};

struct Fake<D>(Arc<D>);

impl<D: Driver> Mapped for Fake<D> {
    type Driver = D;

    fn driver(&self) -> &Arc<D> {
        &self.0
    }

    fn address(&self) -> Address {
        Address(0)
    }

    fn mapped_bytes(&self) -> u64 {
        1
    }

    fn device(&self) -> Device {
        Device(0)
    }
}

fn main() {}
