use super::*;

/// A block and its backing come back from a failed attach as they went in, and a second try
/// works.
#[track_caller]
fn assert_comes_back_and_works_later(operation: Operation, nth: usize) {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let block = paused(&driver);
    let address = block.address();
    driver.fail(operation, nth, ErrorKind::OutOfMemory);
    let stuck = block.attach(backing(&driver), [OWNER]).expect_err("told to fail");
    let (block, spare, error) = unchanged(*stuck);
    assert_eq!((error.kind(), error.operation()), (ErrorKind::OutOfMemory, operation));
    assert_eq!((block.address(), block.stash()), (address, Some(&STASH)));
    assert_eq!((spare.handles(), driver.mapped_pieces()), (PIECES, 0));

    let attached = block.attach(spare, [OWNER]).expect("the second try");
    assert_eq!(driver.mapped_pieces(), PIECES);
    attached.free().expect("free");
    driver.assert_every_handle_released_once(2 * PIECES);
    assert_eq!(leaks.since(), (0, 0));
}

#[test]
fn when_a_piece_cannot_be_mapped_those_before_it_are_unmapped() {
    for nth in 1..=PIECES {
        assert_comes_back_and_works_later(Operation::Map, nth);
    }
}

#[test]
fn when_access_cannot_be_given_all_pieces_are_unmapped() {
    for nth in 1..=PIECES {
        assert_comes_back_and_works_later(Operation::SetAccess, nth);
    }
}

#[test]
fn when_undoing_it_fails_too_the_block_is_poisoned_and_its_stash_readable() {
    // (what fails, the how manieth, which unmap of the undoing fails)
    for (operation, nth, unmap) in [
        (Operation::Map, 2, 1),
        (Operation::Map, 3, 2),
        (Operation::SetAccess, 1, 1),
        (Operation::SetAccess, 3, 3),
    ] {
        let leaks = Leaks::watch();
        let driver = Mock::new();
        let block = paused(&driver);
        let address = block.address();
        let released = driver.count(Operation::Release);
        driver.fail(operation, nth, ErrorKind::Unknown);
        driver.fail(Operation::Unmap, unmap, ErrorKind::DeviceLost);
        let stuck = block.attach(backing(&driver), [OWNER]).unwrap_err();
        let (remnant, error) = poisoned(*stuck);
        assert_eq!(error.kind(), ErrorKind::Unknown);
        assert!(error.to_string().contains("device lost in unmap"), "{error}");
        assert_eq!(remnant.stash(), Some(&STASH));
        assert_eq!((remnant.address(), remnant.device()), (address, OWNER));
        assert!(remnant.bytes() == BYTES - 1 && remnant.holds_addresses());

        // The handles may be mapped still: never released, counted instead.
        assert_eq!(driver.count(Operation::Release), released);
        assert_eq!(leaks.since(), (0, PIECES as u64));
        drop(remnant);
        assert_eq!(leaks.since(), (1, PIECES as u64));
    }
}

#[test]
fn memory_that_does_not_fit_is_refused_before_any_driver_call() {
    let leaks = Leaks::watch();
    let (driver, other) = (Mock::new(), Mock::new());
    let mut block = paused(&driver);
    let misfits = [
        (Backing::create(&driver, OWNER, 2 * BYTES, GRANULE).unwrap(), &[OWNER][..]),
        (Backing::create(&driver, PEER, BYTES, GRANULE).unwrap(), &[OWNER]),
        (backing(&other), &[OWNER]),
        (backing(&driver), &[]),
        (backing(&driver), &[PEER, OWNER]),
    ];
    for (misfit, access) in misfits {
        driver.forget_calls();
        let (back, spare, error) = unchanged(*block.attach(misfit, access).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(back.stash(), Some(&STASH));
        assert!(driver.calls().is_empty());
        spare.release().unwrap();
        block = back;
    }
    block.free().unwrap();
    assert_eq!(leaks.since(), (0, 0));
}
