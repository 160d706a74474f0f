//! Rows about two devices.

use std::time::Duration;

use dormant_sim::machine::Code;

use super::*;

#[test]
fn create_does_not_need_its_device_to_be_current() {
    let machine = machine();
    machine.set_current(Some(1)).unwrap();
    succeeds(
        "create on device 0 while device 1 is current: SUCCESS",
        machine.create(GRANULE, 0, PLAIN),
    );
    assert_eq!(free(&machine), CAPACITY, "device 1 is as free as before");
}

#[test]
fn a_copy_needs_the_owners_context() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    let on_zero = succeeds("stream", machine.stream_create(false));
    machine.set_current(Some(1)).unwrap();
    let on_one = succeeds("stream", machine.stream_create(false));
    let row = "copy from device 0's block (access for 0 only) with device 1 current, sync or on \
               device 1's stream: INVALID_VALUE";
    let mut host = [0_u8; 8];
    refuses(row, machine.copy_to_host(&mut host, address), Code::InvalidValue);
    for stream in [on_one, on_zero, 0] {
        // SAFETY: the bytes live to the end of the test, and nobody else uses them.
        let answer = unsafe { machine.copy_to_host_async(host.as_mut_ptr(), address, 8, stream) };
        refuses(row, answer, Code::InvalidValue);
    }
    succeeds("not sticky", machine.context_synchronize());
}

#[test]
fn a_kernel_on_a_device_without_access_is_a_sticky_illegal_address() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    machine.set_current(Some(1)).unwrap();
    let launched = machine.launch(0, Duration::ZERO, move |lane| {
        assert!(lane.read(address, &mut [0]).is_err());
    });
    succeeds("launch", launched);
    refuses(
        "a kernel on device 1 reads device 0's block that has access for 0 only: \
         ILLEGAL_ADDRESS, sticky, although the devices are peers",
        machine.context_synchronize(),
        Code::IllegalAddress,
    );
}

#[test]
fn a_kernel_on_a_device_with_access_works_without_enabling_peers() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    let row = "the same with access set for both devices, without cudaDeviceEnablePeerAccess: \
               works";
    succeeds(row, machine.set_access(address, GRANULE, &[(0, ALL), (1, ALL)]));
    machine.set_current(Some(1)).unwrap();
    let launched = machine.launch(0, Duration::ZERO, move |lane| {
        assert!(lane.fill(address, 4, GRANULE).is_ok());
    });
    succeeds("launch", launched);
    succeeds(row, machine.context_synchronize());
    let mut byte = [0];
    succeeds("the copy too", machine.copy_to_host(&mut byte, address + GRANULE - 1));
    assert_eq!(byte, [4], "{row}");
}

#[test]
fn peers_are_enabled_once_and_reach_plain_allocations() {
    let machine = machine();
    let plain = succeeds("cudaMalloc", machine.malloc(64));
    machine.set_current(Some(1)).unwrap();
    refuses("before", machine.fill(plain, 1, 64), Code::InvalidValue);
    succeeds("enable", machine.enable_peer(0));
    refuses("again", machine.enable_peer(0), Code::PeerAlreadyEnabled);
    refuses("itself", machine.enable_peer(1), Code::InvalidDevice);
    succeeds("after", machine.fill(plain, 1, 64));

    let machine = machine_with(config().peers(false));
    let (_, address) = block(&machine, 1);
    refuses("no peers", machine.enable_peer(1), Code::NotSupported);
    let answer = machine.set_access(address, GRANULE, &[(1, ALL)]);
    refuses("no peers", answer, Code::NotSupported);
    assert!(!machine.can_access_peer(0, 1).unwrap());
}

#[test]
fn the_current_device_is_the_threads_own() {
    let machine = machine();
    machine.set_current(Some(1)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(machine.current(), None);
            refuses("no current device", machine.mem_info(), Code::InvalidContext);
        });
    });
    assert_eq!(machine.current(), Some(1));
}
