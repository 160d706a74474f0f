//! The blocks on the device, and the host's side of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dormant::core::Driver as _;
use dormant::{
    Allocation, BlockState, Buffer, Config, Device, Driver, Engine, MemoryInfo, PauseOptions,
    Report, ResumeOptions, Selection, Stats,
};

use super::plan::{Role, Wanted};
use crate::failure::Failure;
use crate::pattern::{Contents, Difference};
use crate::progress::Progress;

/// Contents go over the host in pieces of at most this size.
const MOST_HOST_BYTES: u64 = 256 << 20;

/// What the host's buffer holds before a read: neither zero nor a pattern of ours, so that a read
/// that brings nothing is found out.
const STALE: Contents = Contents::Pattern { seed: 0x57a1_e57a_1e57_a1e5 };

/// A block, and what was asked for.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) buffer: Buffer,
    pub(crate) wanted: Wanted,
    /// Its number among all blocks.
    index: u64,
}

impl Block {
    /// What the block is filled with in the given round; each block and round has its own.
    fn pattern(&self, round: u64) -> Contents {
        Contents::Pattern { seed: (self.index + 1) << 32 | round }
    }
}

/// The engine with all blocks of the demo. The fields are dropped in this order.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) blocks: Vec<Block>,
    engine: Arc<Engine>,
    device: Device,
    host: Vec<u8>,
}

impl Stage {
    /// An engine over the driver, after a first small block on the device: its context and streams
    /// are made then, and are in every free reading.
    pub(crate) fn new(driver: Driver, device: Device) -> Result<Self, Failure> {
        let engine = Arc::new(Engine::new(Arc::new(driver), Config::from_env()));
        let warm_up = Buffer::new(&engine, &Allocation::new(1, device).tag("warm_up"))?;
        warm_up.write(0, &[0])?;
        warm_up.free()?;
        Ok(Self { blocks: Vec::new(), engine, device, host: Vec::new() })
    }

    pub(crate) fn driver(&self) -> &Driver {
        self.engine.driver()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// What the device reads.
    pub(crate) fn memory(&self) -> Result<MemoryInfo, Failure> {
        Ok(self.driver().memory(self.device)?)
    }

    pub(crate) fn allocate(&mut self, plan: &[Wanted]) -> Result<(), Failure> {
        for (index, wanted) in (0..).zip(plan) {
            let allocation = Allocation::new(wanted.bytes, self.device)
                .tag(wanted.role.tag())
                .policy(wanted.role.policy());
            let buffer = Buffer::new(&self.engine, &allocation)?;
            self.blocks.push(Block { buffer, wanted: *wanted, index });
        }
        let largest = plan.iter().map(|wanted| wanted.bytes).max().unwrap_or(0);
        self.host = vec![0; to_usize(largest.next_multiple_of(8).min(MOST_HOST_BYTES))];
        Ok(())
    }

    /// Logical bytes of the blocks with any of these roles.
    pub(crate) fn bytes_of(&self, roles: &[Role]) -> u64 {
        self.of(roles).map(|block| block.wanted.bytes).sum()
    }

    /// Physical bytes of the blocks with any of these roles.
    pub(crate) fn physical_bytes_of(&self, roles: &[Role]) -> u64 {
        self.of(roles).map(|block| block.wanted.physical_bytes).sum()
    }

    fn of(&self, roles: &[Role]) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| roles.contains(&block.wanted.role))
    }

    /// Gives each block of these roles the pattern of the round.
    pub(crate) fn fill(
        &mut self,
        roles: &[Role],
        round: u64,
        progress: &Progress,
    ) -> Result<(), Failure> {
        for block in self.blocks.iter().filter(|block| roles.contains(&block.wanted.role)) {
            let contents = block.pattern(round);
            for (offset, length) in pieces(block.wanted.bytes, self.host.len()) {
                let piece = &mut self.host[..length];
                contents.fill(offset, piece);
                block.buffer.write(offset, piece)?;
                progress.advance(length as u64);
            }
        }
        Ok(())
    }

    /// Reads every byte of these roles. In order of the blocks, the first wrong byte of each that
    /// has one; `None` for the round expects zeroes.
    pub(crate) fn verify(
        &mut self,
        role: Role,
        round: Option<u64>,
        progress: &Progress,
    ) -> Result<Vec<(u64, Difference)>, Failure> {
        let mut wrong = Vec::new();
        for block in self.blocks.iter().filter(|block| block.wanted.role == role) {
            let contents = round.map_or(Contents::Zero, |round| block.pattern(round));
            let mut first = None;
            for (offset, length) in pieces(block.wanted.bytes, self.host.len()) {
                let piece = &mut self.host[..length];
                STALE.fill(offset, piece);
                block.buffer.read(offset, piece)?;
                first = first.or_else(|| contents.difference(offset, piece));
                progress.advance(length as u64);
            }
            wrong.extend(first.map(|difference| (block.index, difference)));
        }
        Ok(wrong)
    }

    pub(crate) fn pause(&self) -> Result<Report, Failure> {
        Ok(self.engine.pause(selection(), &PauseOptions::default())?)
    }

    pub(crate) fn resume(&self) -> Result<Report, Failure> {
        Ok(self.engine.resume(selection(), &ResumeOptions::default())?)
    }

    /// Frees the blocks of these roles, in whatever state they are. How long it took.
    pub(crate) fn free(&mut self, roles: &[Role]) -> Result<Duration, Failure> {
        let begun = Instant::now();
        let (going, staying) = std::mem::take(&mut self.blocks)
            .into_iter()
            .partition(|block| roles.contains(&block.wanted.role));
        self.blocks = staying;
        for block in Vec::<Block>::into_iter(going) {
            block.buffer.free()?;
        }
        Ok(begun.elapsed())
    }

    /// What does not fit: blocks that are not where, or not what, they were.
    pub(crate) fn strays(&self, state: BlockState) -> Vec<String> {
        let mut strays = Vec::new();
        for Block { buffer, wanted, index } in &self.blocks {
            let place = format!("block {index} of `{}` at {}", buffer.tag(), buffer.address());
            match self.engine.find(buffer.address()) {
                None => strays.push(format!("{place} is unknown to the engine")),
                Some(found) => {
                    let now = (found.address, found.bytes, found.physical_bytes, found.state);
                    let then = (buffer.address(), wanted.bytes, wanted.physical_bytes, state);
                    if now != then {
                        strays.push(format!("{place} is now {now:?}, not {then:?}"));
                    }
                }
            }
        }
        strays
    }

    /// Whether a block of ours starts at any of these addresses.
    pub(crate) fn owns_any(&self, addresses: &[dormant::Address]) -> bool {
        addresses.iter().any(|address| self.engine.owns(*address))
    }
}

/// All tags of the demo; the warm-up block stays awake.
fn selection() -> Selection {
    Selection::tags(Role::ALL.map(Role::tag))
}

/// Offsets and lengths of the pieces, each but the last as long as the host's buffer.
fn pieces(bytes: u64, host_bytes: usize) -> impl Iterator<Item = (u64, usize)> {
    (0..bytes).step_by(host_bytes.max(1)).map(move |offset| {
        let rest = to_usize(bytes - offset);
        (offset, rest.min(host_bytes))
    })
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[cfg(feature = "sim")]
mod tests;
