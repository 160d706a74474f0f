//! What holds after a call in which one driver call has failed.

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{Address, BlockState, Device, Result};

use crate::support::{Look, World};

/// Device memory that the failed call has cost.
pub(crate) type Lost = Vec<(Device, u64)>;

/// Where the failure is.
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) kind: ErrorKind,
    pub(crate) at: String,
}

#[track_caller]
fn expect_all(world: &World, wanted: BlockState, at: &str) {
    for block in &world.blocks {
        assert_eq!(world.state(block), Some(wanted), "{at}: {block:?}");
    }
}

/// Before its first detach a pause undoes itself; after it, it only rolls forward.
pub(crate) fn check_pause(
    world: &mut World,
    case: &Case,
    before: &Look,
    result: Result<()>,
) -> Lost {
    let at = &case.at;
    let after = world.look();
    let Err(error) = result else {
        expect_all(world, BlockState::Paused, at);
        return Lost::new();
    };
    let Some(report) = error.report() else {
        assert_eq!(after, *before, "{at}: refused, so all is as it was");
        let told = matches!(case.operation, Operation::Unmap);
        assert_eq!(error.failures().len(), usize::from(told), "{at}: {error}");
        return Lost::new();
    };
    let [failure] = error.failures() else { panic!("{at}: one block failed: {error}") };
    assert_eq!(failure.error.operation(), case.operation, "{at}: {error}");
    assert!(error.to_string().contains(&failure.address.to_string()), "{at}: {error}");
    let gone = matches!(case.operation, Operation::Release)
        || (case.operation == Operation::Vacate && case.kind != ErrorKind::AddressLost);
    let mut free = before.free.clone();
    let (mut lost, mut paused) = (Lost::new(), 0);
    for block in &world.blocks {
        let failed = block.address == failure.address;
        let wanted = match (failed, failure.poisoned) {
            (false, _) => BlockState::Paused,
            (true, false) => BlockState::Active,
            (true, true) => BlockState::Poisoned,
        };
        assert_eq!(world.state(block), Some(wanted), "{at}: {block:?}");
        if failed {
            assert_eq!((failure.tag.as_str(), failure.device), ("w", block.device), "{at}");
            assert_eq!(failure.bytes, block.bytes, "{at}");
        } else {
            paused += 1;
        }
        if wanted != BlockState::Active {
            world.expect_backup(block, at);
            if failed && gone {
                lost.push((block.device, block.physical_bytes));
            } else {
                free[usize::try_from(block.device.0).expect("few")] += block.physical_bytes;
            }
        }
    }
    assert_eq!(after.free, free, "{at}: free bytes after rolling forward");
    assert_eq!(report.moved().blocks, paused, "{at}: {report:?}");
    assert_eq!(report.poisoned().blocks, u64::from(failure.poisoned), "{at}: {report:?}");
    let written = error.to_string();
    let word = if failure.poisoned { "poisoned" } else { "as it was" };
    assert!(written.contains(word), "{at}: {written}");
    lost
}

/// All or nothing.
pub(crate) fn check_resume(
    world: &mut World,
    case: &Case,
    before: &Look,
    result: Result<()>,
) -> Lost {
    let at = &case.at;
    let after = world.look();
    match result {
        Ok(()) => expect_all(world, BlockState::Active, at),
        Err(error) => {
            assert_eq!(after, *before, "{at}: all sleep, as before");
            assert!(error.report().is_none() && error.failures().is_empty(), "{at}: {error}");
            world.blocks.iter().for_each(|block| world.expect_backup(block, at));
            if error.kind() == ErrorKind::OutOfMemory {
                assert!(error.wanted_bytes().is_some() && error.free_bytes().is_some(), "{at}");
            }
        }
    }
    Lost::new()
}

/// Nothing is left behind.
pub(crate) fn check_allocate(
    world: &mut World,
    case: &Case,
    before: &Look,
    result: Result<()>,
) -> Lost {
    if let Err(error) = result {
        assert_eq!(world.look(), *before, "{}: {error}", case.at);
    }
    Lost::new()
}

pub(crate) fn first(world: &World) -> Address {
    world.blocks[0].address
}

/// A whole block stays; of any other, the registry knows nothing more.
pub(crate) fn check_free(
    world: &mut World,
    case: &Case,
    before: &Look,
    result: Result<()>,
) -> Lost {
    let (at, address) = (&case.at, first(world));
    assert!(result.is_err(), "{at}");
    let whole = matches!(case.operation, Operation::Quiesce | Operation::Unmap);
    if whole {
        assert_eq!(world.look(), *before, "{at}: the block is as it was");
        world.sim.clear_failures();
        world.engine.free(address).unwrap_or_else(|error| panic!("{at}: later: {error}"));
    }
    assert!(world.engine.find(address).is_none(), "{at}: still there");
    let again = world.engine.free(address).expect_err("freed already");
    assert_eq!(again.kind(), ErrorKind::NotFound, "{at}: {again}");
    let block = world.blocks.remove(0);
    if case.operation == Operation::Release {
        return vec![(block.device, block.physical_bytes)];
    }
    assert_eq!(world.engine.stats().failed_frees, 0, "{at}: the caller was told");
    Lost::new()
}
