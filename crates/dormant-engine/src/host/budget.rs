//! How much host memory may be taken.
//!
//! A container that goes over its limit is killed, without an error that anybody could handle. So
//! what there is is read before anything is touched, and a share of it is left to the other
//! processes of the node.

use allocator_core::{Driver, Error, ErrorKind, Operation, Result};
use dormant_host::Headroom;

use super::HostMemory;
use crate::config::Config;
use crate::policy::HostMode;
use crate::stash::Charge;

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
    pub(crate) headroom: Option<Headroom>,
}

impl<D: Driver> HostMemory<D> {
    /// What may still be taken: of the limit that is set; else this process's share of what the
    /// container and the machine have left. Without either, there is no limit.
    pub(crate) fn allowance(&self, config: &Config) -> Allowance {
        if let Some(limit) = config.host_limit_bytes {
            let bytes = limit.saturating_sub(self.held.charged_bytes());
            return Allowance { bytes, headroom: None };
        }
        let headroom = Headroom::read();
        let bytes = headroom.as_ref().map_or(u64::MAX, |headroom| {
            let shared = headroom.bytes.saturating_sub(config.host_margin_bytes);
            shared / config.ranks_on_node.max(1) as u64
        });
        Allowance { bytes, headroom }
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

    /// Charges new memory. Where there is too little, idle retained memory gives way.
    ///
    /// # Errors
    /// `HostMemory` with what was wanted and what there is.
    pub(super) fn charge(&self, config: &Config, bytes: u64) -> Result<Charge> {
        let mut allowance = Allowance { bytes: u64::MAX, headroom: None };
        if bytes > 0 {
            allowance = self.allowance(config);
        }
        if bytes > allowance.bytes && self.slabs.drop_idle(bytes - allowance.bytes) > 0 {
            allowance = self.allowance(config);
        }
        let charged = self.held.charged_bytes();
        let limit = charged.saturating_add(allowance.bytes);
        self.held.charge(bytes, Some(limit)).map_err(|charged| {
            let text = match (config.host_limit_bytes, allowance.headroom) {
                (Some(limit), _) => {
                    format!("backups may take {limit} bytes together, and take {charged} already")
                }
                (None, Some(headroom)) => format!(
                    "{} bytes may be taken: {headroom}; less a margin of {} bytes, divided by {} \
                     processes on the node",
                    allowance.bytes, config.host_margin_bytes, config.ranks_on_node
                ),
                (None, None) => "the backups together do not fit a number".to_owned(),
            };
            Error::new(ErrorKind::HostMemory, Operation::Engine, text).with_bytes(bytes)
        })
    }
}
