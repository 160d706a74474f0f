//! `Buffer`, and the process-wide engine, on the simulated device.
#![cfg(feature = "sim")]

use std::sync::Arc;

use dormant::{
    Allocation, Backend, BlockState, Buffer, Config, Device, Engine, ErrorKind, PauseOptions,
    Policy, ResumeOptions, region,
};

fn engine() -> Arc<Engine> {
    let driver = dormant::open(Some(Backend::Sim)).expect("a simulated device");
    Arc::new(Engine::new(Arc::new(driver), Config::default()))
}

fn wanted() -> Allocation {
    Allocation::new(3 << 20, Device(0)).tag("w").policy(Policy::Host)
}

#[test]
fn a_dropped_buffer_is_freed_in_either_state() {
    let engine = engine();
    let active = Buffer::new(&engine, &wanted()).unwrap();
    let start = engine.memory(Device(0)).unwrap().free_bytes + (4 << 20);
    drop(active);
    assert_eq!(engine.memory(Device(0)).unwrap().free_bytes, start);
    let paused = Buffer::new(&engine, &wanted()).unwrap();
    engine.pause("w", &PauseOptions::default()).unwrap();
    assert_eq!(paused.info().unwrap().state, BlockState::Paused);
    drop(paused);
    engine.resume("w", &ResumeOptions::default()).unwrap();
    assert_eq!(engine.memory(Device(0)).unwrap().free_bytes, start);
    assert!(engine.blocks().is_empty());
}

#[test]
fn a_buffer_knows_its_size_tag_device_and_address() {
    let engine = engine();
    let _region = region::enter(region::Settings::new("outer", Policy::Zero));
    let buffer = Buffer::new(&engine, &Allocation::new(5, Device(1))).unwrap();
    assert_eq!((buffer.len(), buffer.is_empty()), (5, false));
    assert_eq!((buffer.tag().as_str(), buffer.device()), ("outer", Device(1)));
    assert_eq!(buffer.as_device_ptr() as usize as u64, buffer.address().0);
    assert_eq!(buffer.info().unwrap().policy, Policy::Zero);
    buffer.write(1, b"abc").unwrap();
    let mut back = [9; 5];
    buffer.read(0, &mut back).unwrap();
    assert_eq!(&back, b"\0abc\0");
    assert_eq!(buffer.write(3, b"abc").unwrap_err().kind(), ErrorKind::InvalidArgument);
    buffer.free().unwrap();
}

#[test]
fn a_free_by_hand_says_when_somebody_was_first() {
    let engine = engine();
    let buffer = Buffer::new(&engine, &wanted()).unwrap();
    engine.free(buffer.address()).unwrap();
    assert!(buffer.info().is_none());
    assert_eq!(buffer.free().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_name_that_no_backend_has_is_refused() {
    assert_eq!("cudda".parse::<Backend>().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(Backend::compiled_in().any(|backend| backend == Backend::Sim));
}
