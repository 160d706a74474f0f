//! Every way in which a block's or a backing's transition can fail, over a driver that keeps
//! books of each handle and fails when told to.

mod mock;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator_core::{
    AttachedBlock, Backing, Block, Device, ErrorKind, Mapped, Operation, PausedBlock, Remnant,
    Stuck, leaked_handles, leaked_ranges,
};
use mock::{GRANULE, Mock, granularity};

type Active = allocator_core::ActiveBlock<Mock>;
type Paused = PausedBlock<Mock, &'static str>;
type Attached = AttachedBlock<Mock, &'static str>;

const OWNER: Device = Device(0);
const PEER: Device = Device(1);
const PIECES: usize = 3;
const BYTES: u64 = 3 * GRANULE;
const STASH: &str = "the only copy";

/// The leak counters belong to the process, so one test at a time.
struct Leaks {
    ranges: u64,
    handles: u64,
    _turn: MutexGuard<'static, ()>,
}

impl Leaks {
    fn watch() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self { ranges: leaked_ranges(), handles: leaked_handles(), _turn: turn }
    }

    /// Ranges and handles leaked since.
    fn since(&self) -> (u64, u64) {
        (leaked_ranges() - self.ranges, leaked_handles() - self.handles)
    }
}

fn fresh(driver: &Arc<Mock>) -> Paused {
    Block::reserve(driver, OWNER, BYTES - 1, granularity()).expect("reserve")
}

fn backing(driver: &Arc<Mock>) -> Backing<Mock> {
    Backing::create(driver, OWNER, BYTES, GRANULE).expect("create")
}

fn wake(block: Paused, driver: &Arc<Mock>) -> Attached {
    block.attach(backing(driver), [OWNER]).expect("attach")
}

fn active(driver: &Arc<Mock>) -> Active {
    wake(fresh(driver), driver).settle().0
}

fn paused(driver: &Arc<Mock>) -> Paused {
    active(driver).detach(Some(STASH), false).expect("detach")
}

fn attached(driver: &Arc<Mock>) -> Attached {
    wake(paused(driver), driver)
}

fn free_active(block: Active) {
    block.free::<()>().expect("free");
}

#[track_caller]
fn poisoned<B, K, X>(stuck: Stuck<B, K, X>) -> (Remnant<K>, allocator_core::Error) {
    match stuck {
        Stuck::Poisoned { remnant, error } => (remnant, error),
        Stuck::Unchanged { error, .. } => panic!("unchanged, not poisoned: {error}"),
    }
}

#[track_caller]
fn unchanged<B, K, X>(stuck: Stuck<B, K, X>) -> (B, X, allocator_core::Error) {
    match stuck {
        Stuck::Unchanged { block, spare, error } => (block, spare, error),
        Stuck::Poisoned { error, .. } => panic!("poisoned, not unchanged: {error}"),
    }
}

mod the_legal_way {
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
}

mod creating {
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
}

mod attaching {
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
}

mod detaching {
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
}

mod freeing {
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
}

mod giving_access {
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
}

mod dropping {
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
}
