//! One failure, at each call of each operation that a transition makes.

use std::collections::BTreeSet;

use allocator_core::{ErrorKind, Operation};
use dormant_engine::{Error, HostMode, Policy, PrepareOptions, Result, Selection};
use dormant_sim::{Fault, SimConfig};

use crate::checks::{Case, Lost, check_allocate, check_free, check_pause, check_resume, first};
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
    if world.mode == HostMode::Retain {
        // Its memory is registered, so that the device copies there itself.
        world.engine.prepare(Selection::All, &PrepareOptions::default()).expect("prepare");
    }
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
    // One refusal for lack of memory is met with smaller handles; so memory stays short.
    let lasts = if case.kind == ErrorKind::OutOfMemory { 100 } else { 1 };
    (n..n + lasts).for_each(|n| world.sim.fail_nth(case.operation, n, case.kind));
    let armed = world.sim.armed_failures();
    let result = (scenario.act)(&mut world);
    let reached = world.sim.armed_failures() < armed;
    assert!(reached || (n > 1 && VARY.contains(&case.operation)), "{}: never reached", case.at);
    match &result {
        Ok(()) if !reached => {}
        Ok(()) => assert!(scenario.tolerates.contains(&case.operation), "{}: Ok", case.at),
        Err(error) => {
            assert_eq!(error.kind(), case.kind, "{}: {error}", case.at);
            assert_eq!(error.cause().operation(), case.operation, "{}: {error}", case.at);
        }
    }
    let lost = (scenario.check)(&mut world, case, &before, result);
    world.finish(&lost, &case.at);
}

fn free_first(world: &mut World) -> Result<()> {
    world.engine.free(first(world))
}

fn mixed(world: &mut World) {
    for device in [ZERO, ONE] {
        for policy in [Policy::Host, Policy::Discard, Policy::Zero, Policy::Disk] {
            world.add(policy, device);
        }
    }
}

fn all_of(world: &mut World, policy: Policy) {
    for device in [ZERO, ONE, ZERO] {
        world.add(policy, device);
    }
}

/// As [`mixed`], with backups in memory that is retained.
fn retained(world: &mut World) {
    world.mode = HostMode::Retain;
    mixed(world);
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
/// No stream is opened nor staging registered: preparing has done it.
const DIRECT: &[Operation] = &[Operation::Read, Operation::Wait, Operation::Unmap];
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
/// A free reading is told, not relied on; CPUs need not be near; staging may be plain memory; a worker that has no
/// stream leaves its work to another.
const EASY: &[Operation] =
    &[Operation::Devices, Operation::Memory, Operation::RegisterHost, Operation::OpenStream];

fn keeping() -> SimConfig {
    small().fault(Fault::KeepUntilUnreserved)
}

/// How often these are called depends on which worker is there first, and on how many small copies are
/// waiting to go together.
const VARY: &[Operation] = &[Operation::OpenStream, Operation::RegisterHost, Operation::Wait];

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
    a_failed_pause_of_blocks_on_disk_leaves_all_as_it_was_or_rolls_forward:
        small, |world| all_of(world, Policy::Disk), act_pause, check_pause, SAVE;
    a_failed_pause_of_mixed_blocks_leaves_all_as_it_was_or_rolls_forward:
        small, mixed, act_pause, check_pause, SAVE;
    a_failed_pause_into_retained_memory_leaves_all_as_it_was_or_rolls_forward:
        small, retained, act_pause, check_pause, DIRECT;
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
    a_failed_resume_of_blocks_on_disk_changes_nothing:
        small, |world| asleep(world, |world| all_of(world, Policy::Disk)), act_resume,
        check_resume, RESTORE;
    a_failed_resume_of_mixed_blocks_changes_nothing:
        small, |world| asleep(world, mixed), act_resume, check_resume, RESTORE;
    a_failed_resume_from_retained_memory_changes_nothing:
        small, |world| asleep(world, retained), act_resume, check_resume, RESTORE;
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
