//! How large one handle of physical memory may be.
//!
//! Some drivers refuse one large handle although there is room for it (ROCm 6 with several GPUs).
//! A free reading alone does not tell that from memory that is short: other processes move it,
//! and an H200 reads 129 MiB as free that it gives to nobody. So a single handle of half the size
//! is tried, and half of that, until one is given. With that size the whole is tried once more:
//! when that fails too, memory is short. What worked is remembered for the device.

use std::collections::BTreeMap;
use std::sync::Arc;

use allocator_core::{Backing, Device, Driver, ErrorKind, Result};

use crate::sync::{Mutex, lock};

/// The largest handles that the devices give, where that was found out.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    most: Mutex<BTreeMap<Device, u64>>,
}

impl Pieces {
    /// Creates `bytes`, in whole granules, in as few handles as the device lets us.
    pub(crate) fn create<D: Driver>(
        &self,
        driver: &Arc<D>,
        device: Device,
        bytes: u64,
    ) -> Result<Backing<D>> {
        let most = lock(&self.most).get(&device).copied();
        let piece_bytes = most.map_or(bytes, |most| most.min(bytes));
        let refusal = match Backing::create(driver, device, bytes, piece_bytes) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => error,
            answer => return answer,
        };
        if driver.memory(device).is_ok_and(|memory| memory.free_bytes >= bytes)
            && let Some(given) = given_size(driver, device, piece_bytes)?
            && let Ok(backing) = Backing::create(driver, device, bytes, given)
        {
            if given < piece_bytes {
                let mut most = lock(&self.most);
                let most = most.entry(device).or_insert(given);
                *most = given.min(*most);
            }
            return Ok(backing);
        }
        Err(refusal)
    }
}

/// The size of which a handle is given, after one of `refused` bytes was not: the next by halving.
/// It is the refused one where that is given after all, since then memory was short for a moment.
fn given_size<D: Driver>(driver: &Arc<D>, device: Device, refused: u64) -> Result<Option<u64>> {
    let granule = driver.granularity(device)?.bytes();
    let mut refused = refused;
    while refused > granule {
        let half = (refused / 2 / granule * granule).max(granule);
        if gives(driver, device, half)? {
            return Ok(Some(if gives(driver, device, refused)? { refused } else { half }));
        }
        refused = half;
    }
    Ok(None)
}

/// Whether the device gives one handle of this size now.
fn gives<D: Driver>(driver: &Arc<D>, device: Device, bytes: u64) -> Result<bool> {
    match Backing::create(driver, device, bytes, bytes) {
        Ok(one) => one.release().map(|()| true),
        Err(error) if error.kind() == ErrorKind::OutOfMemory => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use allocator_core::Operation;
    use dormant_sim::{Fault, Sim, SimConfig};

    use super::*;
    use crate::{Allocation, Config, Engine, PauseOptions, Policy, ResumeOptions};

    const GRANULE: u64 = 64 << 10;
    const MIB: u64 = 1 << 20;
    const DEVICE: Device = Device(1);

    fn config() -> SimConfig {
        SimConfig::new().devices(2).capacity_bytes(16 * MIB).granularity(GRANULE)
    }

    fn sim(config: SimConfig) -> Arc<Sim> {
        Arc::new(Sim::new(config).expect("a simulated machine"))
    }

    fn free_bytes(sim: &Sim) -> u64 {
        sim.memory(DEVICE).expect("a device").free_bytes
    }

    #[test]
    fn a_device_that_refuses_large_handles_gets_smaller_ones_from_then_on() {
        let sim = sim(config().fault(Fault::MaxPiece(256 << 10)));
        let pieces = Pieces::default();
        let first = pieces.create(&sim, DEVICE, 3 * MIB).unwrap();
        // Halved: 1536, 768, 384 and 192 KiB.
        assert_eq!((first.bytes(), first.handles()), (3 * MIB, 16));
        let before = sim.calls(Operation::Create);
        let second = pieces.create(&sim, DEVICE, 3 * MIB).unwrap();
        assert_eq!(second.handles(), 16);
        assert_eq!(sim.calls(Operation::Create) - before, 16, "no size is tried again");
        let small = pieces.create(&sim, DEVICE, GRANULE).unwrap();
        assert_eq!(small.handles(), 1);
        for backing in [first, second, small] {
            backing.release().unwrap();
        }
        assert_eq!(free_bytes(&sim), 16 * MIB);
    }

    #[test]
    fn memory_that_reads_as_free_and_is_given_to_nobody_is_out_of_memory_and_teaches_nothing() {
        let sim = sim(config().held_back_bytes(8 * MIB));
        let pieces = Pieces::default();
        let error = pieces.create(&sim, DEVICE, 12 * MIB).unwrap_err();
        assert_eq!((error.kind(), error.bytes()), (ErrorKind::OutOfMemory, Some(12 * MIB)));
        assert!(sim.calls(Operation::Create) <= 5, "{}", sim.calls(Operation::Create));
        assert_eq!(free_bytes(&sim), 16 * MIB);
        let whole = pieces.create(&sim, DEVICE, 8 * MIB).unwrap();
        assert_eq!(whole.handles(), 1);
        // Nothing at all is left that would be given.
        assert_eq!(
            pieces.create(&sim, DEVICE, 4 * MIB).unwrap_err().kind(),
            ErrorKind::OutOfMemory
        );
        whole.release().unwrap();
    }

    #[test]
    fn memory_that_is_short_by_the_reading_is_not_asked_for_again() {
        let sim = sim(config());
        let pieces = Pieces::default();
        let half = pieces.create(&sim, DEVICE, 8 * MIB).unwrap();
        let before = sim.calls(Operation::Create);
        let error = pieces.create(&sim, DEVICE, 12 * MIB).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(sim.calls(Operation::Create) - before, 1);
        half.release().unwrap();
    }

    #[test]
    fn a_refusal_that_does_not_last_teaches_nothing() {
        let sim = sim(config());
        let pieces = Pieces::default();
        for _ in 0..2 {
            sim.fail_nth(Operation::Create, 1, ErrorKind::OutOfMemory);
            let backing = pieces.create(&sim, DEVICE, MIB).unwrap();
            assert_eq!(backing.handles(), 1);
            backing.release().unwrap();
        }
        assert_eq!(free_bytes(&sim), 16 * MIB);
    }

    #[test]
    fn another_error_while_trying_is_the_answer() {
        let sim = sim(config().fault(Fault::MaxPiece(GRANULE)));
        sim.fail_nth(Operation::Create, 3, ErrorKind::DeviceLost);
        let error = Pieces::default().create(&sim, DEVICE, MIB).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceLost);
        assert_eq!(free_bytes(&sim), 16 * MIB);
    }

    #[test]
    fn blocks_in_pieces_are_allocated_paused_resumed_and_freed_like_any_other() {
        let sim = sim(config().fault(Fault::MaxPiece(2 * GRANULE)));
        let engine = Engine::new(Arc::clone(&sim), Config::default());
        let allocation = Allocation::new(MIB - 5, DEVICE).tag("w").policy(Policy::Host);
        let address = engine.allocate(&allocation).unwrap();
        let contents: Vec<u8> = (0..MIB - 5).map(|n| (n % 251) as u8).collect();
        engine.write(address, &contents).unwrap();
        let mut back = vec![0; contents.len()];
        for _ in 0..2 {
            engine.pause("w", &PauseOptions::default()).unwrap();
            assert_eq!(free_bytes(&sim), 16 * MIB);
            engine.resume("w", &ResumeOptions::default()).unwrap();
            engine.read(address, &mut back).unwrap();
            assert!(back == contents);
        }
        engine.free(address).unwrap();
        assert_eq!(free_bytes(&sim), 16 * MIB);
    }
}
