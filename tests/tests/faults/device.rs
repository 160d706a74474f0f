//! Devices that are busy, broken or gone.

use std::time::{Duration, Instant};

use allocator_core::{ErrorKind, Operation, RawStream};
use dormant_engine::{BlockState, PauseOptions, Policy, Selection};

use crate::support::{CAPACITY, GRANULE, ONE, World, ZERO, filled, free_bytes, small};

/// Longer than anything here takes, shorter than the engine's own time limits.
const SOON: Duration = Duration::from_secs(60);

fn four() -> World {
    let mut world = World::new(small());
    for device in [ZERO, ONE] {
        world.add(Policy::Host, device);
        world.add(Policy::Zero, device);
    }
    world
}

#[test]
fn a_device_that_stays_busy_refuses_a_pause_at_its_deadline_and_changes_nothing() {
    let mut world = four();
    let before = world.look();
    let busy = Duration::from_millis(1500);
    let stream = world.sim.open_user_stream(ONE, false).unwrap();
    world.sim.launch(ONE, stream, busy, |_| {}).unwrap();
    let soon = PauseOptions::default().timeout(Duration::from_millis(50));
    let error = world.engine.pause(Selection::All, &soon).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!(error.cause().operation(), Operation::Quiesce, "{error}");
    assert_eq!(world.look(), before);
    world.pause().expect("a longer wait is enough");
    world.finish(&[], "after the busy device");
}

#[test]
fn a_free_of_a_block_on_a_busy_device_leaves_it_whole() {
    let mut world = four();
    let before = world.look();
    world.sim.fail_nth(Operation::Quiesce, 1, ErrorKind::Busy);
    let error = world.engine.free(world.blocks[0].address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!(world.look(), before);
    world.finish(&[], "after the busy free");
}

#[test]
fn earlier_work_that_failed_refuses_a_pause_and_no_free() {
    let mut world = four();
    let before = world.look();
    world.sim.fail_from(Operation::Quiesce, ErrorKind::EarlierWorkFailed);
    let error = world.pause().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EarlierWorkFailed, "{error}");
    assert!(error.report().is_none() && error.failures().is_empty(), "{error}");
    assert_eq!(world.look(), before);
    for block in &world.blocks {
        world.engine.free(block.address).expect("a free obeys all the same");
    }
    assert_eq!(world.free_bytes(), [CAPACITY, CAPACITY]);
}

#[test]
fn a_kernel_that_went_astray_refuses_pauses_and_no_free() {
    let mut world = four();
    // Nothing is mapped there; the error stays for the life of the machine.
    world
        .sim
        .launch(ZERO, RawStream(0), Duration::ZERO, |lane| {
            let _ = lane.fill(64, 1, 1);
        })
        .unwrap();
    let error = world.pause().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EarlierWorkFailed, "{error}");
    for block in &world.blocks {
        assert_eq!(world.state(block), Some(BlockState::Active));
        world.engine.free(block.address).expect("a free obeys all the same");
    }
    assert_eq!(world.look().free, [CAPACITY, CAPACITY]);
}

#[test]
fn blocks_of_a_lost_device_can_be_freed_in_either_state_and_nothing_hangs() {
    let begun = Instant::now();
    let mut world = World::new(small());
    let asleep = world.add(Policy::Host, ONE);
    world.pause().unwrap();
    let awake = world.add(Policy::Host, ONE);
    let other = world.add(Policy::Host, ZERO);
    let stream = world.sim.open_user_stream(ONE, false).unwrap();
    world.sim.launch(ONE, stream, Duration::from_secs(600), |_| {}).unwrap();
    world.sim.lose_device(ONE).unwrap();

    let error = world.pause().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    assert_eq!(world.state(&world.blocks[1]), Some(BlockState::Active));
    let error = world.resume().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    assert_eq!(world.state(&world.blocks[0]), Some(BlockState::Paused));
    world.expect_backup(&world.blocks[0], "on a lost device");

    world.engine.free(awake).unwrap();
    world.engine.free(asleep).unwrap();
    assert_eq!(free_bytes(&world.sim, ONE), CAPACITY, "the memory came back");
    // The other device does not notice.
    world.expect_contents(&world.blocks[2], "on the other device");
    world.engine.free(other).unwrap();
    assert!(begun.elapsed() < SOON, "it hung: {:?}", begun.elapsed());
}

#[test]
fn a_device_lost_during_a_copy_leaves_every_block_active() {
    let world = World::new(small().link_bytes_per_second(Some(4 << 20)));
    let bytes = 2 << 20;
    let allocation = dormant_engine::Allocation::new(bytes, ZERO).tag("w").policy(Policy::Host);
    let address = filled(&world.engine, &allocation, bytes, 1);
    std::thread::scope(|scope| {
        let pausing = scope.spawn(|| world.pause());
        crate::support::until("the copy has begun", || world.sim.calls(Operation::Read) > 0);
        world.sim.lose_device(ZERO).unwrap();
        let error = pausing.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    });
    assert_eq!(crate::support::state(&world.engine, address), Some(BlockState::Active));
    assert_eq!(world.engine.stats().host_backup_bytes, 0);
    world.engine.free(address).unwrap();
    assert_eq!(world.free_bytes(), [CAPACITY, CAPACITY]);
    assert_eq!(CAPACITY % GRANULE, 0);
}
