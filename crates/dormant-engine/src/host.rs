//! Host memory for backups: counted, kept or given back, and never more than there is.

mod budget;
mod slabs;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use allocator_core::{Driver, Error, ErrorKind, Operation, Result};
use dormant_host::{Claims, Piece, carve, process, whole_pages};

use self::budget::Pending;
pub(crate) use self::slabs::Home;
use self::slabs::{Slabs, register};
use crate::config::Config;
use crate::policy::HostMode;
use crate::stash::{Charge, Ledger};

/// Host memory of one engine.
#[derive(Debug)]
pub(crate) struct HostMemory<D: Driver> {
    driver: Arc<D>,
    /// What is held of the system's memory: retained or in use.
    held: Ledger,
    /// What backups take, wherever they lie.
    backups: Ledger,
    slabs: Slabs,
    /// Joined at the first large backup.
    claims: OnceLock<Option<Claims>>,
    /// Bytes that were charged and have not been touched yet.
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
    pub(crate) home: Option<&'a Home>,
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

/// How host memory was held in a call, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    retained: bool,
    reclaimed: bool,
    why: Option<Why>,
    /// Bytes that were taken for it, and have not been touched yet.
    new_bytes: u64,
}

/// Why host memory is held as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Asked,
    ShareAllows,
    ShareTooSmall,
    Limit,
}

impl Held {
    /// `retain`, `reclaim`, `mixed`, or `none`.
    pub(crate) fn mode(self) -> &'static str {
        match (self.retained, self.reclaimed) {
            (true, true) => "mixed",
            (true, false) => "retain",
            (false, true) => "reclaim",
            (false, false) => "none",
        }
    }

    /// `asked`, `share_allows`, `share_too_small`, `retain_limit`; empty for `none`.
    pub(crate) fn why(self) -> &'static str {
        match self.why {
            Some(Why::Asked) => "asked",
            Some(Why::ShareAllows) => "share_allows",
            Some(Why::ShareTooSmall) => "share_too_small",
            Some(Why::Limit) => "retain_limit",
            None => "",
        }
    }

    pub(crate) fn is_any(self) -> bool {
        self.retained || self.reclaimed
    }

    fn note(&mut self, kept: bool, why: Why) {
        if kept {
            self.retained = true;
        } else {
            self.reclaimed = true;
        }
        // A limit that was met explains more than what was asked for.
        if !kept || self.why.is_none() {
            self.why = Some(why);
        }
    }

    /// How backups that are there are held.
    pub(crate) fn of_copies(pieces: impl Iterator<Item = bool>) -> Self {
        let mut held = Self::default();
        for kept in pieces {
            held.retained |= kept;
            held.reclaimed |= !kept;
        }
        held
    }
}

impl<D: Driver> HostMemory<D> {
    pub(crate) fn new(driver: Arc<D>) -> Self {
        Self {
            driver,
            held: Ledger::default(),
            backups: Ledger::default(),
            slabs: Slabs::default(),
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
        let total = total_bytes(wants.iter().map(|want| want.bytes))?;
        let mut backups = self.backups.charge(total, None).map_err(|_| overflow())?;
        let mut rooms: Vec<Option<Room>> = wants.iter().map(|_| None).collect();
        let mut room = |piece: Piece, bytes: u64, held: Option<Charge>| {
            let backup = backups.split(charged_bytes(bytes));
            Room { piece, charges: Charges { _backup: backup, _held: held } }
        };
        let mut held = Held::default();

        // What is kept already: where the backups were last time, then anywhere.
        let mut fitting = self.slabs.fitting();
        for (want, place) in wants.iter().zip(&mut rooms).filter(|(want, _)| want.may_stay()) {
            let piece = want.home.and_then(|home| fitting.take_home(home, want.size()));
            *place = piece.map(|piece| room(piece, want.bytes, None));
        }
        let mut missing = Vec::new();
        let mut others = Vec::new();
        for (index, want) in wants.iter().enumerate() {
            if !want.may_stay() {
                held.note(false, Why::Asked);
                others.push(index);
                continue;
            }
            if rooms[index].is_none() {
                let piece = fitting.take(want.home, want.size());
                rooms[index] = piece.map(|piece| room(piece, want.bytes, None));
            }
            match rooms[index] {
                Some(_) => held.note(true, why_kept(want.mode)),
                None => missing.push(index),
            }
        }
        drop(fitting);

        // What will be kept from now on.
        let new_bytes = |indices: &[usize]| total_bytes(indices.iter().map(|i| wants[*i].bytes));
        let limits = self.retain_limits(config, !missing.is_empty());
        let mut keeping = Vec::new();
        let mut planned = self.slabs.bytes();
        if !missing.is_empty() {
            let wanted = planned.saturating_add(new_bytes(&missing)?);
            let most = missing.iter().map(|index| limits.of(wants[*index].mode)).max().unwrap_or(0);
            if wanted > most {
                planned -= self.slabs.drop_idle(wanted - most);
            }
        }
        for index in missing {
            let want = wants[index];
            let after = planned.saturating_add(charged_bytes(want.bytes));
            if after <= limits.of(want.mode) {
                planned = after;
                held.note(true, why_kept(want.mode));
                keeping.push(index);
            } else {
                let asked = want.mode == HostMode::Retain || config.retain_limit_bytes.is_some();
                held.note(false, if asked { Why::Limit } else { Why::ShareTooSmall });
                others.push(index);
            }
        }
        others.sort_unstable();

        // All that is new is charged before any of it is mapped.
        let new = new_bytes(&keeping)?.saturating_add(new_bytes(&others)?);
        let (mut charge, pending) = self.charge(config, new)?;
        held.new_bytes = new;
        let made_for: Vec<_> = keeping.iter().map(|index| &wants[*index]).collect();
        let kept = self.slabs.make(&made_for, &mut charge)?;
        let carved = carve(others.iter().map(|index| wants[*index].size()));
        let carved = carved.inspect_err(|_| self.slabs.drop_those(&kept.slabs))?;
        for (index, piece) in keeping.into_iter().zip(kept.pieces) {
            rooms[index] = Some(room(piece, wants[index].bytes, None));
        }
        for (index, piece) in others.into_iter().zip(carved) {
            let held = charge.split(charged_bytes(wants[index].bytes));
            rooms[index] = Some(room(piece, wants[index].bytes, Some(held)));
        }
        Ok(Taken { rooms: rooms.into_iter().flatten().collect(), held, pending })
    }

    /// Gives retained memory that no backup is in back to the system; returns the bytes.
    pub(crate) fn trim(&self) -> u64 {
        self.refused.store(false, Ordering::Relaxed);
        let trimmed = self.slabs.trim();
        self.publish();
        trimmed
    }

    /// What is retained now, to compare with later.
    pub(crate) fn mark(&self) -> u64 {
        self.slabs.mark()
    }

    /// Gives back what has been retained since `mark`, where no backup is in it.
    pub(crate) fn back_to(&self, mark: u64) {
        self.slabs.drop_since(mark);
    }

    /// Whether registering retained memory was refused.
    pub(crate) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Registers retained memory that is not registered yet, by several threads; with `populate` its
    /// pages are taken first. Returns whether all of it is registered.
    pub(crate) fn register(&self, threads: usize, populate: bool) -> bool {
        let slabs = self.slabs.unregistered();
        let registered = !self.was_refused() && register(&self.driver, &slabs, threads, populate);
        if !registered && !process::is_exiting() {
            self.refused.store(true, Ordering::Relaxed);
        }
        registered
    }

    /// The same in the background, one at a time. With `new` the pages of what is pending are taken.
    pub(crate) fn register_in_background(
        self: &Arc<Self>,
        threads: usize,
        new: Option<Pending<D>>,
    ) {
        if self.was_refused()
            || self.slabs.unregistered().is_empty()
            || self.registering.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let host = Arc::clone(self);
        let spawned =
            std::thread::Builder::new().name("dormant-register".to_owned()).spawn(move || {
                host.register(threads, new.is_some());
                drop(new);
                host.registering.store(false, Ordering::Release);
            });
        if spawned.is_err() {
            self.registering.store(false, Ordering::Release);
        }
    }

    /// What these would take beyond what is retained, and what may be taken.
    pub(crate) fn need(&self, config: &Config, wants: &[Want<'_>]) -> Result<Need> {
        let mut fitting = self.slabs.fitting();
        let mut pieces = Vec::new();
        let mut missing = Vec::new();
        for want in wants {
            match want.may_stay().then(|| fitting.take(None, want.size())).flatten() {
                Some(piece) => pieces.push(piece),
                None => missing.push(want.bytes),
            }
        }
        let wanted_bytes = total_bytes(missing.into_iter())?;
        // Idle retained memory gives way where it must.
        let idle = self.slabs.idle_bytes();
        let allowed_bytes = self.allowance(config).bytes.saturating_add(idle);
        Ok(Need { wanted_bytes, allowed_bytes })
    }
}

/// What backups would take, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Beyond what is retained.
    pub(crate) wanted_bytes: u64,
    /// May be taken.
    pub(crate) allowed_bytes: u64,
}

fn why_kept(mode: HostMode) -> Why {
    if mode == HostMode::Retain { Why::Asked } else { Why::ShareAllows }
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
