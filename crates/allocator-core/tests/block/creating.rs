use super::*;

#[test]
fn when_a_handle_cannot_be_made_those_before_it_are_released() {
    for nth in 1..=PIECES {
        let leaks = Leaks::watch();
        let driver = Mock::new();
        driver.fail(Operation::Create, nth, ErrorKind::OutOfMemory);
        let error = Backing::create(&driver, OWNER, BYTES, GRANULE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        driver.assert_every_handle_released_once(nth - 1);
        assert_eq!(leaks.since(), (0, 0));
    }
}

#[test]
fn when_their_release_fails_as_well_the_error_is_the_first_and_says_so() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    driver.fail(Operation::Create, 3, ErrorKind::OutOfMemory);
    driver.fail(Operation::Release, 1, ErrorKind::DeviceLost);
    let error = Backing::create(&driver, OWNER, BYTES, GRANULE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("device lost in release"), "{error}");
    driver.assert_every_handle_released_once(2);
    assert_eq!(leaks.since(), (0, 0));
}

#[test]
fn a_release_that_fails_still_releases_the_rest() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let backing = backing(&driver);
    driver.fail(Operation::Release, 1, ErrorKind::Unknown);
    driver.fail(Operation::Release, 2, ErrorKind::DeviceLost);
    assert_eq!(backing.release().unwrap_err().kind(), ErrorKind::Unknown);
    driver.assert_every_handle_released_once(PIECES);
    assert_eq!(leaks.since(), (0, 0));
}

#[test]
fn nothing_of_no_bytes_is_made() {
    let _leaks = Leaks::watch();
    let driver = Mock::new();
    for (bytes, piece_bytes) in [(0, GRANULE), (GRANULE, 0)] {
        let error = Backing::create(&driver, OWNER, bytes, piece_bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let error = Paused::reserve(&driver, OWNER, 0, granularity()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(driver.calls().is_empty());
}

#[test]
fn a_refused_reservation_leaks_nothing() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    driver.fail(Operation::Reserve, 1, ErrorKind::OutOfMemory);
    let error = Paused::reserve(&driver, OWNER, BYTES, granularity()).unwrap_err();
    assert_eq!((error.kind(), leaks.since()), (ErrorKind::OutOfMemory, (0, 0)));
}
