//! How much host memory may be taken.
//!
//! A container that goes over its limit is killed, without an error that anybody could handle. So
//! what there is is read before anything is touched. Several processes of a node that pause together
//! all read the same, so each claims what it is about to touch ([`Claims`]). Where the number of ranks
//! on the node is known, each has its equal share, whoever comes first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use allocator_core::{Driver, Error, ErrorKind, Operation, Result};
use dormant_host::{Claim, Claims, Headroom, Others};

use super::slabs::Kept;
use super::{Held, HostMemory};
use crate::config::Config;
use crate::policy::HostMode;
use crate::stash::Charge;

/// From so many new bytes on the other processes are told, and it is looked at what is left while the
/// bytes are touched.
const LARGE_BYTES: u64 = 16 << 20;

/// How long to wait for other processes that look at the same time: they need some milliseconds. Then
/// it goes on without knowing what they claim.
const PATIENCE: Duration = Duration::from_secs(1);

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
    /// What it was read from, if it was not set; and what others are about to take of that.
    read: Option<(Headroom, u64)>,
}

/// What this process has of host memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    held: u64,
    /// What of that no reading shows yet.
    untouched: u64,
}

impl Allowance {
    const UNLIMITED: Self = Self { bytes: u64::MAX, read: None };

    /// By all limits that have been read: the least that one of them leaves.
    fn of(config: &Config, limits: Vec<Headroom>, others: &Others, own: Own) -> Self {
        let each = limits.into_iter().map(|headroom| {
            let claim = others.within(&headroom.source);
            let taken = [claim.pending_bytes, own.untouched, config.host_margin_bytes];
            let left = taken.iter().fold(headroom.bytes, |left, bytes| left.saturating_sub(*bytes));
            // What all have, and what is left, in equal parts.
            let ranks = config.ranks_on_node.max(1) as u64;
            let all = left.saturating_add(claim.held_bytes).saturating_add(own.held);
            let share = (all / ranks).saturating_sub(own.held);
            let bytes = if ranks > 1 { left.min(share) } else { left };
            Self { bytes, read: Some((headroom, claim.pending_bytes)) }
        });
        each.min_by_key(|allowance| allowance.bytes).unwrap_or(Self::UNLIMITED)
    }
}

impl<D: Driver> HostMemory<D> {
    fn claims(&self) -> Option<&Claims> {
        self.claims.get_or_init(Claims::join).as_ref()
    }

    fn own(&self) -> Own {
        let pending = self.pending.load(Ordering::Relaxed);
        let untouched = pending.saturating_add(self.slabs.untouched_bytes());
        Own { held: self.held.charged_bytes(), untouched }
    }

    /// What may still be taken: of the limit that is set; else of what the container and the machine
    /// have left, as long as that is shared with the other ranks of the node. Without either, there is
    /// no limit.
    pub(super) fn allowance(&self, config: &Config) -> Allowance {
        if let Some(limit) = config.host_limit_bytes {
            let bytes = limit.saturating_sub(self.held.charged_bytes());
            return Allowance { bytes, read: None };
        }
        let entered = self.claims().and_then(|claims| claims.enter(PATIENCE));
        let others = entered.map(|entered| entered.others()).unwrap_or_default();
        Allowance::of(config, Headroom::read_all(), &others, self.own())
    }

    /// What may be retained.
    pub(super) fn retain_limits(&self, config: &Config) -> RetainLimits {
        if let Some(limit) = config.retain_limit_bytes {
            return RetainLimits { asked: limit, auto: limit };
        }
        let all = self.allowance(config).bytes.saturating_add(self.held.charged_bytes());
        RetainLimits { asked: u64::MAX, auto: all / 2 }
    }

    /// Charges new memory, and claims it. `give_way` bytes of idle retained memory are given back for
    /// it, and as much as is missing, if so much is idle.
    ///
    /// # Errors
    /// `HostMemory` with what was wanted and what there is.
    pub(super) fn charge(&self, config: &Config, bytes: u64, give_way: u64) -> Result<Charge> {
        let (error, missing) = match self.charge_once(config, bytes, give_way) {
            Ok(charge) => return Ok(charge),
            Err(refused) => refused,
        };
        self.await_registering();
        if self.idle_bytes(missing) < missing {
            return Err(error);
        }
        self.slabs.drop_idle(missing);
        let again = self.charge_once(config, bytes, give_way.saturating_sub(missing));
        again.map_err(|(error, _)| error)
    }

    /// The error comes with how many bytes are missing.
    fn charge_once(
        &self,
        config: &Config,
        bytes: u64,
        give_way: u64,
    ) -> Result<Charge, (Error, u64)> {
        let large = bytes >= LARGE_BYTES;
        let claims = if large { self.claims() } else { None };
        // Until this has been said nobody else may look.
        let entered = claims.and_then(|claims| claims.enter(PATIENCE));
        let allowance = match (bytes, &entered) {
            (0, _) => Allowance::UNLIMITED,
            (_, Some(entered)) if config.host_limit_bytes.is_none() => {
                Allowance::of(config, Headroom::read_all(), &entered.others(), self.own())
            }
            _ => self.allowance(config),
        };
        let missing = bytes.saturating_sub(allowance.bytes.saturating_add(give_way));
        if missing > 0 {
            return Err((self.refusal(config, bytes, &allowance), missing));
        }
        self.slabs.drop_idle(give_way);
        let charge = self.held.charge(bytes, None);
        let charge = charge.map_err(|_| (self.refusal(config, bytes, &allowance), bytes))?;
        if let Some(claims) = claims {
            let Own { held, untouched } = self.own();
            let pending_bytes = untouched.saturating_add(bytes);
            claims.say(Claim { held_bytes: held, pending_bytes });
        }
        Ok(charge)
    }

    fn refusal(&self, config: &Config, bytes: u64, allowance: &Allowance) -> Error {
        let allowed = allowance.bytes;
        let mut text = format!("{bytes} bytes more are wanted, and {allowed} may be taken");
        match (config.host_limit_bytes, &allowance.read) {
            (Some(limit), _) => {
                let (held, retained) = (self.held.charged_bytes(), self.slabs.bytes());
                text += &format!(
                    ": of the limit of {limit} bytes {held} are held, {retained} of them retained; what \
                     is lent out counts until it is given back"
                );
            }
            (None, Some((headroom, pending))) => {
                let margin = config.host_margin_bytes;
                text += &format!(": {headroom}, and {margin} bytes stay free");
                if *pending > 0 {
                    text += &format!("; other processes are about to take {pending} bytes");
                }
                if config.ranks_on_node > 1 {
                    text += &format!("; {} ranks have equal shares", config.ranks_on_node);
                }
            }
            (None, None) => {}
        }
        Error::new(ErrorKind::HostMemory, Operation::Engine, text).with_bytes(bytes)
    }

    /// Says to the other processes what this one holds now.
    pub(crate) fn publish(&self) {
        if let Some(Some(claims)) = self.claims.get() {
            let Own { held, untouched } = self.own();
            claims.say(Claim { held_bytes: held, pending_bytes: untouched });
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

/// Memory that was charged and has not been touched yet. New slabs count as untouched until that is
/// said; what goes back counts as long as this lives.
#[derive(Debug)]
#[must_use = "other processes are told of it as long as this lives"]
pub(crate) struct Pending<D: Driver> {
    host: Arc<HostMemory<D>>,
    going_back_bytes: u64,
    slabs: Vec<Arc<Kept>>,
}

impl<D: Driver> Pending<D> {
    pub(super) fn new(
        host: &Arc<HostMemory<D>>,
        going_back_bytes: u64,
        slabs: Vec<Arc<Kept>>,
    ) -> Self {
        host.pending.fetch_add(going_back_bytes, Ordering::Relaxed);
        host.publish();
        Self { host: Arc::clone(host), going_back_bytes, slabs }
    }

    /// All of it has been written.
    pub(crate) fn touched(self) {
        self.slabs.iter().for_each(|kept| kept.touched());
    }
}

impl<D: Driver> Drop for Pending<D> {
    fn drop(&mut self) {
        self.host.pending.fetch_sub(self.going_back_bytes, Ordering::Relaxed);
        self.host.publish();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use dormant_host::HeadroomSource;

    use super::*;

    /// `others`: what one other process of the same machine holds, and has pending.
    fn allowed(ranks: usize, left: u64, others: Claim, own: Own) -> u64 {
        let config = Config { ranks_on_node: ranks, host_margin_bytes: 10, ..Config::default() };
        let source = HeadroomSource::Machine { total_bytes: 0 };
        let limits = vec![Headroom { bytes: left, source }];
        Allowance::of(&config, limits, &[others].into_iter().collect(), own).bytes
    }

    fn holds(held: u64) -> Own {
        Own { held, untouched: 0 }
    }

    #[test]
    fn a_margin_stays_free_and_what_is_about_to_be_taken_is_not() {
        let none = Claim::default();
        assert_eq!(allowed(1, 110, none, holds(0)), 100);
        assert_eq!(allowed(1, 110, Claim { held_bytes: 50, pending_bytes: 30 }, holds(7)), 70);
        assert_eq!(allowed(1, 110, none, Own { held: 60, untouched: 40 }), 60);
        assert_eq!(allowed(1, 5, none, holds(0)), 0);
        let unlimited = Allowance::of(&Config::default(), vec![], &Others::default(), holds(0));
        assert_eq!(unlimited.bytes, u64::MAX);
    }

    #[test]
    fn each_rank_has_its_share_whoever_comes_first() {
        let mut left = 810;
        let mut held = 0;
        for _ in 0..8 {
            let others = Claim { held_bytes: held, pending_bytes: 0 };
            assert_eq!(allowed(8, left, others, holds(0)), 100);
            assert_eq!(allowed(8, left, others, holds(40)), (800 - held + held + 40) / 8 - 40);
            (left, held) = (left - 100, held + 100);
        }
        let others = Claim { held_bytes: held, pending_bytes: 0 };
        assert_eq!(allowed(8, left, others, holds(0)), 0);
    }

    #[test]
    fn never_more_than_there_is_whatever_the_shares() {
        // The others hold more than their shares.
        let others = Claim { held_bytes: 700, pending_bytes: 0 };
        assert_eq!(allowed(2, 110, others, holds(0)), 100);
    }

    #[test]
    fn the_least_of_several_limits_counts() {
        let config = Config { host_margin_bytes: 0, ..Config::default() };
        let source = HeadroomSource::Machine { total_bytes: 0 };
        let limits = [30, 20, 25].map(|bytes| Headroom { bytes, source: source.clone() });
        let allowance = Allowance::of(&config, limits.into(), &Others::default(), holds(0));
        assert_eq!(allowance.bytes, 20);
    }
}
