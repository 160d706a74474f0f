use super::*;

#[test]
fn when_unmapping_is_refused_the_block_is_as_it_was_and_can_be_freed_later() {
    for nth in 1..=PIECES {
        let leaks = Leaks::watch();
        let driver = Mock::new();
        let block = active(&driver);
        driver.fail(Operation::Unmap, nth, ErrorKind::Busy);
        let (block, (), _) = unchanged(*block.free::<()>().unwrap_err());
        assert_eq!(driver.mapped_pieces(), PIECES);
        free_active(block);
        driver.assert_every_handle_released_once(PIECES);
        assert_eq!(leaks.since(), (0, 0));
    }
}

#[test]
fn an_attached_block_whose_unmapping_is_refused_can_be_freed_later() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let block = attached(&driver);
    driver.fail(Operation::Unmap, 2, ErrorKind::Busy);
    let (block, (), _) = unchanged(*block.free().unwrap_err());
    free_active(block);
    driver.assert_every_handle_released_once(2 * PIECES);
    assert_eq!(leaks.since(), (0, 0));
}

#[test]
fn when_a_release_fails_the_addresses_stay_held() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let block = active(&driver);
    driver.fail(Operation::Release, 2, ErrorKind::Unknown);
    let (remnant, _) = poisoned(*block.free::<()>().unwrap_err());
    assert!(remnant.holds_addresses());
    assert_eq!(driver.count(Operation::Unreserve), 0);
    drop(remnant);
    driver.assert_every_handle_released_once(PIECES);
    assert_eq!(leaks.since(), (1, 0));
}

#[test]
fn when_the_addresses_are_not_taken_back_the_memory_is_gone_and_the_range_a_leak() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let block = active(&driver);
    let address = block.address();
    driver.fail(Operation::Unreserve, 1, ErrorKind::Unknown);
    let (remnant, error) = poisoned(*block.free::<()>().unwrap_err());
    assert_eq!((error.operation(), remnant.address()), (Operation::Unreserve, address));
    drop(remnant);
    driver.assert_every_handle_released_once(PIECES);
    assert_eq!((driver.reserved_ranges(), leaks.since()), (1, (1, 0)));

    driver.fail(Operation::Unreserve, 1, ErrorKind::Unknown);
    assert_eq!(paused(&driver).free().unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!((driver.reserved_ranges(), leaks.since()), (2, (2, 0)));
}
