//! What can be done ahead of a pause, and what can be known of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use allocator_core::{Deadline, Driver};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::free::UNTOLD_TIMEOUT;
use crate::host;
use crate::pause::PauseOptions;
use crate::policy::{HostMode, Policy};
use crate::registry::{BlockState, Facts};
use crate::report::Amount;
use crate::sync::lock;
use crate::tag::Selection;

/// How to prepare.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PrepareOptions {
    /// Whether host memory is taken and registered in the background, when the call has returned.
    pub background: bool,
    /// Overrides how the host memory of the backups will be held: as the pause's own
    /// [`host_mode`](PauseOptions::host_mode).
    pub host_mode: Option<HostMode>,
}

impl PrepareOptions {
    /// Takes and registers host memory in the background.
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// For a pause that overrides how the host memory of its backups is held.
    #[must_use]
    pub fn host_mode(mut self, mode: HostMode) -> Self {
        self.host_mode = Some(mode);
        self
    }
}

/// What [`Engine::prepare`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Bytes of backups for which memory is retained now, in whole pages; the others' memory is not
    /// retained, so that there is nothing to prepare.
    pub bytes: u64,
    /// Whether all that is retained is registered. In the background it is not known yet.
    pub registered: bool,
}

/// What a pause would come to: see [`Engine::plan`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Blocks that would be paused, and physical bytes that their devices would get back.
    pub freed: Amount,
    /// Blocks that would be saved in host memory, and their logical bytes.
    pub host: Amount,
    /// Blocks that would be saved on disk, and their logical bytes.
    pub disk: Amount,
    /// Host memory that would have to be taken for that, in bytes of whole pages: what is not
    /// retained already.
    pub host_wanted_bytes: u64,
    /// Host memory that this process may take, in bytes: by the limit that is set, else its share of
    /// what the container and the machine have left; retained memory that would stay idle included.
    pub host_allowed_bytes: u64,
    /// What of `host_wanted_bytes` is not allowed. Zero: the pause has the memory that it needs. Ranks
    /// that pause together can take the maximum of this number over all of them, and pause only
    /// where that is zero.
    pub host_short_bytes: u64,
}

impl<D: Driver> Engine<D> {
    /// Makes the next pause of these blocks quick: takes the host memory for their backups that will be
    /// retained, registers it, and opens the lanes that will copy. Blocks that are paused already need
    /// nothing. Breaks no stream capture, and holds up no transition.
    ///
    /// Memory stays prepared until [`trim`](Self::trim), or until a pause of others finds no other; lanes are closed again when they have been
    /// idle for [`Config::idle_timeout`](crate::Config::idle_timeout).
    ///
    /// # Errors
    /// `HostMemory` when the budget does not allow it, or the system refuses, with nothing taken;
    /// `Forked` in a forked child. A refused registration is no error: copies are slower without.
    pub fn prepare(
        &self,
        selection: impl Into<Selection>,
        options: &PrepareOptions,
    ) -> Result<Prepared> {
        let selection = selection.into();
        let action = format!("preparing a pause of {selection}");
        self.admit(&action)?;
        self.drain();
        let pause = PauseOptions { host_mode: options.host_mode, ..PauseOptions::default() };
        let facts = self.active_facts(&selection);
        let saved = |facts: &&Arc<Facts>| matches!(facts.policy, Policy::Host | Policy::Disk);
        let devices: BTreeSet<_> = facts.iter().filter(saved).map(|facts| facts.device).collect();
        let on_host = facts.iter().filter(|facts| facts.policy == Policy::Host);
        let wants: Vec<_> = on_host.map(|facts| self.want(facts, &pause)).collect();
        let failed = |cause| Error::new(action.clone(), cause);
        let host::Taken { rooms, pending, .. } =
            self.host.take(&self.config, &wants).map_err(failed)?;
        let kept = rooms.iter().filter(|room| room.piece.is_kept());
        let bytes = kept.map(|room| room.piece.pages() as u64).sum();
        self.host.reserve(&wants, rooms);
        // New slabs count as untouched until they are populated.
        drop(pending);
        let workers = self.config.workers_for(devices.len());
        for device in devices {
            self.lanes.warm(device, workers);
        }
        self.reaper.staging_was_used();
        let registered = if options.background {
            self.host.register_in_background(workers);
            false
        } else {
            self.host.register(workers)
        };
        Ok(Prepared { bytes, registered })
    }

    /// What a pause with these options would come to, for the blocks that are active now: what it
    /// would free, save and take. Calls no driver and changes nothing. Others take memory as well, so
    /// that a pause may still fail; it then changes nothing either.
    ///
    /// # Errors
    /// `Forked` in a forked child.
    pub fn plan(&self, selection: impl Into<Selection>, options: &PauseOptions) -> Result<Plan> {
        let selection = selection.into();
        self.admit("plan")?;
        self.drain();
        let mut plan = Plan::default();
        let facts = self.active_facts(&selection);
        let mut wants = Vec::new();
        for facts in &facts {
            plan.freed.add(facts.physical_bytes);
            match options.policy.unwrap_or(facts.policy) {
                Policy::Host => {
                    plan.host.add(facts.bytes);
                    wants.push(self.want(facts, options));
                }
                Policy::Disk => plan.disk.add(facts.bytes),
                Policy::Discard | Policy::Zero => {}
            }
        }
        let failed = |cause| Error::new("plan", cause);
        let need = self.host.need(&self.config, &wants).map_err(failed)?;
        plan.host_wanted_bytes = need.wanted_bytes;
        plan.host_allowed_bytes = need.allowed_bytes;
        plan.host_short_bytes = need.wanted_bytes.saturating_sub(need.allowed_bytes);
        Ok(plan)
    }

    /// Backups of blocks that have just been resumed are on their way out: their places are free.
    fn drain(&self) {
        self.reaper.drain(Deadline::after(UNTOLD_TIMEOUT));
    }

    /// What is known of the active blocks of a selection.
    fn active_facts(&self, selection: &Selection) -> Vec<Arc<Facts>> {
        let registry = lock(&self.registry);
        let all = registry.iter().filter(|(_, facts, state, _)| {
            *state == BlockState::Active && selection.names(&facts.tag)
        });
        all.map(|(_, facts, ..)| Arc::clone(facts)).collect()
    }
}
