//! Lanes over the simulated device.

use std::sync::Arc;

use allocator_core::{
    ActiveBlock, Backing, Device, Driver, ErrorKind, Granularity, Operation, PausedBlock,
};
use dormant_host::{CHUNK_BYTES, Lane, RestoreJob, SaveJob, Target};
use dormant_sim::{Fault, Sim, SimConfig};

const DEVICE: Device = Device(0);
const CHUNK: u64 = CHUNK_BYTES as u64;

fn sim(config: SimConfig) -> Arc<Sim> {
    Arc::new(Sim::new(config.capacity_bytes(64 << 20)).expect("a simulated device"))
}

fn block(sim: &Arc<Sim>, device: Device, bytes: u64) -> ActiveBlock<Sim> {
    let granularity = Granularity::new(2 << 20).expect("a power of two");
    let block: PausedBlock<Sim, ()> =
        PausedBlock::reserve(sim, device, bytes, granularity).expect("reserve");
    let size = block.physical_bytes();
    let backing = Backing::create(sim, device, size, size).expect("create");
    block.attach(backing, [device]).expect("attach").settle().0
}

/// Every byte of a block in order, through jobs of at most a chunk.
fn save(lane: &mut Lane<Sim>, block: &ActiveBlock<Sim>, into: &mut [u8]) -> u64 {
    let mut jobs = into.chunks_mut(CHUNK_BYTES).enumerate().map(|(index, into)| SaveJob {
        block,
        offset: index as u64 * CHUNK,
        into: into.into(),
    });
    lane.save(|| jobs.next()).expect("save")
}

fn restore(lane: &mut Lane<Sim>, block: &ActiveBlock<Sim>, from: &[u8]) -> u64 {
    let mut jobs = from.chunks(CHUNK_BYTES).enumerate().map(|(index, from)| RestoreJob {
        block,
        offset: index as u64 * CHUNK,
        from: from.into(),
    });
    lane.restore(|| jobs.next()).expect("restore")
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|index| u8::try_from(index * 7 % 251).expect("below 251")).collect()
}

#[test]
fn bytes_go_there_and_back_at_every_number_of_chunks() {
    let sim = sim(SimConfig::new());
    let mut lane = Lane::open(&sim, DEVICE).unwrap();
    let block = block(&sim, DEVICE, 7 * CHUNK);
    for length in [1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 6 * CHUNK_BYTES + 99] {
        let source = bytes(length);
        assert_eq!(restore(&mut lane, &block, &source), length as u64);
        let mut back = vec![0; length];
        assert_eq!(save(&mut lane, &block, &mut back), length as u64);
        assert!(back == source, "{length} bytes");
    }
    lane.fill(&block, 5, 0xAB).unwrap();
    let mut back = vec![0; 8];
    save(&mut lane, &block, &mut back);
    assert_eq!(back[..5], [0xAB; 5]);
    assert_eq!(back[5..], bytes(8)[5..]);
    lane.close().unwrap();
    assert_eq!((sim.registered_bytes(), sim.registrations()), (0, 0));
    block.free::<()>().unwrap();
}

#[test]
fn a_job_outside_its_block_or_on_another_device_is_refused() {
    let sim = sim(SimConfig::new().devices(2));
    let mut lane = Lane::open(&sim, DEVICE).unwrap();
    let here = block(&sim, DEVICE, CHUNK);
    let there = block(&sim, Device(1), CHUNK);
    for (block, offset, length) in [
        (&here, CHUNK - 15, 16),
        (&here, u64::MAX, 16),
        (&there, 0, 16),
        (&here, 0, CHUNK_BYTES + 1),
    ] {
        let into = &mut vec![0; length][..];
        let mut job = Some(SaveJob { block, offset, into: into.into() });
        let error = lane.save(|| job.take()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(lane.fill(&here, CHUNK + 1, 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    lane.close().unwrap();
    here.free::<()>().unwrap();
    there.free::<()>().unwrap();
}

#[test]
fn a_failed_copy_is_reported_and_the_lane_is_usable_afterwards() {
    let sim = sim(SimConfig::new());
    let mut lane = Lane::open(&sim, DEVICE).unwrap();
    let block = block(&sim, DEVICE, 4 * CHUNK);
    let source = bytes(4 * CHUNK_BYTES);
    restore(&mut lane, &block, &source);
    for (operation, nth) in [(Operation::Read, 3), (Operation::Wait, 2)] {
        sim.fail_nth(operation, nth, ErrorKind::Unknown);
        let mut into = vec![0; 4 * CHUNK_BYTES];
        let mut jobs = into.chunks_mut(CHUNK_BYTES).enumerate().map(|(index, into)| SaveJob {
            block: &block,
            offset: index as u64 * CHUNK,
            into: into.into(),
        });
        let error = lane.save(|| jobs.next()).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Unknown, operation));
        let mut back = vec![0; source.len()];
        save(&mut lane, &block, &mut back);
        assert!(back == source, "after a failed {operation}");
    }
    lane.close().unwrap();
    block.free::<()>().unwrap();
}

#[test]
fn without_registration_copies_still_work() {
    let sim = sim(SimConfig::new().fault(Fault::RefuseHostRegistration));
    let mut lane = Lane::open(&sim, DEVICE).unwrap();
    assert!(!lane.is_registered());
    let block = block(&sim, DEVICE, 3 * CHUNK);
    let source = bytes(3 * CHUNK_BYTES);
    restore(&mut lane, &block, &source);
    let mut back = vec![0; source.len()];
    save(&mut lane, &block, &mut back);
    assert!(back == source);
    lane.close().unwrap();
    block.free::<()>().unwrap();
}

#[test]
fn a_lane_that_cannot_be_opened_leaves_nothing_behind() {
    let sim = sim(SimConfig::new());
    for nth in [1, 2] {
        sim.fail_nth(Operation::OpenStream, nth, ErrorKind::OutOfMemory);
        let error = Lane::open(&sim, DEVICE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    }
    assert_eq!(sim.calls(Operation::OpenStream), 3);
    assert_eq!(sim.calls(Operation::CloseStream), 1);
    assert_eq!(sim.registrations(), 0);
}

#[test]
fn a_dropped_lane_calls_no_driver_and_keeps_what_the_device_may_know() {
    let sim = sim(SimConfig::new());
    let lane = Lane::open(&sim, DEVICE).unwrap();
    drop(lane);
    assert_eq!(sim.calls(Operation::UnregisterHost), 0);
    assert_eq!(sim.calls(Operation::CloseStream), 0);
    assert_eq!(sim.registrations(), 1);
    assert!(sim.memory(DEVICE).is_ok());
}

#[test]
fn no_copy_is_in_flight_after_a_caller_that_panicked() {
    let slow = SimConfig::new().link_bytes_per_second(Some(8 << 20));
    let sim = sim(slow);
    let mut lane = Lane::open(&sim, DEVICE).unwrap();
    let block = block(&sim, DEVICE, CHUNK);
    let mut into = vec![0; CHUNK_BYTES];
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut first = Some(SaveJob { block: &block, offset: 0, into: Target::Memory(&mut into) });
        let _ = lane.save(|| first.take().or_else(|| std::panic::resume_unwind(Box::new(()))));
    }));
    assert!(caught.is_err());
    block.free::<()>().unwrap();
    lane.close().unwrap();
    assert!(sim.memory(DEVICE).is_ok(), "the copy met memory that was gone");
}
