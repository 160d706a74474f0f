//! One failure, at each call of each operation that a transition makes.

use std::collections::BTreeSet;

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{Address, BlockState, Error, Policy, Result};
use dormant_sim::{Fault, SimConfig};

use crate::support::{Look, ONE, OPERATIONS, World, ZERO, small};

/// A transition to be failed.
struct Scenario {
    name: &'static str,
    config: fn() -> SimConfig,
    prepare: fn(&mut World),
    act: fn(&mut World) -> Result<()>,
    check: fn(&mut World, &Case, &Look, Result<()>) -> Lost,
    /// Operations that it makes for certain; the dry run must find them.
    makes: &'static [Operation],
    /// Operations that it can do without.
    tolerates: &'static [Operation],
}

/// Device memory that the failed call has cost.
type Lost = Vec<(dormant_engine::Device, u64)>;

/// Where the failure is.
struct Case {
    operation: Operation,
    kind: ErrorKind,
    at: String,
}

fn kinds(operation: Operation) -> &'static [ErrorKind] {
    match operation {
        Operation::Quiesce => &[ErrorKind::Busy, ErrorKind::Unknown],
        Operation::Create => &[ErrorKind::OutOfMemory, ErrorKind::Unknown],
        Operation::Vacate => &[ErrorKind::AddressLost, ErrorKind::Unknown],
        _ => &[ErrorKind::Unknown],
    }
}

fn ready(scenario: &Scenario) -> World {
    let mut world = World::new((scenario.config)());
    (scenario.prepare)(&mut world);
    // Closes the streams, so that the transition opens its own.
    world.engine.trim();
    world
}

#[track_caller]
fn fail_every_call(scenario: &Scenario) {
    let mut seen = BTreeSet::new();
    for operation in OPERATIONS {
        let calls = {
            let mut world = ready(scenario);
            let before = world.sim.calls(operation);
            (scenario.act)(&mut world).expect("the dry run");
            world.sim.calls(operation) - before
        };
        for n in 1..=calls {
            seen.insert(operation);
            for &kind in kinds(operation) {
                let at = format!("{}: {operation}, call {n}, {kind}", scenario.name);
                fail_one(scenario, n, &Case { operation, kind, at });
            }
        }
    }
    let missed: Vec<_> = scenario.makes.iter().filter(|made| !seen.contains(made)).collect();
    assert!(missed.is_empty(), "{} makes no call of {missed:?}", scenario.name);
}

#[track_caller]
fn fail_one(scenario: &Scenario, n: u64, case: &Case) {
    let mut world = ready(scenario);
    let before = world.look();
    world.sim.fail_nth(case.operation, n, case.kind);
    let result = (scenario.act)(&mut world);
    assert_eq!(world.sim.armed_failures(), 0, "{}: it was never reached", case.at);
    match &result {
        Ok(()) => assert!(scenario.tolerates.contains(&case.operation), "{}: Ok", case.at),
        Err(error) => {
            assert_eq!(error.kind(), case.kind, "{}: {error}", case.at);
            assert_eq!(error.cause().operation(), case.operation, "{}: {error}", case.at);
        }
    }
    let lost = (scenario.check)(&mut world, case, &before, result);
    world.finish(&lost, &case.at);
}

#[track_caller]
fn expect_all(world: &World, wanted: BlockState, at: &str) {
    for block in &world.blocks {
        assert_eq!(world.state(block), Some(wanted), "{at}: {block:?}");
    }
}

/// Before its first detach a pause undoes itself; after it, it only rolls forward.
fn check_pause(world: &mut World, case: &Case, before: &Look, result: Result<()>) -> Lost {
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
fn check_resume(world: &mut World, case: &Case, before: &Look, result: Result<()>) -> Lost {
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
fn check_allocate(world: &mut World, case: &Case, before: &Look, result: Result<()>) -> Lost {
    if let Err(error) = result {
        assert_eq!(world.look(), *before, "{}: {error}", case.at);
    }
    Lost::new()
}

fn first(world: &World) -> Address {
    world.blocks[0].address
}

/// A whole block stays; of any other, the registry knows nothing more.
fn check_free(world: &mut World, case: &Case, before: &Look, result: Result<()>) -> Lost {
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

fn free_first(world: &mut World) -> Result<()> {
    world.engine.free(first(world))
}

fn mixed(world: &mut World) {
    for device in [ZERO, ONE] {
        for policy in [Policy::Host, Policy::Discard, Policy::Zero, Policy::Host] {
            world.add(policy, device);
        }
    }
}

fn all_of(world: &mut World, policy: Policy) {
    for device in [ZERO, ONE, ZERO] {
        world.add(policy, device);
    }
}

fn asleep(world: &mut World, fill: fn(&mut World)) {
    fill(world);
    world.pause().map(drop).expect("pause");
}

fn act_pause(world: &mut World) -> Result<()> {
    world.pause().map(drop)
}

fn act_resume(world: &mut World) -> Result<()> {
    world.resume().map(drop)
}

const DETACH: &[Operation] =
    &[Operation::Capabilities, Operation::Quiesce, Operation::Unmap, Operation::Release];
const SAVE: &[Operation] = &[
    Operation::Capabilities,
    Operation::Quiesce,
    Operation::OpenStream,
    Operation::RegisterHost,
    Operation::Read,
    Operation::Wait,
    Operation::Unmap,
    Operation::Release,
];
const VACATE: &[Operation] = &[Operation::Unmap, Operation::Release, Operation::Vacate];
const ATTACH: &[Operation] = &[Operation::Create, Operation::Map, Operation::SetAccess];
const FILL: &[Operation] =
    &[Operation::Create, Operation::Map, Operation::SetAccess, Operation::Fill, Operation::Wait];
const RESTORE: &[Operation] = &[
    Operation::Create,
    Operation::Map,
    Operation::SetAccess,
    Operation::OpenStream,
    Operation::RegisterHost,
    Operation::Write,
    Operation::Wait,
];
/// A free reading is told, not relied on; staging may be plain memory; a worker that has no
/// stream leaves its work to another.
const EASY: &[Operation] = &[Operation::Memory, Operation::RegisterHost, Operation::OpenStream];

fn keeping() -> SimConfig {
    small().fault(Fault::KeepUntilUnreserved)
}

macro_rules! scenarios {
    ($($test:ident: $config:expr, $prepare:expr, $act:expr, $check:expr, $makes:expr;)*) => {$(
        #[test]
        fn $test() {
            fail_every_call(&Scenario {
                name: stringify!($test),
                config: $config,
                prepare: $prepare,
                act: $act,
                check: $check,
                makes: $makes,
                tolerates: EASY,
            });
        }
    )*};
}

scenarios! {
    a_failed_pause_of_discarded_blocks_leaves_all_as_it_was_or_rolls_forward:
        small, |world| all_of(world, Policy::Discard), act_pause, check_pause, DETACH;
    a_failed_pause_of_zeroed_blocks_leaves_all_as_it_was_or_rolls_forward:
        small, |world| all_of(world, Policy::Zero), act_pause, check_pause, DETACH;
    a_failed_pause_of_saved_blocks_leaves_all_as_it_was_or_rolls_forward:
        small, |world| all_of(world, Policy::Host), act_pause, check_pause, SAVE;
    a_failed_pause_of_mixed_blocks_leaves_all_as_it_was_or_rolls_forward:
        small, mixed, act_pause, check_pause, SAVE;
    a_failed_pause_that_vacates_leaves_all_as_it_was_or_rolls_forward:
        keeping, mixed, act_pause, check_pause, VACATE;
    a_failed_resume_of_discarded_blocks_changes_nothing:
        small, |world| asleep(world, |world| all_of(world, Policy::Discard)), act_resume,
        check_resume, ATTACH;
    a_failed_resume_of_zeroed_blocks_changes_nothing:
        small, |world| asleep(world, |world| all_of(world, Policy::Zero)), act_resume,
        check_resume, FILL;
    a_failed_resume_of_saved_blocks_changes_nothing:
        small, |world| asleep(world, |world| all_of(world, Policy::Host)), act_resume,
        check_resume, RESTORE;
    a_failed_resume_of_mixed_blocks_changes_nothing:
        small, |world| asleep(world, mixed), act_resume, check_resume, RESTORE;
    a_failed_resume_where_undoing_vacates_changes_nothing:
        keeping, |world| asleep(world, mixed), act_resume, check_resume, RESTORE;
    a_failed_free_of_an_active_block_leaves_it_whole_or_forgets_it:
        small, mixed, free_first, check_free,
        &[Operation::Quiesce, Operation::Unmap, Operation::Release, Operation::Unreserve];
    a_failed_free_of_a_paused_block_forgets_it:
        small, |world| asleep(world, mixed), free_first, check_free, &[Operation::Unreserve];
    a_failed_allocation_of_a_discarded_block_leaves_nothing_behind:
        small, mixed, |world| world.allocate(Policy::Discard, ZERO).map(drop), check_allocate,
        &[Operation::Granularity, Operation::Reserve, Operation::Create, Operation::Map];
    a_failed_allocation_of_a_saved_block_leaves_nothing_behind:
        small, mixed, |world| world.allocate(Policy::Host, ONE).map(drop), check_allocate, ATTACH;
    a_failed_allocation_of_a_zeroed_block_leaves_nothing_behind:
        small, mixed, |world| world.allocate(Policy::Zero, ZERO).map(drop), check_allocate, FILL;
}

#[test]
fn a_failed_call_of_the_first_detach_undoes_the_pause_and_names_the_block() {
    let mut world = World::new(small());
    mixed(&mut world);
    let before = world.look();
    world.sim.fail_nth(Operation::Unmap, 1, ErrorKind::Unknown);
    let error: Error = world.pause().unwrap_err();
    assert!(error.report().is_none(), "nothing was committed: {error}");
    assert_eq!(error.failures().len(), 1);
    assert!(!error.failures()[0].poisoned);
    assert_eq!(world.look(), before);
    world.finish(&[], "the first detach");
}
