use super::*;

#[test]
fn a_dropped_block_calls_no_driver_and_is_counted() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let handles = PIECES as u64;
    let (fresh, active, paused, attached) =
        (fresh(&driver), active(&driver), paused(&driver), attached(&driver));
    driver.forget_calls();
    drop(fresh);
    assert_eq!(leaks.since(), (1, 0));
    drop(active);
    assert_eq!(leaks.since(), (2, handles));
    drop(paused);
    assert_eq!(leaks.since(), (3, handles));
    drop(attached);
    assert_eq!(leaks.since(), (4, 2 * handles));
    assert!(driver.calls().is_empty());
}

#[test]
fn a_dropped_backing_calls_no_driver_and_is_counted() {
    let leaks = Leaks::watch();
    let driver = Mock::new();
    let backing = backing(&driver);
    driver.forget_calls();
    drop(backing);
    assert!(driver.calls().is_empty());
    assert_eq!(leaks.since(), (0, PIECES as u64));
}
