//! How much host memory may be taken.
//!
//! A container that goes over its limit is killed, without an error that anybody could handle. So
//! what there is is read before anything is touched. Several processes of a node that pause together
//! all read the same, so each claims what it is about to touch ([`Claims`]). Where the number of ranks
//! on the node is known, each has its equal share, whoever comes first.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use allocator_core::{Driver, Error, ErrorKind, Operation, Result};
use dormant_host::{Claim, Claims, Headroom};

use super::{Held, HostMemory};
use crate::config::Config;
use crate::policy::HostMode;
use crate::stash::Charge;

/// From so many new bytes on the other processes are told, and it is looked at what is left while the
/// bytes are touched.
const LARGE_BYTES: u64 = 16 << 20;

/// What may be retained in all, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetainLimits {
    asked: u64,
    auto: u64,
}

impl RetainLimits {
    pub(super) fn of(self, mode: HostMode) -> u64 {
        match mode {
            HostMode::Retain => self.asked,
            HostMode::Auto => self.auto,
            HostMode::Reclaim => 0,
        }
    }
}

/// What backups may still take, in bytes, and who says so.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    pub(crate) bytes: u64,
    /// Where it was read, not set.
    headroom: Option<Headroom>,
    others: Claim,
}

impl Allowance {
    /// By what has been read. `own_bytes`: what this process holds already.
    fn of(config: &Config, headroom: Option<Headroom>, others: Claim, own_bytes: u64) -> Self {
        let bytes = headroom.as_ref().map_or(u64::MAX, |headroom| {
            let ranks = config.ranks_on_node.max(1) as u64;
            let taken = others.pending_bytes.saturating_add(config.host_margin_bytes);
            let left = headroom.bytes.saturating_sub(taken);
            // What all have, and what is left, in equal parts.
            let all = left.saturating_add(others.held_bytes).saturating_add(own_bytes);
            let share = (all / ranks).saturating_sub(own_bytes);
            if ranks > 1 { left.min(share) } else { left }
        });
        Self { bytes, headroom, others }
    }
}

impl<D: Driver> HostMemory<D> {
    fn claims(&self) -> Option<&Claims> {
        self.claims.get_or_init(Claims::join).as_ref()
    }

    /// What may still be taken: of the limit that is set; else of what the container and the machine
    /// have left, as long as that is shared with the other ranks of the node. Without either, there is
    /// no limit.
    pub(crate) fn allowance(&self, config: &Config) -> Allowance {
        let held = self.held.charged_bytes();
        if let Some(limit) = config.host_limit_bytes {
            let bytes = limit.saturating_sub(held);
            return Allowance { bytes, headroom: None, others: Claim::default() };
        }
        let entered = self.claims().and_then(Claims::enter);
        let others = entered.map(|entered| entered.others()).unwrap_or_default();
        Allowance::of(config, Headroom::read(), others, held)
    }

    /// What may be retained; `exact`: it matters, so the budget is looked at.
    pub(super) fn retain_limits(&self, config: &Config, exact: bool) -> RetainLimits {
        if let Some(limit) = config.retain_limit_bytes {
            return RetainLimits { asked: limit, auto: limit };
        }
        if !exact {
            return RetainLimits { asked: u64::MAX, auto: u64::MAX };
        }
        let all = self.allowance(config).bytes.saturating_add(self.held.charged_bytes());
        RetainLimits { asked: u64::MAX, auto: all / 2 }
    }

    /// Charges new memory, and claims it as long as it is [`Pending`]. Where there is too little, idle
    /// retained memory gives way.
    ///
    /// # Errors
    /// `HostMemory` with what was wanted and what there is.
    pub(super) fn charge(
        self: &Arc<Self>,
        config: &Config,
        bytes: u64,
    ) -> Result<(Charge, Pending<D>)> {
        match self.charge_once(config, bytes) {
            Err((_, missing)) if self.slabs.drop_idle(missing) > 0 => {
                self.charge_once(config, bytes).map_err(|(error, _)| error)
            }
            charged => charged.map_err(|(error, _)| error),
        }
    }

    /// The error comes with how many bytes are missing.
    fn charge_once(
        self: &Arc<Self>,
        config: &Config,
        bytes: u64,
    ) -> Result<(Charge, Pending<D>), (Error, u64)> {
        let large = bytes >= LARGE_BYTES;
        let claims = if large { self.claims() } else { None };
        // Until this has been said nobody else may look.
        let entered = claims.and_then(Claims::enter);
        let allowance = match (bytes, config.host_limit_bytes) {
            (0, _) => Allowance { bytes: 0, headroom: None, others: Claim::default() },
            (_, None) if large => {
                let others = entered.as_ref().map(|entered| entered.others()).unwrap_or_default();
                Allowance::of(config, Headroom::read(), others, self.held.charged_bytes())
            }
            _ => self.allowance(config),
        };
        let limit = self.held.charged_bytes().saturating_add(allowance.bytes);
        let charge = self.held.charge(bytes, Some(limit)).map_err(|charged| {
            let missing = bytes.saturating_sub(allowance.bytes);
            (refusal(config, bytes, charged, &allowance), missing)
        })?;
        self.pending.fetch_add(bytes, Ordering::Relaxed);
        self.publish();
        Ok((charge, Pending { host: Arc::clone(self), bytes }))
    }

    /// Says to the other processes what this one holds now.
    pub(crate) fn publish(&self) {
        if let Some(Some(claims)) = self.claims.get() {
            claims.say(Claim {
                held_bytes: self.held.charged_bytes(),
                pending_bytes: self.pending.load(Ordering::Relaxed),
            });
        }
    }

    /// For the time when memory that was charged is touched: whether there still is some, since
    /// others take memory as well. `None` where nobody need look: little is new, or a limit is set.
    pub(crate) fn watch(
        &self,
        config: &Config,
        held: Held,
    ) -> Option<impl Fn() -> Result<()> + use<D>> {
        let least = config.host_margin_bytes / 2;
        let needed = config.host_limit_bytes.is_none() && held.new_bytes >= LARGE_BYTES;
        needed.then_some(move || match Headroom::read() {
            Some(headroom) if headroom.bytes < least => {
                let text = format!("host memory has become short during the pause: {headroom}");
                Err(Error::new(ErrorKind::HostMemory, Operation::Engine, text))
            }
            _ => Ok(()),
        })
    }
}

/// Memory that was charged and has not been touched yet.
#[derive(Debug)]
#[must_use = "other processes are told of it as long as this lives"]
pub(crate) struct Pending<D: Driver> {
    host: Arc<HostMemory<D>>,
    bytes: u64,
}

impl<D: Driver> Drop for Pending<D> {
    fn drop(&mut self) {
        self.host.pending.fetch_sub(self.bytes, Ordering::Relaxed);
        self.host.publish();
    }
}

fn refusal(config: &Config, bytes: u64, charged: u64, allowance: &Allowance) -> Error {
    let text = match (config.host_limit_bytes, &allowance.headroom) {
        (Some(limit), _) => {
            format!("backups may take {limit} bytes together, and take {charged} already")
        }
        (None, Some(headroom)) => {
            let margin = config.host_margin_bytes;
            let mut text = format!(
                "{} bytes may be taken: {headroom}, and {margin} stay free",
                allowance.bytes
            );
            if allowance.others.pending_bytes > 0 {
                let pending = allowance.others.pending_bytes;
                text += &format!("; other processes are about to take {pending} bytes");
            }
            if config.ranks_on_node > 1 {
                text += &format!("; {} ranks have equal shares", config.ranks_on_node);
            }
            text
        }
        (None, None) => "the backups together do not fit a number".to_owned(),
    };
    Error::new(ErrorKind::HostMemory, Operation::Engine, text).with_bytes(bytes)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use dormant_host::HeadroomSource;

    use super::*;

    fn allowed(ranks: usize, left: u64, others: Claim, own: u64) -> u64 {
        let config = Config { ranks_on_node: ranks, host_margin_bytes: 10, ..Config::default() };
        let source = HeadroomSource::Machine { total_bytes: 0 };
        let headroom = Headroom { bytes: left, source };
        Allowance::of(&config, Some(headroom), others, own).bytes
    }

    #[test]
    fn a_margin_stays_free_and_what_others_are_about_to_take_is_theirs() {
        let none = Claim::default();
        assert_eq!(allowed(1, 110, none, 0), 100);
        assert_eq!(allowed(1, 110, Claim { held_bytes: 50, pending_bytes: 30 }, 7), 70);
        assert_eq!(allowed(1, 5, none, 0), 0);
        let config = Config::default();
        assert_eq!(Allowance::of(&config, None, none, 0).bytes, u64::MAX);
    }

    #[test]
    fn each_rank_has_its_share_whoever_comes_first() {
        let mut left = 810;
        let mut held = 0;
        for _ in 0..8 {
            let others = Claim { held_bytes: held, pending_bytes: 0 };
            assert_eq!(allowed(8, left, others, 0), 100);
            assert_eq!(allowed(8, left, others, 40), (800 - held + held + 40) / 8 - 40);
            (left, held) = (left - 100, held + 100);
        }
        assert_eq!(allowed(8, left, Claim { held_bytes: held, pending_bytes: 0 }, 0), 0);
    }

    #[test]
    fn never_more_than_there_is_whatever_the_shares() {
        // The others hold more than their shares.
        let others = Claim { held_bytes: 700, pending_bytes: 0 };
        assert_eq!(allowed(2, 110, others, 0), 100);
    }
}
