//! Host memory for backups: counted, kept or given back, and never more than there is.

mod budget;
mod fitting;
mod held;
mod slabs;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use allocator_core::{Driver, Error, ErrorKind, Operation, Result};
use dormant_host::{Claims, Piece, carve, process, whole_pages};

use self::budget::Pending;
pub(crate) use self::fitting::Home;
pub(crate) use self::held::Held;
use self::held::{Why, why_kept};
use self::slabs::Slabs;
use crate::config::Config;
use crate::policy::HostMode;
use crate::stash::{Charge, Ledger};
use crate::sync::{Mutex, lock};

/// How long somebody who wants memory back waits for what is just being registered.
const REGISTERING: Duration = Duration::from_secs(1);

/// Host memory of one engine.
#[derive(Debug)]
pub(crate) struct HostMemory<D: Driver> {
    driver: Arc<D>,
    /// Held while places are looked for, memory is charged, or given back: what one call has found
    /// another one does not take away.
    taking: Mutex<()>,
    /// What is held of the system's memory: retained or in use.
    held: Ledger,
    /// What backups take, wherever they lie.
    backups: Ledger,
    slabs: Slabs,
    /// Homes for which a place is held.
    reserved: Mutex<Vec<Weak<Home>>>,
    /// Joined at the first large backup.
    claims: OnceLock<Option<Claims>>,
    /// Bytes of memory that goes back which were charged and have not been touched yet.
    pending: AtomicU64,
    /// A registration was refused: it is not asked for again before the next trim.
    refused: AtomicBool,
    /// A thread is registering.
    registering: AtomicBool,
}

/// What a backup wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<'a> {
    pub(crate) bytes: u64,
    pub(crate) mode: HostMode,
    /// Where it was last time, and will be found next time.
    pub(crate) home: Option<&'a Arc<Home>>,
}

impl Want<'_> {
    fn size(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    /// Whether it may be retained.
    fn may_stay(&self) -> bool {
        self.mode != HostMode::Reclaim
    }
}

/// Room for one backup.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) piece: Piece,
    pub(crate) charges: Charges,
}

/// What [`HostMemory::take`] has taken.
#[derive(Debug)]
pub(crate) struct Taken<D: Driver> {
    /// One for each want, in their order.
    pub(crate) rooms: Vec<Room>,
    pub(crate) held: Held,
    /// To be dropped once it has been touched.
    pub(crate) pending: Pending<D>,
}

/// What one backup counts as. Retained memory counts as held whether a backup is in it or not.
#[derive(Debug)]
pub(crate) struct Charges {
    _backup: Charge,
    _held: Option<Charge>,
}

/// What backups would take, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Beyond what is retained.
    pub(crate) wanted_bytes: u64,
    /// May be taken.
    pub(crate) allowed_bytes: u64,
}

impl<D: Driver> HostMemory<D> {
    pub(crate) fn new(driver: Arc<D>) -> Self {
        Self {
            driver,
            taking: Mutex::default(),
            held: Ledger::default(),
            backups: Ledger::default(),
            slabs: Slabs::default(),
            reserved: Mutex::default(),
            claims: OnceLock::new(),
            pending: AtomicU64::new(0),
            refused: AtomicBool::new(false),
            registering: AtomicBool::new(false),
        }
    }

    /// Bytes of backups, in whole pages.
    pub(crate) fn backup_bytes(&self) -> u64 {
        self.backups.charged_bytes()
    }

    /// Bytes that are retained, whether a backup is in them or not.
    pub(crate) fn retained_bytes(&self) -> u64 {
        self.slabs.bytes()
    }

    /// Takes room for all of these, before anything is touched; a failure takes nothing. Room that is
    /// retained is looked for first, then made, up to its limit; the rest is pageable memory.
    ///
    /// # Errors
    /// `HostMemory` over the budget, with numbers, or when the system refuses.
    pub(crate) fn take(self: &Arc<Self>, config: &Config, wants: &[Want<'_>]) -> Result<Taken<D>> {
        let _taking = lock(&self.taking);
        let total = total_bytes(wants.iter().map(|want| want.bytes))?;
        let mut backups = self.backups.charge(total, None).map_err(|_| overflow())?;
        let mut room = |piece: Piece, bytes: u64, held: Option<Charge>| {
            let backup = backups.split(charged_bytes(bytes));
            Room { piece, charges: Charges { _backup: backup, _held: held } }
        };
        let mut held = Held::default();
        let slabs = self.slabs.all();
        let found = fitting::find(&slabs, |kept| Arc::clone(&kept.slab), wants);
        drop(slabs);
        let mut rooms: Vec<Option<Room>> = Vec::new();
        for (want, piece) in wants.iter().zip(found.pieces) {
            if piece.is_some() {
                held.note(true, why_kept(want.mode));
            }
            rooms.push(piece.map(|piece| room(piece, want.bytes, None)));
        }
        let mut others = found.others;
        others.iter().for_each(|_| held.note(false, Why::Asked));

        // What will be kept from now on.
        let new_bytes = |indices: &[usize]| total_bytes(indices.iter().map(|i| wants[*i].bytes));
        let mut keeping = Vec::new();
        let mut give_way = 0;
        if !found.missing.is_empty() {
            let limits = self.retain_limits(config);
            let limit_of = |index: usize| limits.of(wants[index].mode);
            let most = found.missing.iter().map(|index| limit_of(*index)).max().unwrap_or(0);
            let mut planned = self.slabs.bytes();
            let over = planned.saturating_add(new_bytes(&found.missing)?).saturating_sub(most);
            if over > 0 {
                give_way = self.idle_bytes(over).min(over);
                planned = planned.saturating_sub(give_way);
            }
            for index in found.missing {
                let after = planned.saturating_add(charged_bytes(wants[index].bytes));
                if after <= limit_of(index) {
                    planned = after;
                    held.note(true, why_kept(wants[index].mode));
                    keeping.push(index);
                } else {
                    let asked = wants[index].mode == HostMode::Retain;
                    let limited = asked || config.retain_limit_bytes.is_some();
                    held.note(false, if limited { Why::Limit } else { Why::ShareTooSmall });
                    others.push(index);
                }
            }
            others.sort_unstable();
        }

        // All that is new is charged before any of it is mapped.
        let going_back = new_bytes(&others)?;
        let new = new_bytes(&keeping)?.saturating_add(going_back);
        let mut charge = self.charge(config, new, give_way)?;
        held.new_bytes = new;
        let made_for: Vec<_> = keeping.iter().map(|index| &wants[*index]).collect();
        let made = self.slabs.make(&made_for, &mut charge).inspect_err(|_| self.publish())?;
        let carved = carve(others.iter().map(|index| wants[*index].size()));
        let carved = carved.inspect_err(|_| {
            self.slabs.drop_those(&made.slabs);
            self.publish();
        })?;
        for (index, piece) in keeping.into_iter().zip(made.pieces) {
            rooms[index] = Some(room(piece, wants[index].bytes, None));
        }
        for (index, piece) in others.into_iter().zip(carved) {
            let held = charge.split(charged_bytes(wants[index].bytes));
            rooms[index] = Some(room(piece, wants[index].bytes, Some(held)));
        }
        let pending = Pending::new(self, going_back, made.slabs);
        Ok(Taken { rooms: rooms.into_iter().flatten().collect(), held, pending })
    }

    /// Holds these places until their backups come, or the memory is wanted by others.
    pub(crate) fn reserve(&self, wants: &[Want<'_>], rooms: Vec<Room>) {
        let mut reserved = lock(&self.reserved);
        reserved.retain(|home| home.strong_count() > 0);
        for (want, Room { piece, .. }) in wants.iter().zip(rooms) {
            if let Some(home) = want.home.filter(|_| piece.is_kept()) {
                home.reserve(piece);
                reserved.push(Arc::downgrade(home));
            }
        }
    }

    fn release_reserved(&self) {
        let reserved = std::mem::take(&mut *lock(&self.reserved));
        let homes = reserved.iter().filter_map(Weak::upgrade);
        homes.for_each(|home| drop(home.release()));
    }

    /// Retained bytes that can be given back. Where they are less than `wanted`, what is held for
    /// others is given up first.
    fn idle_bytes(&self, wanted: u64) -> u64 {
        if self.slabs.idle_bytes() < wanted {
            self.release_reserved();
        }
        self.slabs.idle_bytes()
    }

    /// Gives retained memory that no backup is in back to the system; returns the bytes.
    pub(crate) fn trim(&self) -> u64 {
        self.await_registering();
        let _taking = lock(&self.taking);
        self.refused.store(false, Ordering::Relaxed);
        self.release_reserved();
        let trimmed = self.slabs.drop_idle(u64::MAX);
        self.publish();
        trimmed
    }

    /// Memory that is being registered cannot be given back: waits for that, if not for long.
    fn await_registering(&self) {
        let begun = Instant::now();
        while self.registering.load(Ordering::Acquire) && begun.elapsed() < REGISTERING {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What is retained now, to compare with later.
    pub(crate) fn mark(&self) -> u64 {
        self.slabs.mark()
    }

    /// Gives back what has been retained since `mark`, where no backup is in it.
    pub(crate) fn back_to(&self, mark: u64) {
        let _taking = lock(&self.taking);
        self.slabs.drop_since(mark);
        self.publish();
    }

    /// Whether registering retained memory was refused.
    pub(crate) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Takes the pages of retained memory that nobody has touched, and registers what is not registered
    /// yet, by several threads. Returns whether all of it is registered.
    pub(crate) fn register(&self, threads: usize) -> bool {
        slabs::populate(&self.slabs.all(), threads);
        self.publish();
        let unregistered = self.slabs.unregistered();
        let registered = unregistered.is_empty()
            || (!self.was_refused() && slabs::register(&self.driver, &unregistered, threads));
        if !registered && !process::is_exiting() {
            self.refused.store(true, Ordering::Relaxed);
        }
        registered
    }

    /// Whether [`register`](Self::register) has something to do.
    fn is_unready(&self) -> bool {
        let unregistered = !self.was_refused() && !self.slabs.unregistered().is_empty();
        !process::is_exiting() && (unregistered || self.slabs.untouched_bytes() > 0)
    }

    /// The same in the background. What comes while a thread is at it is done by that one.
    pub(crate) fn register_in_background(self: &Arc<Self>, threads: usize) {
        if !self.is_unready() || self.registering.swap(true, Ordering::AcqRel) {
            return;
        }
        let host = Arc::clone(self);
        let work = move || {
            loop {
                while host.is_unready() {
                    host.register(threads);
                }
                host.registering.store(false, Ordering::Release);
                if !host.is_unready() || host.registering.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        };
        let named = std::thread::Builder::new().name("dormant-register".to_owned());
        if named.spawn(work).is_err() {
            self.registering.store(false, Ordering::Release);
        }
    }

    /// What these would take beyond what is retained, and what may be taken. Takes nothing.
    pub(crate) fn need(&self, config: &Config, wants: &[Want<'_>]) -> Result<Need> {
        let _taking = lock(&self.taking);
        let found = fitting::find(&self.slabs.all(), |kept| kept.slab.shadow(), wants);
        let missing = found.missing.iter().chain(&found.others).map(|index| wants[*index].bytes);
        let wanted_bytes = total_bytes(missing)?;
        // Idle retained memory gives way where it must, but for what these backups are in.
        let used = wants.iter().zip(&found.pieces).filter(|(_, piece)| piece.is_some());
        let used = total_bytes(used.map(|(want, _)| want.bytes))?;
        let idle = self.slabs.unused_bytes().saturating_sub(used);
        let allowed_bytes = self.allowance(config).bytes.saturating_add(idle);
        Ok(Need { wanted_bytes, allowed_bytes })
    }
}

/// What a backup of this size takes of host memory: whole pages.
fn charged_bytes(bytes: u64) -> u64 {
    whole_pages(usize::try_from(bytes).unwrap_or(usize::MAX)) as u64
}

fn total_bytes(sizes: impl Iterator<Item = u64>) -> Result<u64> {
    sizes.map(charged_bytes).try_fold(0_u64, u64::checked_add).ok_or_else(overflow)
}

fn overflow() -> Error {
    let text = "the backups together do not fit an address";
    Error::new(ErrorKind::HostMemory, Operation::Engine, text).with_bytes(u64::MAX)
}
