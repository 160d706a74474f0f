//! Allocation.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use allocator_core::{Address, Deadline, Device, Driver, ErrorKind, Operation, PausedBlock, Stuck};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::free::UNTOLD_TIMEOUT;
use crate::host::Home;
use crate::policy::{Checksum, HostMode, Policy};
use crate::region::{self, Current, Settings};
use crate::registry::{Facts, Freed, Taken};
use crate::stash::Stash;
use crate::sync::lock;
use crate::tag::Tag;

/// What to allocate. What it leaves open the thread's [`region`](crate::region) says; outside
/// any, the tag is `default` and the policy is `discard`.
#[derive(Clone, Debug)]
#[must_use = "this only describes an allocation; see Engine::allocate"]
pub struct Allocation {
    bytes: u64,
    device: Device,
    tag: Option<Tag>,
    policy: Option<Policy>,
    peers: Option<Vec<Device>>,
    directory: Option<Arc<Path>>,
    host_mode: Option<HostMode>,
    checksum: Option<Checksum>,
}

impl Allocation {
    /// `bytes` on a device.
    pub fn new(bytes: u64, device: Device) -> Self {
        Self {
            bytes,
            device,
            tag: None,
            policy: None,
            peers: None,
            directory: None,
            host_mode: None,
            checksum: None,
        }
    }

    /// Under this tag.
    pub fn tag(mut self, tag: impl Into<Tag>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// With this policy.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Usable by these devices too.
    pub fn peers(mut self, peers: impl IntoIterator<Item = Device>) -> Self {
        self.peers = Some(peers.into_iter().collect());
        self
    }

    /// With this directory for contents that are kept on disk. It need not exist before the pause.
    pub fn directory(mut self, directory: impl Into<Arc<Path>>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// With backups in host memory that are held like this.
    pub fn host_mode(mut self, mode: HostMode) -> Self {
        self.host_mode = Some(mode);
        self
    }

    /// With saved contents that are checked, or not.
    pub fn checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = Some(checksum);
        self
    }

    /// With all of these.
    pub fn settings(self, settings: Settings) -> Self {
        let Settings { tag, policy, peers, directory, host_mode, checksum } = settings;
        Self { directory, host_mode, checksum, ..self.tag(tag).policy(policy).peers(peers) }
    }
}

impl<D: Driver> Engine<D> {
    /// Allocates a block and returns its address, which is the block's until it is freed. A block
    /// under a paused tag is simply active.
    ///
    /// # Errors
    /// `OutOfMemory` or `TooLarge` with what is wanted, what is free and who holds it;
    /// `InvalidArgument` for no bytes or for a peer that is not there; `WrongState` without a tag inside
    /// [`region::disable`](crate::region::disable); `NotFound` for a device that is not there;
    /// `Forked` in a forked child.
    pub fn allocate(&self, allocation: &Allocation) -> Result<Address> {
        self.admit("allocation")?;
        let facts = self.facts_of(allocation)?;
        let (device, wanted) = (facts.device, facts.bytes);
        let made = match self.make(&facts) {
            // What was put off may be the very memory that is missing.
            Err(error)
                if error.kind() == ErrorKind::OutOfMemory
                    && self.free_deferred(Deadline::after(UNTOLD_TIMEOUT)) > 0 =>
            {
                self.make(&facts)
            }
            made => made,
        };
        let (address, block, generation) = made.map_err(|cause| {
            self.explain(format!("allocation under `{}`", facts.tag), cause, device, wanted)
        })?;
        lock(&self.registry).insert(address, Arc::new(facts), block);
        if self.peers.generation() != generation
            && let Err(error) = self.grant_again(address)
        {
            // Nobody else knows the address, so nobody else would free it.
            let freed = lock(&self.registry).free(address, None);
            if let Freed::Gone(block, facts) = freed {
                let deadline = Deadline::after(UNTOLD_TIMEOUT);
                self.dispose_untold(Taken { address, facts, block }, deadline);
            }
            return Err(error);
        }
        Ok(address)
    }

    /// Access that was given since the block's list was made must not be missed, nor may a pause
    /// that is at the block hide it.
    fn grant_again(&self, address: Address) -> Result<()> {
        let deadline = Deadline::after(self.config.transition_timeout);
        let turn = self.turn.take(deadline);
        let _turn = turn.map_err(|cause| Error::new("access to a new block", cause))?;
        self.grant_one(address)
    }

    fn facts_of(&self, allocation: &Allocation) -> Result<Facts> {
        let refused = |cause| Error::new("allocation", cause);
        let settings = match region::current() {
            Current::Inside(settings) => Some(settings),
            Current::Outside => None,
            Current::Disabled if allocation.tag.is_none() => {
                return Err(refused(allocator_core::Error::new(
                    ErrorKind::WrongState,
                    Operation::Engine,
                    "this thread has disabled pausable memory, and the allocation names no tag",
                )));
            }
            Current::Disabled => None,
        };
        let granularity = self.driver.granularity(allocation.device).map_err(refused)?;
        let physical_bytes = granularity.round_up(allocation.bytes).map_err(refused)?;
        let Settings { tag, policy, peers, directory, host_mode, checksum } =
            settings.unwrap_or_default();
        Ok(Facts {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            tag: allocation.tag.clone().unwrap_or(tag),
            policy: allocation.policy.unwrap_or(policy),
            device: allocation.device,
            bytes: allocation.bytes,
            physical_bytes,
            peers: allocation.peers.clone().unwrap_or(peers),
            directory: allocation.directory.clone().or(directory),
            host_mode: allocation.host_mode.or(host_mode),
            checksum: allocation.checksum.or(checksum),
            home: Arc::new(Home::default()),
        })
    }

    /// Reserves, creates, maps and, for `zero`, fills. A failure leaves nothing behind.
    fn make(
        &self,
        facts: &Facts,
    ) -> allocator_core::Result<(Address, allocator_core::ActiveBlock<D>, u64)> {
        let device = facts.device;
        let granularity = self.driver.granularity(device)?;
        let backing = self.pieces.create(&self.driver, device, facts.physical_bytes)?;
        let block: PausedBlock<D, Stash> =
            match PausedBlock::reserve(&self.driver, device, facts.bytes, granularity) {
                Ok(block) => block,
                Err(error) => return Err(error.with_undo(backing.release())),
            };
        let generation = self.peers.generation();
        let attached = match block.attach(backing, self.access_of(facts)) {
            Ok(attached) => attached,
            Err(stuck) => {
                return Err(match *stuck {
                    Stuck::Unchanged { block, spare, error } => {
                        error.with_undo(spare.release()).with_undo(block.free())
                    }
                    Stuck::Poisoned { error, .. } => error,
                });
            }
        };
        if facts.policy == Policy::Zero {
            let filled = self.lanes.with(device, |lane| lane.fill(&attached, facts.bytes, 0));
            self.reaper.staging_was_used();
            if let Err(error) = filled {
                let undone = attached.free().map_err(|stuck| stuck.error().clone());
                return Err(error.with_undo(undone));
            }
        }
        let (block, _) = attached.settle();
        Ok((block.address(), block, generation))
    }
}
