use super::*;

#[test]
fn a_block_keeps_its_address_and_loses_its_memory_while_it_sleeps() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let block = fresh(&driver);
    let address = block.address();
    assert_eq!((block.bytes(), block.physical_bytes()), (BYTES - 1, BYTES));
    assert_eq!((block.stash(), driver.live_handles()), (None, 0));

    let attached = wake(block, &driver);
    assert_eq!((attached.address(), attached.mapped_bytes()), (address, BYTES));
    let (block, stash) = attached.settle();
    assert_eq!((stash, block.access()), (None, &[OWNER][..]));
    assert_eq!((driver.live_handles(), driver.mapped_pieces()), (PIECES, PIECES));

    let block = block.detach(Some(STASH), false).unwrap();
    assert_eq!((driver.live_handles(), driver.mapped_pieces()), (0, 0));
    assert_eq!((block.address(), block.stash()), (address, Some(&STASH)));

    let attached = wake(block, &driver);
    assert_eq!((attached.address(), attached.stash()), (address, Some(&STASH)));
    let (block, stash) = attached.settle();
    assert_eq!((block.address(), stash), (address, Some(STASH)));
    free_active(block);
    driver.assert_every_handle_released_once(2 * PIECES);
    assert_eq!((driver.reserved_ranges(), leaks.since()), (0, (0, 0)));
}

#[test]
fn a_free_from_each_state_releases_each_handle_once() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    fresh(&driver).free().unwrap();
    driver.assert_every_handle_released_once(0);
    free_active(active(&driver));
    driver.assert_every_handle_released_once(PIECES);
    paused(&driver).free().unwrap();
    driver.assert_every_handle_released_once(2 * PIECES);
    attached(&driver).free().unwrap();
    driver.assert_every_handle_released_once(4 * PIECES);
    assert_eq!((driver.mapped_pieces(), driver.reserved_ranges()), (0, 0));
    assert_eq!(leaks.since(), (0, 0));
}

#[test]
fn a_free_unmaps_then_releases_then_unreserves() {
    let _leaks = Leaks::watch();
    let driver = Mock::new();
    let block = active(&driver);
    driver.forget_calls();
    free_active(block);
    let mut order = vec![Operation::Unmap; PIECES];
    order.extend([Operation::Release; PIECES]);
    order.push(Operation::Unreserve);
    assert_eq!(driver.calls(), order);
}

#[test]
fn only_a_pause_vacates_and_only_when_told() {
    let _leaks = Leaks::watch();
    let driver = Mock::new();
    free_active(active(&driver));
    paused(&driver).free().unwrap();
    attached(&driver).free().unwrap();
    assert_eq!(driver.count(Operation::Vacate), 0);
    let block = active(&driver).detach(Some(STASH), true).unwrap();
    assert_eq!(driver.count(Operation::Vacate), 1);
    wake(block, &driver).detach(true).unwrap().free().unwrap();
    assert_eq!(driver.count(Operation::Vacate), 2);
}

#[test]
fn an_attach_can_be_taken_back_and_keeps_the_stash() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let mut block = attached(&driver).detach(false).unwrap();
    assert_eq!((block.stash(), driver.live_handles()), (Some(&STASH), 0));
    assert_eq!((block.take_stash(), block.stash()), (Some(STASH), None));
    block.free().unwrap();
    driver.assert_every_handle_released_once(2 * PIECES);
    assert_eq!(leaks.since(), (0, 0));
}

#[test]
fn the_last_piece_of_a_backing_may_be_shorter() {
    let _leaks = Leaks::watch();
    let driver = Mock::new();
    let backing = Backing::create(&driver, OWNER, BYTES, 2 * GRANULE).unwrap();
    assert_eq!((backing.handles(), backing.bytes()), (2, BYTES));
    let (block, _) = fresh(&driver).attach(backing, [OWNER]).unwrap().settle();
    assert_eq!(driver.mapped_pieces(), 2);
    free_active(block);
    driver.assert_every_handle_released_once(2);
}
