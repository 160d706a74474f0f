//! Rows about ranges of addresses.

use dormant_sim::machine::Code;

use super::*;

#[test]
fn ranges_come_in_whole_granules() {
    let machine = machine();
    let row = "reserve 0; 4 KiB; 6912; 2 MiB+4 KiB; alignment 3 MiB: INVALID_VALUE";
    for bytes in [0, 4096, 6912, GRANULE + 4096] {
        refuses(row, machine.reserve(bytes, 0, 0), Code::InvalidValue);
    }
    refuses(row, machine.reserve(GRANULE, 3 * MIB, 0), Code::InvalidValue);
    let aligned = succeeds("alignment 64 MiB", machine.reserve(GRANULE, 64 * MIB, 0));
    assert!(aligned.is_multiple_of(64 * MIB));
}

#[test]
fn a_hint_is_honoured_when_it_is_free() {
    let machine = machine();
    let first = succeeds("reserve", machine.reserve(2 * GRANULE, 0, 0));
    let row = "reserve with a hint that is taken: SUCCESS, another address";
    let second = succeeds(row, machine.reserve(2 * GRANULE, 0, first));
    assert_ne!(first, second, "{row}");
    succeeds("address free", machine.address_free(first, 2 * GRANULE));
    let row = "reserve with the address just freed as the hint: the same address";
    let again = succeeds(row, machine.reserve(2 * GRANULE, 0, first));
    assert_eq!(again, first, "{row}");
}

#[test]
fn a_range_is_freed_whole_and_once_and_empty() {
    let machine = machine();
    let (_, mapped) = block(&machine, 1);
    let range = succeeds("reserve", machine.reserve(2 * GRANULE, 0, 0));
    let row = "address free half of a range; whole; again; while something is mapped";
    refuses(row, machine.address_free(range, GRANULE), Code::InvalidValue);
    refuses(row, machine.address_free(range + GRANULE, GRANULE), Code::InvalidValue);
    succeeds(row, machine.address_free(range, 2 * GRANULE));
    refuses(row, machine.address_free(range, 2 * GRANULE), Code::InvalidValue);
    refuses(row, machine.address_free(mapped, GRANULE), Code::InvalidValue);
}

#[test]
fn an_address_range_query_gives_the_one_mapping() {
    let machine = machine();
    let range = succeeds("reserve", machine.reserve(4 * GRANULE, 0, 0));
    let row = "address range query inside two joined mappings: the one mapping, not the range";
    for (offset, bytes) in [(0, GRANULE), (GRANULE, 2 * GRANULE)] {
        let handle = succeeds("create", machine.create(bytes, 0, PLAIN));
        succeeds("map", machine.map(range + offset, bytes, 0, handle));
    }
    let found = succeeds(row, machine.address_range(range + 2 * GRANULE + 5));
    assert_eq!(found, (range + GRANULE, 2 * GRANULE), "{row}");
    assert_eq!(machine.reserved_range(range + 5), Some((range, 4 * GRANULE)));
    refuses("unmapped", machine.address_range(range + 3 * GRANULE), Code::InvalidValue);
}

#[test]
fn reserved_memory_has_no_pointer_attribute_and_no_legacy_handle() {
    let machine = machine();
    let range = succeeds("reserve", machine.reserve(GRANULE, 0, 0));
    refuses(
        "pointer attribute of reserved, unmapped memory: INVALID_VALUE",
        machine.pointer_device(range),
        Code::InvalidValue,
    );
    let (_, address) = block(&machine, 1);
    assert_eq!(succeeds("pointer attribute", machine.pointer_device(address)), 0);
    refuses(
        "legacy IPC handle of VMM memory: INVALID_VALUE",
        machine.ipc_handle(address),
        Code::InvalidValue,
    );
}
