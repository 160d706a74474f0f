#![allow(dead_code, reason = "type-checked, never run: there is no driver here")]

use std::sync::Arc;

use allocator_core::{
    ActiveBlock, Backing, Block, Device, Driver, Granularity, Mapped, PausedBlock, Result, Stuck,
};

const DEVICE: Device = Device(0);

fn whole_way<D: Driver>(driver: &Arc<D>) -> Result<()> {
    let granularity: Granularity = driver.granularity(DEVICE)?;
    let fresh: PausedBlock<D, String> = Block::reserve(driver, DEVICE, 6912, granularity)?;
    let active = wake(driver, fresh)?;
    let asleep =
        active.detach(Some(String::from("saved")), false).map_err(|stuck| stuck.error().clone())?;
    let active = wake(driver, asleep)?;
    active.free::<String>().map_err(|stuck| stuck.error().clone())
}

fn wake<D: Driver>(driver: &Arc<D>, block: PausedBlock<D, String>) -> Result<ActiveBlock<D>> {
    let bytes = block.physical_bytes();
    let backing = Backing::create(driver, block.device(), bytes, bytes)?;
    match block.attach(backing, [DEVICE]) {
        Ok(attached) => {
            copy_back(&attached);
            let (mut active, _used) = attached.settle();
            active.set_access(&[DEVICE, Device(1)])?;
            Ok(active)
        }
        Err(stuck) => match *stuck {
            Stuck::Unchanged { block, spare, error } => {
                spare.release()?;
                block.free()?;
                Err(error)
            }
            Stuck::Poisoned { remnant, error } => {
                let _only_copy = remnant.stash();
                Err(error)
            }
        },
    }
}

fn copy_back<M: Mapped>(block: &M) {
    let _target = (block.address(), block.mapped_bytes());
}

fn free_from_every_state<D: Driver>(
    active: ActiveBlock<D>,
    paused: PausedBlock<D, String>,
    attached: allocator_core::AttachedBlock<D, String>,
) {
    let _ = active.free::<String>();
    let _ = paused.free();
    let _ = attached.free();
}

fn main() {}
