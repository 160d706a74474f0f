//! Lanes over the simulated device.

use std::sync::Arc;

use allocator_core::{
    ActiveBlock, Backing, Device, Driver, ErrorKind, Granularity, Operation, PausedBlock,
};
use dormant_host::{
    Batch, CHUNK_BYTES, DIRECT_BYTES, Lane, RestoreJob, STAGING_BYTES, SaveJob, Source, Target,
    checksum,
};
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
        sum: None,
    });
    lane.save(|| jobs.next().into_iter().collect()).expect("save")
}

fn restore(lane: &mut Lane<Sim>, block: &ActiveBlock<Sim>, from: &[u8]) -> u64 {
    let mut jobs = from.chunks(CHUNK_BYTES).enumerate().map(|(index, from)| RestoreJob {
        block,
        offset: index as u64 * CHUNK,
        from: from.into(),
        sum: None,
    });
    lane.restore(|| jobs.next().into_iter().collect()).expect("restore")
}

/// Saves these together.
fn save_batch<'a>(
    lane: &mut Lane<Sim>,
    jobs: impl IntoIterator<Item = SaveJob<'a, ActiveBlock<Sim>>>,
) -> allocator_core::Result<u64> {
    let mut batch: Batch<_> = jobs.into_iter().collect();
    lane.save(|| std::mem::take(&mut batch))
}

/// Restores these together.
fn restore_batch<'a>(
    lane: &mut Lane<Sim>,
    jobs: impl IntoIterator<Item = RestoreJob<'a, ActiveBlock<Sim>>>,
) -> allocator_core::Result<u64> {
    let mut batch: Batch<_> = jobs.into_iter().collect();
    lane.restore(|| std::mem::take(&mut batch))
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
        (&here, 0, STAGING_BYTES + 1),
    ] {
        let into = &mut vec![0; length][..];
        let mut job = Some(SaveJob { block, offset, into: into.into(), sum: None });
        let error = lane.save(|| job.take().into_iter().collect()).unwrap_err();
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
            sum: None,
        });
        let error = lane.save(|| jobs.next().into_iter().collect()).unwrap_err();
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
        let mut first =
            Some(SaveJob { block: &block, offset: 0, into: Target::Memory(&mut into), sum: None });
        let _ = lane.save(|| match first.take() {
            Some(job) => [job].into(),
            None => std::panic::resume_unwind(Box::new(())),
        });
    }));
    assert!(caught.is_err());
    block.free::<()>().unwrap();
    lane.close().unwrap();
    assert!(sim.memory(DEVICE).is_ok(), "the copy met memory that was gone");
}

#[test]
fn small_copies_go_together_and_a_batch_that_does_not_fit_is_refused() {
    let sim = sim(SimConfig::new());
    let mut lane = Lane::open(&sim, DEVICE).unwrap();
    let block = block(&sim, DEVICE, CHUNK);
    let source = bytes(CHUNK_BYTES);
    restore(&mut lane, &block, &source);
    let waits = sim.calls(Operation::Wait);
    let mut back = vec![0; 100 * 1000];
    let jobs = back.chunks_mut(1000).enumerate().map(|(index, into)| SaveJob {
        block: &block,
        offset: index as u64 * 1000,
        into: into.into(),
        sum: None,
    });
    assert_eq!(save_batch(&mut lane, jobs).unwrap(), 100 * 1000);
    assert_eq!(sim.calls(Operation::Wait) - waits, 1);
    assert!(back == source[..back.len()]);

    let parts = [&source[..], &source[..], &source[..1]];
    let jobs =
        parts.map(|from| RestoreJob { block: &block, offset: 0, from: from.into(), sum: None });
    let error = restore_batch(&mut lane, jobs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    lane.close().unwrap();
    block.free::<()>().unwrap();
}

#[test]
fn direct_copies_and_zeroes_need_no_staging_and_may_be_large() {
    let sim = sim(SimConfig::new());
    let mut lane = Lane::open(&sim, DEVICE).unwrap();
    let block = block(&sim, DEVICE, 18 << 20);
    let source = bytes(DIRECT_BYTES);
    let (zeroes, direct) = (Source::Zeroes(18 << 20), Source::Direct(&source));
    let jobs = [(0, zeroes), (5, direct)];
    let jobs = jobs.map(|(offset, from)| RestoreJob { block: &block, offset, from, sum: None });
    restore_batch(&mut lane, jobs).unwrap();
    let mut back = vec![1; DIRECT_BYTES];
    let into = Target::direct(&mut back);
    let copied = save_batch(&mut lane, [SaveJob { block: &block, offset: 5, into, sum: None }]);
    assert_eq!(copied.unwrap(), DIRECT_BYTES as u64);
    assert!(back == source);
    let mut ends = [1; 6];
    save(&mut lane, &block, &mut ends);
    assert_eq!(ends, [0, 0, 0, 0, 0, source[0]]);
    let mut large = vec![0; DIRECT_BYTES + 1];
    let into = Target::direct(&mut large);
    let copied = save_batch(&mut lane, [SaveJob { block: &block, offset: 0, into, sum: None }]);
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::InvalidArgument);
    lane.close().unwrap();
    block.free::<()>().unwrap();
}

#[test]
fn checksums_are_those_of_the_bytes_and_a_changed_byte_is_found_wherever_it_lies() {
    let sim = sim(SimConfig::new());
    let mut lane = Lane::open(&sim, DEVICE).unwrap();
    let block = block(&sim, DEVICE, CHUNK);
    let source = bytes(CHUNK_BYTES - 1);
    restore(&mut lane, &block, &source);
    let (mut staged, mut direct) = (vec![0; source.len()], vec![0; source.len()]);
    let (mut first, mut second) = (0, 0);
    let targets =
        [(Target::from(&mut staged[..]), &mut first), (Target::direct(&mut direct), &mut second)];
    for (into, sum) in targets {
        save_batch(&mut lane, [SaveJob { block: &block, offset: 0, into, sum: Some(sum) }])
            .unwrap();
    }
    assert_eq!([first, second], [checksum(&source); 2]);

    for at in [0, source.len() / 2, source.len() - 1] {
        for changed in [false, true] {
            staged[at] ^= u8::from(changed);
            for from in [Source::Memory(&staged), Source::Direct(&staged)] {
                let job = RestoreJob { block: &block, offset: 0, from, sum: Some(first) };
                match restore_batch(&mut lane, [job]) {
                    Ok(_) => assert!(!changed),
                    Err(error) => {
                        assert!(changed, "{error}");
                        assert_eq!(error.kind(), ErrorKind::ChecksumMismatch);
                        assert_eq!(error.address(), Some(block.address()));
                        assert!(
                            error.text().contains(&format!("0 to {}", source.len())),
                            "{error}"
                        );
                    }
                }
            }
        }
        staged[at] ^= 1;
    }
    lane.close().unwrap();
    block.free::<()>().unwrap();
}
