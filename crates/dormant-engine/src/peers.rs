//! Which devices may use a block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use allocator_core::{Address, Deadline, Device, Driver};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::registry::{Facts, Resting, Taken};
use crate::sync::{Mutex, lock};
use crate::tag::Selection;

/// The devices that the program let at another's memory.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    by_owner: Mutex<BTreeMap<Device, BTreeSet<Device>>>,
    /// Grows with every change, so that an allocation can tell that it missed one.
    generation: AtomicU64,
}

impl Peers {
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    pub(crate) fn allowed(&self, owner: Device) -> Allowed {
        let by_owner = lock(&self.by_owner);
        let enabled = by_owner.get(&owner).into_iter().flatten().copied();
        Allowed([owner].into_iter().chain(enabled.filter(|peer| *peer != owner)).collect())
    }

    fn add(&self, owner: Device, peer: Device) {
        lock(&self.by_owner).entry(owner).or_default().insert(peer);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    fn remove(&self, owner: Device, peer: Device) {
        if let Some(peers) = lock(&self.by_owner).get_mut(&owner) {
            peers.remove(&peer);
        }
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

/// The devices that may use blocks of one owner: its own device first, then those that the
/// program enabled. A block whose region names more has a list of its own.
#[derive(Debug)]
pub(crate) struct Allowed(Arc<[Device]>);

impl Allowed {
    pub(crate) fn on(&self, facts: &Facts) -> Arc<[Device]> {
        let more: Vec<_> = facts.peers.iter().filter(|peer| !self.0.contains(peer)).collect();
        if more.is_empty() {
            return Arc::clone(&self.0);
        }
        let mut all = self.0.to_vec();
        for peer in more {
            if !all.contains(peer) {
                all.push(*peer);
            }
        }
        all.into()
    }
}

impl<D: Driver> Engine<D> {
    /// The devices that may use a block, its owner first.
    pub(crate) fn access_of(&self, facts: &Facts) -> Arc<[Device]> {
        self.peers.allowed(facts.device).on(facts)
    }

    /// Lets kernels of `peer` use every block on `owner`: those that exist, those that sleep
    /// (when they wake), and those to come. A second time changes nothing.
    ///
    /// # Errors
    /// `NotSupported` when the devices are not peers, `NotFound` for one that is not there or for a
    /// device and itself; `Busy` when a transition is not over in
    /// time; the driver's error about a block, with access given to the others.
    pub fn enable_peer_access(&self, peer: Device, owner: Device) -> Result<()> {
        let action = format!("access of device {peer} to device {owner}");
        self.admit(&action)?;
        let fail = |cause| Error::new(action.clone(), cause);
        self.driver.enable_peer(peer, owner).map_err(fail)?;
        self.change_peer(&action, owner, |peers| peers.add(owner, peer))
    }

    /// Takes back what [`enable_peer_access`](Self::enable_peer_access) gave; blocks whose
    /// region names the peer keep it.
    ///
    /// # Errors
    /// `Busy` when a transition is not over in time; the driver's error about a block.
    pub fn disable_peer_access(&self, peer: Device, owner: Device) -> Result<()> {
        let action = format!("no access of device {peer} to device {owner}");
        self.admit(&action)?;
        self.change_peer(&action, owner, |peers| peers.remove(owner, peer))
    }

    fn change_peer(&self, action: &str, owner: Device, change: impl FnOnce(&Peers)) -> Result<()> {
        let deadline = Deadline::after(self.config.transition_timeout);
        let _turn = self.turn.take(deadline).map_err(|cause| Error::new(action, cause))?;
        change(&self.peers);
        let addresses: Vec<_> = lock(&self.registry)
            .iter()
            .filter(|(_, facts, _, _)| facts.device == owner)
            .map(|(address, ..)| address)
            .collect();
        let mut first = Ok(());
        for address in addresses {
            let granted = self.grant_one(address);
            if first.is_ok() {
                first = granted;
            }
        }
        first
    }

    /// Sets the access of one block anew, if it is active.
    pub(crate) fn grant_one(&self, address: Address) -> Result<()> {
        let taken = lock(&self.registry).take_one_active(address);
        let Ok(Taken { address, facts, mut block }) = taken else { return Ok(()) };
        let granted = block.set_access(&self.access_of(&facts));
        let block = Resting::Active(block);
        self.put_back([Taken { address, facts: Arc::clone(&facts), block }]);
        granted.map_err(|cause| Error::new(format!("access to a block of `{}`", facts.tag), cause))
    }

    /// Forgets the saved contents of every paused block of a selection, and of poisoned ones: it
    /// will wake with undefined contents, and the host memory or disk space is given back, once no
    /// [`Backup`](crate::Backup) of it is lent out any more. Returns the bytes that were saved.
    ///
    /// # Errors
    /// `Busy` when a transition is not over in time; `Forked` in a forked child.
    pub fn drop_backup(&self, selection: impl Into<Selection>) -> Result<u64> {
        let selection = selection.into();
        let action = format!("dropping the backups of {selection}");
        self.admit(&action)?;
        let deadline = Deadline::after(self.config.transition_timeout);
        let _turn = self.turn.take(deadline).map_err(|cause| Error::new(action, cause))?;
        let mut stashes = Vec::new();
        {
            let mut registry = lock(&self.registry);
            for remnant in registry.poisoned_mut(&selection) {
                stashes.extend(remnant.take_stash());
            }
            for block in registry.paused_mut(&selection) {
                if block.stash().is_some_and(|stash| stash.saved_bytes() > 0) {
                    stashes.extend(block.take_stash());
                }
            }
        }
        let bytes = stashes.iter().map(crate::stash::Stash::saved_bytes).sum();
        self.reaper.bury(stashes);
        Ok(bytes)
    }
}
