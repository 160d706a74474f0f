//! `Buffer`, and the process-wide engine, on the simulated device.
#![cfg(feature = "sim")]

use std::sync::Arc;
use std::time::{Duration, Instant};

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

#[test]
fn neither_a_read_nor_a_write_past_the_end_reaches_another_buffer() {
    let engine = engine();
    let a = Buffer::new(&engine, &wanted()).unwrap();
    let b = Buffer::new(&engine, &wanted()).unwrap();
    b.write(0, &[7; 16]).unwrap();
    let offset = b.address().0.wrapping_sub(a.address().0);
    let mut into = [0; 16];
    for error in [a.write(offset, &[0xEE; 16]), a.read(offset, &mut into)] {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    b.read(0, &mut into).unwrap();
    assert_eq!(into, [7; 16]);
}

#[test]
fn a_buffer_dropped_on_a_busy_device_is_freed_later() {
    let sim = Arc::new(dormant_sim::Sim::new(dormant_sim::SimConfig::new()).unwrap());
    let engine = Arc::new(Engine::<dormant_sim::Sim>::new(Arc::clone(&sim), Config::default()));
    let buffer = Buffer::new(&engine, &wanted()).unwrap();
    let stream = sim.open_user_stream(Device(0), false).unwrap();
    sim.launch(Device(0), stream, Duration::from_millis(800), |_| {}).unwrap();
    let begun = Instant::now();
    drop(buffer);
    assert!(begun.elapsed() < Duration::from_millis(700), "a drop does not wait for long");
    assert_eq!(engine.stats().deferred_frees, 1);
    sim.synchronize(Device(0), stream).unwrap();
    engine.pause("nothing", &PauseOptions::default()).unwrap();
    assert_eq!((engine.stats().deferred_frees, engine.blocks().len()), (0, 0));
}

#[test]
fn a_buffer_frees_its_own_block_alone() {
    let engine = engine();
    let buffer = Buffer::new(&engine, &wanted()).unwrap();
    let id = buffer.info().unwrap().id;
    let error = engine.free_block(buffer.address(), id + 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    engine.free_eventually(buffer.address(), id + 1);
    assert!(buffer.info().is_some());
    engine.free_block(buffer.address(), id).unwrap();
    assert!(buffer.info().is_none());
}
