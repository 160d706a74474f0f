//! Rows about physical memory.

use dormant_sim::machine::Code;

use super::*;

#[test]
fn create_takes_whole_granules_only() {
    let machine = machine();
    for bytes in [0, 6912, GRANULE + 1] {
        refuses(
            "create size 0; 6912; 2 MiB+1: INVALID_VALUE",
            machine.create(bytes, 0, PLAIN),
            Code::InvalidValue,
        );
    }
}

#[test]
fn create_beyond_the_device_is_out_of_memory() {
    let machine = machine();
    let row = "create more than the device has: OUT_OF_MEMORY";
    refuses(row, machine.create(CAPACITY + GRANULE, 0, PLAIN), Code::OutOfMemory);
    let most = succeeds("create all", machine.create(CAPACITY - GRANULE, 0, PLAIN));
    refuses(row, machine.create(2 * GRANULE, 0, PLAIN), Code::OutOfMemory);
    let rest = succeeds("create the rest", machine.create(GRANULE, 0, PLAIN));
    assert_eq!(free(&machine), 0);
    for handle in [most, rest] {
        succeeds("release", machine.release(handle));
    }
    assert_eq!(free(&machine), CAPACITY);
}

#[test]
fn created_memory_is_taken_before_it_is_mapped() {
    let machine = machine();
    let before = free(&machine);
    let resident = machine.resident_bytes(0).unwrap();
    let handle = succeeds("create", machine.create(64 * MIB, 0, PLAIN));
    let row = "create 1 GiB, not mapped: free falls by 1 GiB at once";
    assert_eq!(free(&machine), before - 64 * MIB, "{row}");
    assert_eq!(machine.resident_bytes(0).unwrap(), resident + 64 * MIB, "{row}");
    succeeds("release", machine.release(handle));
    assert_eq!(machine.resident_bytes(0).unwrap(), resident, "released memory is given back");
}

#[test]
fn a_handle_is_released_once() {
    let machine = machine();
    let row = "release; again; handle 0: SUCCESS; INVALID_VALUE; INVALID_VALUE";
    let handle = succeeds("create", machine.create(GRANULE, 0, PLAIN));
    succeeds(row, machine.release(handle));
    refuses(row, machine.release(handle), Code::InvalidValue);
    refuses(row, machine.release(0), Code::InvalidValue);
}

#[test]
fn a_handle_that_is_none_is_refused_where_the_real_driver_crashes() {
    let machine = machine();
    let row = "release of a made-up handle value; map of a released handle: SIGSEGV *";
    refuses(row, machine.release(0x1234_5678), Code::InvalidValue);
    let handle = succeeds("create", machine.create(GRANULE, 0, PLAIN));
    succeeds("release", machine.release(handle));
    let address = succeeds("reserve", machine.reserve(GRANULE, 0, 0));
    refuses(row, machine.map(address, GRANULE, 0, handle), Code::InvalidValue);
}

#[test]
fn handle_values_are_not_handed_out_again() {
    let machine = machine();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        let handle = succeeds("create", machine.create(GRANULE, 0, PLAIN));
        assert!(
            seen.insert(handle),
            "a released handle's value handed out again by the next create: not seen"
        );
        succeeds("release", machine.release(handle));
    }
}

#[test]
fn memory_released_while_mapped_stays_until_the_last_unmap() {
    let machine = machine();
    let before = free(&machine);
    let (handle, address) = block(&machine, 1);
    let row = "release while mapped: SUCCESS, free unchanged until the last unmap";
    succeeds(row, machine.release(handle));
    assert_eq!(free(&machine), before - GRANULE, "{row}");
    let row = "the memory stays usable";
    succeeds(row, machine.fill(address, 7, GRANULE));
    refuses("a second release is INVALID_VALUE", machine.release(handle), Code::InvalidValue);
    succeeds("unmap", machine.unmap(address, GRANULE));
    assert_eq!(free(&machine), before, "free rises with the last unmap");
}

#[test]
fn a_retained_handle_owes_one_more_release() {
    let machine = machine();
    let before = free(&machine);
    let (handle, address) = block(&machine, 1);
    let row = "retain_allocation_handle of a mapped address: the same value";
    let again = succeeds(row, machine.retain_allocation_handle(address + 100));
    assert_eq!(again, handle, "{row}");
    succeeds("unmap", machine.unmap(address, GRANULE));
    succeeds("release", machine.release(handle));
    let row = "one more release is owed; free rises only after it";
    assert_eq!(free(&machine), before - GRANULE, "{row}");
    succeeds(row, machine.release(handle));
    assert_eq!(free(&machine), before, "{row}");
    refuses("no more are owed", machine.release(handle), Code::InvalidValue);
}

#[test]
fn memory_is_exported_only_where_it_was_asked_for() {
    let machine = machine();
    let row = "export as fd without having asked for it at create; with: INVALID_VALUE; SUCCESS";
    let plain = succeeds("create", machine.create(GRANULE, 0, PLAIN));
    refuses(row, machine.export_fd(plain), Code::InvalidValue);
    let before = free(&machine);
    let handle = succeeds("create", machine.create(GRANULE, 0, PLAIN.exportable()));
    let exported = succeeds(row, machine.export_fd(handle));
    let duplicate = exported.try_clone().unwrap();
    let row = "release with an exported fd still open: SUCCESS, free rises when it is closed";
    succeeds(row, machine.release(handle));
    drop(exported);
    assert_eq!(free(&machine), before - GRANULE, "{row}");
    drop(duplicate);
    assert_eq!(free(&machine), before, "{row}");
}

#[test]
fn fabric_handles_are_not_permitted_and_rdma_is_there() {
    let machine = machine();
    refuses(
        "create with a fabric handle type, no IMEX channel: NOT_PERMITTED",
        machine.create(GRANULE, 0, PLAIN.fabric()),
        Code::NotPermitted,
    );
    succeeds("GPUDirect RDMA with VMM attribute: 1", machine.create(GRANULE, 0, PLAIN.rdma()));
    refuses("a device that is not there", machine.create(GRANULE, 9, PLAIN), Code::InvalidDevice);
}

#[test]
fn plain_allocations_are_not_virtual_memory() {
    let machine = machine();
    let row = "cudaMalloc(0); cudaFree(NULL); cudaFree(made-up); of a VMM address";
    assert_eq!(succeeds(row, machine.malloc(0)), 0, "{row}: success with NULL");
    succeeds(row, machine.free(0));
    refuses(row, machine.free(0x1234_5000), Code::InvalidValue);
    let (_, address) = block(&machine, 1);
    refuses(row, machine.free(address), Code::InvalidValue);

    let before = free(&machine);
    let plain = succeeds("cudaMalloc", machine.malloc(100));
    assert_eq!(free(&machine), before - GRANULE);
    succeeds("it is usable", machine.fill(plain, 1, 100));
    refuses("unmap of a cudaMalloc address", machine.unmap(plain, GRANULE), Code::InvalidValue);
    refuses(
        "address free of a cudaMalloc address",
        machine.address_free(plain, GRANULE),
        Code::InvalidValue,
    );
    succeeds("cudaFree", machine.free(plain));
    refuses("cudaFree again", machine.free(plain), Code::InvalidValue);
    assert_eq!(free(&machine), before);
}
