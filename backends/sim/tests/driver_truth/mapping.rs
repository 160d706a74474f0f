//! Rows about mapping, access and unmapping.

use dormant_sim::machine::Code;

use super::*;

#[test]
fn a_mapping_lies_in_a_range_on_free_addresses() {
    let machine = machine();
    let (_, taken) = block(&machine, 1);
    let range = succeeds("reserve", machine.reserve(2 * GRANULE, 0, 0));
    let handle = succeeds("create", machine.create(GRANULE, 0, PLAIN));
    let row = "map outside any range; unaligned; handle 0; on top of a mapping: INVALID_VALUE";
    refuses(row, machine.map(GRANULE, GRANULE, 0, handle), Code::InvalidValue);
    refuses(row, machine.map(range + 4096, GRANULE, 0, handle), Code::InvalidValue);
    refuses(row, machine.map(range, GRANULE, 0, 0), Code::InvalidValue);
    refuses(row, machine.map(taken, GRANULE, 0, handle), Code::InvalidValue);
}

#[test]
fn a_handle_is_mapped_whole() {
    let machine = machine();
    let range = succeeds("reserve", machine.reserve(4 * GRANULE, 0, 0));
    let handle = succeeds("create", machine.create(2 * GRANULE, 0, PLAIN));
    let row = "map less or more than the handle, or with an offset into it: NOT_SUPPORTED";
    refuses(row, machine.map(range, GRANULE, 0, handle), Code::NotSupported);
    refuses(row, machine.map(range, 4 * GRANULE, 0, handle), Code::NotSupported);
    refuses(row, machine.map(range, GRANULE, GRANULE, handle), Code::NotSupported);
    succeeds("map whole", machine.map(range, 2 * GRANULE, 0, handle));
}

#[test]
fn a_mapping_past_the_end_of_the_range_is_refused() {
    let machine = machine();
    let range = succeeds("reserve", machine.reserve(2 * GRANULE, 0, 0));
    let handle = succeeds("create", machine.create(2 * GRANULE, 0, PLAIN));
    refuses(
        "map past the end of the reserved range: SUCCESS * (a trap)",
        machine.map(range + GRANULE, 2 * GRANULE, 0, handle),
        Code::InvalidValue,
    );
}

#[test]
fn one_handle_can_be_mapped_at_two_places() {
    let machine = machine();
    let before = free(&machine);
    let (handle, first) = block(&machine, 1);
    let second = succeeds("reserve", machine.reserve(GRANULE, 0, 0));
    let row = "map one handle at two places: SUCCESS";
    succeeds(row, machine.map(second, GRANULE, 0, handle));
    succeeds("set access", machine.set_access(second, GRANULE, &[(0, ALL)]));
    succeeds("write at one", machine.copy_to_device(first, b"same"));
    let mut seen = [0; 4];
    succeeds("read at the other", machine.copy_to_host(&mut seen, second));
    assert_eq!(&seen, b"same");
    let row = "memory goes back after both unmaps and the release";
    succeeds(row, machine.unmap(first, GRANULE));
    succeeds(row, machine.release(handle));
    assert_eq!(free(&machine), before - GRANULE, "{row}");
    succeeds(row, machine.unmap(second, GRANULE));
    assert_eq!(free(&machine), before, "{row}");
}

#[test]
fn access_is_set_for_whole_mappings_and_devices_that_are_there() {
    let machine = machine();
    let range = succeeds("reserve", machine.reserve(4 * GRANULE, 0, 0));
    let row = "set access on an unmapped, partly mapped or half a mapping; device that is not \
               there; count 0: INVALID_VALUE";
    refuses(row, machine.set_access(range, GRANULE, &[(0, ALL)]), Code::InvalidValue);
    let handle = succeeds("create", machine.create(2 * GRANULE, 0, PLAIN));
    succeeds("map", machine.map(range, 2 * GRANULE, 0, handle));
    refuses(row, machine.set_access(range, 4 * GRANULE, &[(0, ALL)]), Code::InvalidValue);
    refuses(row, machine.set_access(range, GRANULE, &[(0, ALL)]), Code::InvalidValue);
    refuses(row, machine.set_access(range + GRANULE, GRANULE, &[(0, ALL)]), Code::InvalidValue);
    refuses(row, machine.set_access(range, 2 * GRANULE, &[(7, ALL)]), Code::InvalidValue);
    refuses(row, machine.set_access(range, 2 * GRANULE, &[]), Code::InvalidValue);
}

#[test]
fn access_can_be_set_again_read_only_and_to_nothing() {
    let machine = machine();
    let (_, address) = block(&machine, 1);
    let row = "set access twice; read only; none: SUCCESS";
    succeeds(row, machine.set_access(address, GRANULE, &[(0, ALL)]));
    succeeds(row, machine.set_access(address, GRANULE, &[(0, Access::READ)]));
    assert_eq!(succeeds(row, machine.access(address, 0)), Access::READ);
    let mut byte = [0];
    succeeds("read", machine.copy_to_host(&mut byte, address));
    refuses("write", machine.copy_to_device(address, &[1]), Code::InvalidValue);
    succeeds(row, machine.set_access(address, GRANULE, &[(0, Access::empty())]));
    refuses("read", machine.copy_to_host(&mut byte, address), Code::InvalidValue);
    refuses("nothing mapped", machine.access(address + GRANULE, 0), Code::InvalidValue);
}

#[test]
fn one_call_reaches_over_two_whole_mappings() {
    let machine = machine();
    let range = succeeds("reserve", machine.reserve(2 * GRANULE, 0, 0));
    for offset in [0, GRANULE] {
        let handle = succeeds("create", machine.create(GRANULE, 0, PLAIN));
        succeeds("map", machine.map(range + offset, GRANULE, 0, handle));
        succeeds("release", machine.release(handle));
    }
    succeeds(
        "one set access over two adjoining mappings: SUCCESS",
        machine.set_access(range, 2 * GRANULE, &[(0, ALL)]),
    );
    succeeds("a fill over both", machine.fill(range, 3, 2 * GRANULE));
    succeeds("one unmap over two whole mappings: SUCCESS", machine.unmap(range, 2 * GRANULE));
    assert_eq!(free(&machine), CAPACITY);
}

#[test]
fn mappings_are_unmapped_whole() {
    let machine = machine();
    let range = succeeds("reserve", machine.reserve(4 * GRANULE, 0, 0));
    for offset in [0, 2 * GRANULE] {
        let handle = succeeds("create", machine.create(2 * GRANULE, 0, PLAIN));
        succeeds("map", machine.map(range + offset, 2 * GRANULE, 0, handle));
    }
    let row = "unmap half a mapping; across the border of two mappings; an address never \
               reserved: INVALID_VALUE";
    refuses(row, machine.unmap(range, GRANULE), Code::InvalidValue);
    refuses(row, machine.unmap(range + GRANULE, GRANULE), Code::InvalidValue);
    refuses(row, machine.unmap(range + GRANULE, 2 * GRANULE), Code::InvalidValue);
    refuses(row, machine.unmap(GRANULE, GRANULE), Code::InvalidValue);
    succeeds("whole", machine.unmap(range, 2 * GRANULE));
}

#[test]
fn an_unmap_of_nothing_is_refused_when_strict() {
    let row = "unmap of a reserved range with nothing mapped, or mapped and then nothing: \
               SUCCESS * (strict mode: an error)";
    for strict in [true, false] {
        let machine = machine_with(config().strict(strict));
        let empty = succeeds("reserve", machine.reserve(GRANULE, 0, 0));
        let (_, used) = block(&machine, 1);
        succeeds("unmap", machine.unmap(used, GRANULE));
        for address in [empty, used] {
            let answer = machine.unmap(address, GRANULE);
            if strict {
                refuses(row, answer, Code::InvalidValue);
            } else {
                succeeds(row, answer);
            }
        }
        let row = "an address never reserved: INVALID_VALUE, strict or not";
        refuses(row, machine.unmap(GRANULE, GRANULE), Code::InvalidValue);
    }
}
