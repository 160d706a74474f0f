//! What a real CUDA driver (H200, driver 580.159, CUDA 13.0) was seen to answer, row by row. The
//! label of each assertion is the row. Rows with a star are those in which the real driver is lax
//! or crashes, and the simulated one is strict.
//!
//! Sizes are smaller than they were on the device; the granularity is the same, 2 MiB.

mod capture;
mod devices;
mod mapping;
mod physical;
mod ranges;
mod sticky;
mod work;

use allocator_core::Access;
use dormant_sim::machine::{Answer, Code, CreateFlags, Machine};
use dormant_sim::{Fault, SimConfig};

const MIB: u64 = 1 << 20;
const GRANULE: u64 = 2 * MIB;
const CAPACITY: u64 = 256 * MIB;
const ALL: Access = Access::READ.union(Access::WRITE);
const PLAIN: CreateFlags = CreateFlags::new();

fn config() -> SimConfig {
    SimConfig::new().devices(2).capacity_bytes(CAPACITY)
}

/// A machine with contexts on both devices, the first one current.
fn machine() -> Machine {
    machine_with(config())
}

fn machine_with(config: SimConfig) -> Machine {
    let machine = Machine::new(config).expect("the machine can be built");
    for device in 0..machine.device_count() {
        machine.context_retain(device).expect("the device is there");
    }
    machine.set_current(Some(0)).expect("the device is there");
    machine
}

#[track_caller]
fn succeeds<T>(row: &str, answer: Answer<T>) -> T {
    match answer {
        Ok(value) => value,
        Err(refusal) => panic!("{row}: {refusal}, but the real driver says SUCCESS"),
    }
}

#[track_caller]
fn refuses<T>(row: &str, answer: Answer<T>, code: Code) {
    match answer {
        Ok(_) => panic!("{row}: SUCCESS, but {code} was wanted"),
        Err(refusal) => assert_eq!(refusal.code, code, "{row}: {refusal}"),
    }
}

fn free(machine: &Machine) -> u64 {
    machine.mem_info().expect("memory can be asked").0
}

/// A block of `granules`, mapped and accessible to device 0: handle and address.
fn block(machine: &Machine, granules: u64) -> (u64, u64) {
    let bytes = granules * GRANULE;
    let address = machine.reserve(bytes, 0, 0).expect("there are addresses");
    let handle = machine.create(bytes, 0, PLAIN).expect("there is memory");
    machine.map(address, bytes, 0, handle).expect("it can be mapped");
    machine.set_access(address, bytes, &[(0, ALL)]).expect("it can be made accessible");
    (handle, address)
}

/// Makes the error sticky: a kernel writes to memory that is not mapped.
fn poison(machine: &Machine) {
    let address = machine.reserve(GRANULE, 0, 0).expect("there are addresses");
    let stream = machine.stream_create(false).expect("a stream can be made");
    machine
        .launch(stream, std::time::Duration::ZERO, move |lane| {
            assert!(lane.write(address, &[1]).is_err());
        })
        .expect("a kernel can be launched");
    let answer = machine.stream_synchronize(stream);
    assert_eq!(answer.expect_err("the kernel fails").code, Code::IllegalAddress);
}

#[test]
fn known_faults_are_acted_out() {
    let machine = machine_with(config().fault(Fault::KeepUntilUnreserved));
    let before = free(&machine);
    let (handle, address) = block(&machine, 1);
    succeeds("unmap", machine.unmap(address, GRANULE));
    succeeds("release", machine.release(handle));
    assert_eq!(free(&machine), before - GRANULE, "memory stays with the range");
    succeeds("address free", machine.address_free(address, GRANULE));
    assert_eq!(free(&machine), before, "until the range is unreserved");

    let machine = machine_with(config().fault(Fault::NoJoinedUnmap));
    let range = succeeds("reserve", machine.reserve(2 * GRANULE, 0, 0));
    for offset in [0, GRANULE] {
        let handle = succeeds("create", machine.create(GRANULE, 0, PLAIN));
        succeeds("map", machine.map(range + offset, GRANULE, 0, handle));
    }
    refuses("joined unmap", machine.unmap(range, 2 * GRANULE), Code::InvalidValue);
    succeeds("single unmap", machine.unmap(range, GRANULE));
    succeeds("single unmap", machine.unmap(range + GRANULE, GRANULE));

    let machine = machine_with(config().fault(Fault::MaxPiece(GRANULE)));
    refuses("a larger piece", machine.create(2 * GRANULE, 0, PLAIN), Code::OutOfMemory);
    succeeds("a small piece", machine.create(GRANULE, 0, PLAIN));

    let machine = machine_with(config().fault(Fault::AddressLost));
    let address = succeeds("reserve", machine.reserve(GRANULE, 0, 0));
    succeeds("address free", machine.address_free(address, GRANULE));
    assert_ne!(succeeds("reserve", machine.reserve(GRANULE, 0, address)), address);

    let machine = machine_with(config().fault(Fault::RefuseHostRegistration));
    let mut host = [0_u8; 8];
    // SAFETY: the bytes live to the end of the test.
    let answer = unsafe { machine.host_register(host.as_mut_ptr(), 8) };
    refuses("host register", answer, Code::OperatingSystem);
}
