//! Handles and streams of one machine, given to another whose own have the same numbers.

use std::ptr::NonNull;

use super::*;

#[test]
fn physical_memory_of_another_machine_is_refused() {
    let (theirs, ours) = (sim(), sim());
    let mine = ours.create(ZERO, GRANULE).unwrap();
    let foreign = theirs.create(ZERO, GRANULE).unwrap();
    assert_eq!(mine.handle(), foreign.handle());
    let range = ours.reserve(ZERO, GRANULE).unwrap();
    // SAFETY: the call is refused.
    let mapped = unsafe { ours.map(&range, 0, &foreign) };
    let message = fails(mapped, ErrorKind::InvalidArgument);
    assert!(message.contains("another machine"), "{message}");
    fails(ours.release(foreign), ErrorKind::InvalidArgument);
    assert_eq!(free(&ours, ZERO), CAPACITY - GRANULE);
    ours.release(mine).unwrap();
    assert_eq!(free(&ours, ZERO), CAPACITY);
    assert_eq!(ours.machine().counts().mappings, 0);
    // SAFETY: nothing is mapped in it.
    unsafe { ours.unreserve(range) }.unwrap();
}

#[test]
fn streams_of_another_machine_are_refused() {
    let (theirs, ours) = (sim(), sim());
    let mine = ours.open_stream(ZERO).unwrap();
    let foreign = theirs.open_stream(ZERO).unwrap();
    assert_eq!(mine.handle(), foreign.handle());
    let block = active(&ours, GRANULE);
    let at = block.address();
    let mut host = [7_u8; 8];
    let bytes = NonNull::from(&mut host).cast();
    // SAFETY: the call is refused.
    fails(unsafe { ours.read(&foreign, at, bytes, 8) }, ErrorKind::InvalidArgument);
    // SAFETY: the call is refused.
    fails(unsafe { ours.write(&foreign, at, bytes, 8) }, ErrorKind::InvalidArgument);
    // SAFETY: the call is refused.
    fails(unsafe { ours.fill(&foreign, at, 1, 8) }, ErrorKind::InvalidArgument);
    fails(ours.wait(&foreign), ErrorKind::InvalidArgument);
    fails(ours.close_stream(foreign), ErrorKind::InvalidArgument);
    ours.wait(&mine).unwrap();
    ours.close_stream(mine).unwrap();
    assert_eq!(host, [7; 8]);
    assert_eq!(ours.peek(at, 8).unwrap(), [0; 8]);
    block.free::<Stash>().unwrap();
}
