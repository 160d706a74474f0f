use super::*;

#[test]
fn access_reaches_every_piece() {
    let _leaks = Leaks::watch();
    let driver = Mock::new();
    let mut block = active(&driver);
    block.set_access(&[OWNER, PEER]).unwrap();
    assert_eq!(block.access(), [OWNER, PEER]);
    assert!(driver.mappings().iter().all(|piece| piece.access == [OWNER, PEER]));
    free_active(block);
}

#[test]
fn refused_access_leaves_the_block_with_what_it_had() {
    for nth in 1..=PIECES {
        let _leaks = Leaks::watch();
        let driver = Mock::new();
        let mut block = active(&driver);
        driver.fail(Operation::SetAccess, nth, ErrorKind::NotSupported);
        let error = block.set_access(&[OWNER, PEER]).unwrap_err();
        assert_eq!((error.kind(), block.access()), (ErrorKind::NotSupported, &[OWNER][..]));
        free_active(block);
    }
}

#[test]
fn access_without_the_owner_first_is_refused_before_any_driver_call() {
    let _leaks = Leaks::watch();
    let driver = Mock::new();
    let mut block = active(&driver);
    driver.forget_calls();
    for access in [&[][..], &[PEER], &[PEER, OWNER]] {
        assert_eq!(block.set_access(access).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert!(driver.calls().is_empty());
    assert_eq!(block.access(), [OWNER]);
    free_active(block);
}
