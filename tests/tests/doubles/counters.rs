//! What tests read from a stand-in.

use std::sync::Arc;

use allocator_core::{Device, Driver};
use dormant_cuda::Cuda;
use dormant_engine::{Allocation, Config, Engine, PauseOptions, Policy, ResumeOptions, Selection};
use dormant_hip::Hip;
use dormant_tests::doubles::{Double, Loaded};

const EIGHT: &str = "DORMANT_SIM_DEVICES=8;DORMANT_SIM_CAPACITY=64MiB";

fn cuda(double: &Loaded) -> Cuda {
    // SAFETY: a stand-in has no initialisers, and its functions are declared as the driver's.
    unsafe { Cuda::open_at(double.path()) }.expect("a driver")
}

/// What a rank does that uses one of the devices it sees.
fn use_one_device<D: Driver>(driver: D) {
    let engine = Engine::new(Arc::new(driver), Config::default());
    let allocation = Allocation::new(3 << 20, Device(5)).tag("w").policy(Policy::Host);
    let address = engine.allocate(&allocation).expect("allocation");
    engine.write(address, b"asleep").expect("write");
    engine.pause(Selection::All, &PauseOptions::default()).expect("pause");
    engine.resume(Selection::All, &ResumeOptions::default()).expect("resume");
    let mut back = [0; 6];
    engine.read(address, &mut back).expect("read");
    assert_eq!(&back, b"asleep");
    engine.free(address).expect("free");
}

#[test]
fn of_eight_devices_cuda_uses_the_one_that_holds_blocks() {
    let double = Loaded::new(Double::Cuda, EIGHT);
    let driver = cuda(&double);
    assert_eq!(driver.devices().expect("devices").len(), 8);
    assert_eq!(double.contexts_made(), 0, "nothing was used yet");
    use_one_device(driver);
    assert_eq!((double.contexts(), double.contexts_made()), (1, 1));
}

#[test]
fn of_eight_devices_hip_uses_the_one_that_holds_blocks() {
    let double = Loaded::new(Double::Hip, EIGHT);
    // SAFETY: as in `cuda`.
    let driver = unsafe { Hip::open_at(double.path()) }.expect("a driver");
    assert_eq!(driver.devices().expect("devices").len(), 8);
    assert_eq!(double.contexts_made(), 0, "nothing was used yet");
    use_one_device(driver);
    assert_eq!((double.contexts(), double.contexts_made()), (1, 1));
}

#[test]
fn calls_are_counted_by_name_and_copies_of_the_file_count_apart() {
    let one = Loaded::new(Double::Cuda, EIGHT);
    let other = Loaded::new(Double::Cuda, EIGHT);
    use_one_device(cuda(&one));
    // The block itself, twice: at first and at the resume.
    assert_eq!((one.calls("cuMemCreate"), one.calls("cuMemRelease")), (2, 2));
    assert_eq!((one.calls("cuMemMap"), one.calls("cuMemUnmap")), (2, 2));
    assert_eq!((one.calls("cuMemAddressReserve"), one.calls("cuMemAddressFree")), (1, 1));
    assert_eq!(other.calls("cuMemCreate"), 0);
    // SAFETY: this is the function's type, and it has no conditions.
    let reset: extern "C" fn() = unsafe { one.function("double_reset") };
    reset();
    assert_eq!(one.calls("cuMemCreate"), 0);
}

#[test]
fn the_library_of_this_process_is_not_taken_for_a_driver() {
    let double = Loaded::new(Double::Cuda, EIGHT);
    let opened = cuda(&double);
    let file = opened.info().library.expect("a file");
    assert!(file.contains("double_cuda"), "{file}");
    // Whoever looks for a real one finds that or none.
    if let Ok(real) = Cuda::open() {
        let file = real.info().library.unwrap_or_default();
        assert!(!file.contains("double_cuda"), "{file}");
    }
}
