use super::*;

#[test]
fn when_a_piece_cannot_be_unmapped_those_before_it_are_mapped_again() {
    for nth in 1..=PIECES {
        let leaks = Leaks::watch();
        let driver = Mock::new();
        let mut block = active(&driver);
        block.set_access(&[OWNER, PEER]).unwrap();
        let before = driver.mappings();
        driver.fail(Operation::Unmap, nth, ErrorKind::Busy);
        let (block, spare, error) = unchanged(*block.detach(Some(STASH), true).unwrap_err());
        assert_eq!((error.kind(), spare), (ErrorKind::Busy, Some(STASH)));
        // The same handles at the same places, for the same devices.
        assert_eq!(driver.mappings(), before);
        assert_eq!(block.access(), [OWNER, PEER]);

        block.detach(spare, true).unwrap().free().unwrap();
        driver.assert_every_handle_released_once(PIECES);
        assert_eq!(leaks.since(), (0, 0));
    }
}

#[test]
fn when_they_cannot_be_mapped_again_the_block_is_poisoned_and_its_stash_readable() {
    for undoing in [Operation::Map, Operation::SetAccess] {
        let leaks = Leaks::watch();
        let driver = Mock::new();
        let block = active(&driver);
        driver.fail(Operation::Unmap, 3, ErrorKind::Busy);
        driver.fail(undoing, 2, ErrorKind::DeviceLost);
        let (remnant, error) = poisoned(*block.detach(Some(STASH), true).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(error.to_string().contains("device lost"), "{error}");
        assert_eq!((remnant.stash(), remnant.holds_addresses()), (Some(&STASH), true));
        assert_eq!(driver.count(Operation::Release), 0);
        assert_eq!(driver.count(Operation::Vacate), 0);
        assert_eq!(leaks.since(), (0, PIECES as u64));
        drop(remnant);
        assert_eq!(leaks.since(), (1, PIECES as u64));
    }
}

#[test]
fn when_a_release_fails_the_block_is_poisoned_and_every_handle_is_gone_once() {
    for nth in 1..=PIECES {
        let leaks = Leaks::watch();
        let driver = Mock::new();
        let block = active(&driver);
        driver.fail(Operation::Release, nth, ErrorKind::Unknown);
        let (remnant, error) = poisoned(*block.detach(Some(STASH), true).unwrap_err());
        assert_eq!(error.operation(), Operation::Release);
        assert_eq!((remnant.stash(), remnant.holds_addresses()), (Some(&STASH), true));
        driver.assert_every_handle_released_once(PIECES);
        assert_eq!((driver.count(Operation::Vacate), driver.mapped_pieces()), (0, 0));
        drop(remnant);
        assert_eq!(leaks.since(), (1, 0));
    }
}

#[test]
fn a_lost_address_poisons_the_block_and_is_not_a_leak_of_ours() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let block = active(&driver);
    let address = block.address();
    driver.fail(Operation::Vacate, 1, ErrorKind::AddressLost);
    let (remnant, error) = poisoned(*block.detach(Some(STASH), true).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::AddressLost);
    assert_eq!((remnant.stash(), remnant.address()), (Some(&STASH), address));
    assert!(!remnant.holds_addresses());
    drop(remnant);
    driver.assert_every_handle_released_once(PIECES);
    assert_eq!((driver.reserved_ranges(), leaks.since()), (0, (0, 0)));
}

#[test]
fn a_vacate_that_fails_otherwise_poisons_the_block_and_its_addresses_stay_held() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let block = active(&driver);
    driver.fail(Operation::Vacate, 1, ErrorKind::Unknown);
    let (remnant, _) = poisoned(*block.detach(Some(STASH), true).unwrap_err());
    assert_eq!((remnant.stash(), remnant.holds_addresses()), (Some(&STASH), true));
    drop(remnant);
    assert_eq!((driver.reserved_ranges(), leaks.since()), (1, (1, 0)));
}

#[test]
fn an_attached_block_that_cannot_be_unmapped_stays_attached_with_its_stash() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let block = attached(&driver);
    driver.fail(Operation::Unmap, 2, ErrorKind::Busy);
    let (block, (), error) = unchanged(*block.detach(false).unwrap_err());
    assert_eq!((error.kind(), block.stash()), (ErrorKind::Busy, Some(&STASH)));
    assert_eq!(driver.mapped_pieces(), PIECES);
    let (block, stash) = block.settle();
    assert_eq!((stash, block.access()), (Some(STASH), &[OWNER][..]));
    free_active(block);
    assert_eq!(leaks.since(), (0, 0));
}

#[test]
fn an_attached_block_that_is_poisoned_keeps_its_stash() {
    let _leaks = Leaks::watch();
    let driver = Mock::new();
    let block = attached(&driver);
    driver.fail(Operation::Release, 1, ErrorKind::Unknown);
    let (remnant, _) = poisoned(*block.detach(false).unwrap_err());
    assert_eq!(remnant.stash(), Some(&STASH));
}
