//! Who is where: every block's slot, by address.
//!
//! The registry decides nothing and calls nobody. Its lock is held for a few map operations at a
//! time; whoever wants to call the driver takes the block out first, which leaves the slot
//! `Moving`. Generic over what the slots hold, so that the model checker can run it with tokens.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;
use std::sync::Arc;

use allocator_core::{Address, Device};

use crate::host::Home;
use crate::policy::{Checksum, HostMode, Policy};
use crate::tag::{Selection, Tag};

/// What is known of a block beside its state.
#[derive(Debug)]
pub(crate) struct Facts {
    /// One of a kind within its engine, where an address may be handed out again.
    pub(crate) id: u64,
    pub(crate) tag: Tag,
    pub(crate) policy: Policy,
    pub(crate) device: Device,
    pub(crate) bytes: u64,
    pub(crate) physical_bytes: u64,
    /// Devices with access beside the owner, as the region named them.
    pub(crate) peers: Vec<Device>,
    /// Where contents go that are kept on disk. `None`: where the engine's settings say.
    pub(crate) directory: Option<Arc<Path>>,
    /// `None`: as the engine's settings say.
    pub(crate) host_mode: Option<HostMode>,
    /// `None`: as the engine's settings say.
    pub(crate) checksum: Option<Checksum>,
    /// Where its backup was last time.
    pub(crate) home: Arc<Home>,
}

/// A block at rest.
#[derive(Debug)]
pub(crate) enum Resting<A, P, R> {
    Active(A),
    Paused(P),
    Poisoned(R),
}

#[derive(Debug)]
enum Slot<A, P, R> {
    Resting(Resting<A, P, R>),
    /// A transition or a copy has taken the block out and will bring it back. `doomed`: it was
    /// freed meanwhile.
    Moving {
        doomed: bool,
    },
}

#[derive(Debug)]
struct Entry<A, P, R> {
    facts: Arc<Facts>,
    slot: Slot<A, P, R>,
}

/// A block taken out of its slot.
#[derive(Debug)]
pub(crate) struct Taken<B> {
    pub(crate) address: Address,
    pub(crate) facts: Arc<Facts>,
    pub(crate) block: B,
}

impl<B> Taken<B> {
    pub(crate) fn map<C>(self, change: impl FnOnce(B) -> C) -> Taken<C> {
        Taken { address: self.address, facts: self.facts, block: change(self.block) }
    }
}

/// What a free found.
#[derive(Debug)]
pub(crate) enum Freed<A, P, R> {
    /// No block of ours starts there.
    NotFound,
    /// A transition has the block; whoever brings it back will free it.
    Doomed,
    /// The block, out of the registry for good.
    Gone(Resting<A, P, R>, Arc<Facts>),
}

/// Whom a pause or resume is about, and whom it leaves alone.
#[derive(Debug)]
pub(crate) struct Snapshot<B> {
    pub(crate) taken: Vec<Taken<B>>,
    /// Blocks that are in the wanted state already.
    pub(crate) already: Vec<Arc<Facts>>,
    /// Poisoned blocks among the selected.
    pub(crate) poisoned: Vec<(Address, Arc<Facts>)>,
}

/// One block as the registry sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockState {
    /// Its memory is in use.
    Active,
    /// It sleeps.
    Paused,
    /// A transition is at it.
    Moving,
    /// The driver left it in an unknown state.
    Poisoned,
}

impl BlockState {
    /// Its name: `active`, `paused`, `moving`, `poisoned`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Moving => "moving",
            Self::Poisoned => "poisoned",
        }
    }
}

impl std::fmt::Display for BlockState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug)]
pub(crate) struct Registry<A, P, R> {
    entries: BTreeMap<Address, Entry<A, P, R>>,
    by_tag: BTreeMap<Tag, BTreeSet<Address>>,
    /// Where a free finds a block. It answers for every free of memory that is not ours, which an
    /// ordered map of many blocks does too slowly.
    live: HashSet<Address, BuildHasherDefault<Spread>>,
    /// Poisoned blocks whose address the driver has handed out again.
    displaced: Vec<(Address, Arc<Facts>, R)>,
}

impl<A, P, R> Default for Registry<A, P, R> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            by_tag: BTreeMap::new(),
            live: HashSet::default(),
            displaced: Vec::new(),
        }
    }
}

impl<A, P, R> Registry<A, P, R> {
    /// Adds a block. Two live blocks never share an address; a poisoned one may have lost its.
    pub(crate) fn insert(&mut self, address: Address, facts: Arc<Facts>, block: A) {
        if let Some(Entry { facts, slot: Slot::Resting(Resting::Poisoned(remnant)) }) =
            self.remove_entry(address)
        {
            self.displaced.push((address, facts, remnant));
        }
        self.by_tag.entry(facts.tag.clone()).or_default().insert(address);
        self.live.insert(address);
        let slot = Slot::Resting(Resting::Active(block));
        self.entries.insert(address, Entry { facts, slot });
    }

    fn remove_entry(&mut self, address: Address) -> Option<Entry<A, P, R>> {
        let entry = self.entries.remove(&address)?;
        self.live.remove(&address);
        if let Some(addresses) = self.by_tag.get_mut(&entry.facts.tag) {
            addresses.remove(&address);
            if addresses.is_empty() {
                self.by_tag.remove(&entry.facts.tag);
            }
        }
        Some(entry)
    }

    /// Takes the active blocks of a selection out.
    pub(crate) fn take_active(&mut self, selection: &Selection) -> Snapshot<A> {
        self.take(selection, |resting| match resting {
            Resting::Active(block) => Wanted::Take(block),
            Resting::Paused(block) => Wanted::Already(Resting::Paused(block)),
            Resting::Poisoned(remnant) => Wanted::Poisoned(Resting::Poisoned(remnant)),
        })
    }

    /// Takes the paused blocks of a selection out.
    pub(crate) fn take_paused(&mut self, selection: &Selection) -> Snapshot<P> {
        self.take(selection, |resting| match resting {
            Resting::Paused(block) => Wanted::Take(block),
            Resting::Active(block) => Wanted::Already(Resting::Active(block)),
            Resting::Poisoned(remnant) => Wanted::Poisoned(Resting::Poisoned(remnant)),
        })
    }

    fn take<B>(
        &mut self,
        selection: &Selection,
        want: impl Fn(Resting<A, P, R>) -> Wanted<B, A, P, R>,
    ) -> Snapshot<B> {
        let mut snapshot =
            Snapshot { taken: Vec::new(), already: Vec::new(), poisoned: Vec::new() };
        match selection {
            Selection::All => {
                for (address, entry) in &mut self.entries {
                    take_one(*address, entry, &want, &mut snapshot);
                }
            }
            Selection::Tags(tags) => {
                let unique = tags.iter().enumerate().filter(|(at, tag)| !tags[..*at].contains(tag));
                let sets = unique.filter_map(|(_, tag)| self.by_tag.get(tag));
                for address in sets.flatten() {
                    if let Some(entry) = self.entries.get_mut(address) {
                        take_one(*address, entry, &want, &mut snapshot);
                    }
                }
            }
        }
        snapshot
    }

    /// Takes one active block out, whatever its tag.
    pub(crate) fn take_one_active(
        &mut self,
        address: Address,
    ) -> Result<Taken<A>, Option<BlockState>> {
        let entry = self.entries.get_mut(&address).ok_or(None)?;
        if !matches!(entry.slot, Slot::Resting(Resting::Active(_))) {
            return Err(Some(entry.slot.state()));
        }
        let moving = Slot::Moving { doomed: false };
        match std::mem::replace(&mut entry.slot, moving) {
            Slot::Resting(Resting::Active(block)) => {
                Ok(Taken { address, facts: Arc::clone(&entry.facts), block })
            }
            other => {
                let state = other.state();
                entry.slot = other;
                Err(Some(state))
            }
        }
    }

    /// Brings a block back. When it was freed meanwhile, it comes out again, for the caller to
    /// free: the registry knows it no more.
    pub(crate) fn put_back(
        &mut self,
        address: Address,
        facts: &Arc<Facts>,
        resting: Resting<A, P, R>,
    ) -> Option<Resting<A, P, R>> {
        // An address that the driver lost may be another block's by now.
        let mine = self.entries.get_mut(&address).filter(|entry| Arc::ptr_eq(&entry.facts, facts));
        match (mine.map(|entry| &mut entry.slot), resting) {
            (Some(slot @ Slot::Moving { doomed: false }), resting) => {
                *slot = Slot::Resting(resting);
                None
            }
            (Some(_), resting) => {
                self.remove_entry(address);
                Some(resting)
            }
            (None, Resting::Poisoned(remnant)) => {
                self.displaced.push((address, Arc::clone(facts), remnant));
                None
            }
            (None, resting) => Some(resting),
        }
    }

    /// Frees a block: takes it out for good, or marks it if a transition has it. With an `id`,
    /// only the block of that id.
    pub(crate) fn free(&mut self, address: Address, id: Option<u64>) -> Freed<A, P, R> {
        if let (Some(id), Some(entry)) = (id, self.entries.get(&address))
            && entry.facts.id != id
        {
            return Freed::NotFound;
        }
        match self.entries.get_mut(&address).map(|entry| &mut entry.slot) {
            None | Some(Slot::Moving { doomed: true }) => return Freed::NotFound,
            Some(Slot::Moving { doomed }) => {
                *doomed = true;
                self.live.remove(&address);
                return Freed::Doomed;
            }
            Some(Slot::Resting(_)) => {}
        }
        match self.remove_entry(address) {
            Some(Entry { slot: Slot::Resting(resting), facts }) => Freed::Gone(resting, facts),
            _ => Freed::NotFound,
        }
    }

    /// The block that holds `address`, not only at its start.
    pub(crate) fn find(&self, address: Address) -> Option<(Address, &Arc<Facts>, BlockState)> {
        let (start, entry) = self.entries.range(..=address).next_back()?;
        let inside = address.0 - start.0 < entry.facts.bytes;
        let doomed = matches!(entry.slot, Slot::Moving { doomed: true });
        (inside && !doomed).then(|| (*start, &entry.facts, entry.slot.state()))
    }

    /// Whether a live block starts there.
    pub(crate) fn starts_at(&self, address: Address) -> bool {
        self.live.contains(&address)
    }

    /// A block at rest, by its start.
    pub(crate) fn resting(&self, address: Address) -> Option<&Resting<A, P, R>> {
        match &self.entries.get(&address)?.slot {
            Slot::Resting(resting) => Some(resting),
            Slot::Moving { .. } => None,
        }
    }

    /// Every paused block of a selection, where it is.
    pub(crate) fn paused_mut(&mut self, selection: &Selection) -> impl Iterator<Item = &mut P> {
        self.entries.values_mut().filter_map(|entry| match &mut entry.slot {
            Slot::Resting(Resting::Paused(block)) if selection.names(&entry.facts.tag) => {
                Some(block)
            }
            _ => None,
        })
    }

    /// What is left of every poisoned block of a selection, displaced ones too.
    pub(crate) fn poisoned_mut(&mut self, selection: &Selection) -> impl Iterator<Item = &mut R> {
        let placed = self.entries.values_mut().filter_map(|entry| match &mut entry.slot {
            Slot::Resting(Resting::Poisoned(remnant)) if selection.names(&entry.facts.tag) => {
                Some(remnant)
            }
            _ => None,
        });
        let displaced = self
            .displaced
            .iter_mut()
            .filter(|(_, facts, _)| selection.names(&facts.tag))
            .map(|(_, _, remnant)| remnant);
        placed.chain(displaced)
    }

    /// Poisoned blocks that have no place any more.
    pub(crate) fn displaced(&self) -> &[(Address, Arc<Facts>, R)] {
        &self.displaced
    }

    /// Every block: facts, state, and the block itself where it rests.
    #[expect(clippy::type_complexity, reason = "all that is known of each")]
    pub(crate) fn iter(
        &self,
    ) -> impl Iterator<Item = (Address, &Arc<Facts>, BlockState, Option<&Resting<A, P, R>>)> {
        self.entries.iter().map(|(address, entry)| {
            let resting = match &entry.slot {
                Slot::Resting(resting) => Some(resting),
                Slot::Moving { .. } => None,
            };
            (*address, &entry.facts, entry.slot.state(), resting)
        })
    }
}

/// Spreads addresses, whose low bits are all zero, over a table. Nobody chooses addresses to fill
/// one bucket: they come from the driver.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // Its high half depends on every bit; the table takes from both ends.
        self.0 = product ^ (product >> 32);
    }
}

/// What a transition wants of a block at rest.
enum Wanted<B, A, P, R> {
    Take(B),
    Already(Resting<A, P, R>),
    Poisoned(Resting<A, P, R>),
}

fn take_one<B, A, P, R>(
    address: Address,
    entry: &mut Entry<A, P, R>,
    want: &impl Fn(Resting<A, P, R>) -> Wanted<B, A, P, R>,
    snapshot: &mut Snapshot<B>,
) {
    let facts = Arc::clone(&entry.facts);
    let moving = Slot::Moving { doomed: false };
    let resting = match std::mem::replace(&mut entry.slot, moving) {
        Slot::Resting(resting) => resting,
        moving @ Slot::Moving { .. } => {
            entry.slot = moving;
            return;
        }
    };
    match want(resting) {
        Wanted::Take(block) => snapshot.taken.push(Taken { address, facts, block }),
        Wanted::Already(resting) => {
            snapshot.already.push(facts);
            entry.slot = Slot::Resting(resting);
        }
        Wanted::Poisoned(resting) => {
            snapshot.poisoned.push((address, facts));
            entry.slot = Slot::Resting(resting);
        }
    }
}

impl<A, P, R> Slot<A, P, R> {
    fn state(&self) -> BlockState {
        match self {
            Self::Resting(Resting::Active(_)) => BlockState::Active,
            Self::Resting(Resting::Paused(_)) => BlockState::Paused,
            Self::Resting(Resting::Poisoned(_)) => BlockState::Poisoned,
            Self::Moving { .. } => BlockState::Moving,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
