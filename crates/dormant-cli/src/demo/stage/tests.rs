//! What the demo must find, on the simulated device.

use dormant::{Backend, Granularity};

use super::*;
use crate::demo::plan::plan;

fn filled_stage() -> Stage {
    let driver = dormant::open(Some(Backend::Sim)).unwrap();
    let mut stage = Stage::new(driver, Device(0)).unwrap();
    let granularity: Granularity = stage.driver().granularity(Device(0)).unwrap();
    stage.allocate(&plan(8 * granularity.bytes(), granularity).unwrap()).unwrap();
    stage.fill(&Role::ALL, 0, &Progress::bar("", 0)).unwrap();
    stage
}

#[test]
fn a_byte_that_changed_is_found_with_its_block_and_position() {
    let mut stage = filled_stage();
    let none = Progress::bar("", 0);
    assert_eq!(stage.verify(Role::Weights, Some(0), &none).unwrap(), []);
    let block = &stage.blocks[1];
    let at = block.wanted.bytes - 1;
    let mut byte = [0];
    block.buffer.read(at, &mut byte).unwrap();
    block.buffer.write(at, &[!byte[0]]).unwrap();
    let difference = Difference { offset: at, found: !byte[0], expected: byte[0] };
    assert_eq!(stage.verify(Role::Weights, Some(0), &none).unwrap(), [(1, difference)]);
}

#[test]
fn contents_of_another_round_or_none_are_wrong_in_every_block() {
    let mut stage = filled_stage();
    let none = Progress::bar("", 0);
    for round in [Some(1), None] {
        assert_eq!(stage.verify(Role::Weights, round, &none).unwrap().len(), 2);
    }
}

#[test]
fn a_block_that_is_gone_or_in_another_state_is_a_stray() {
    let stage = filled_stage();
    assert!(stage.strays(BlockState::Active).is_empty());
    assert_eq!(stage.strays(BlockState::Paused).len(), stage.blocks.len());
    stage.engine.free(stage.blocks[0].buffer.address()).unwrap();
    let strays = stage.strays(BlockState::Active);
    assert_eq!(strays.len(), 1);
    assert!(strays[0].contains("`weights`"), "{strays:?}");
}
