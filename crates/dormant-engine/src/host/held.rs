//! How host memory was held in a call, and why.

use crate::policy::HostMode;

/// How backups were held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    retained: bool,
    reclaimed: bool,
    why: Option<Why>,
    /// Bytes that were taken for it, and have not been touched yet.
    pub(super) new_bytes: u64,
}

/// Why host memory is held as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Asked,
    ShareAllows,
    ShareTooSmall,
    Limit,
}

/// Why memory of this mode is kept.
pub(super) fn why_kept(mode: HostMode) -> Why {
    if mode == HostMode::Retain { Why::Asked } else { Why::ShareAllows }
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

    pub(super) fn note(&mut self, kept: bool, why: Why) {
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

    /// How backups that are there are held; `pieces`: whether each is retained.
    pub(crate) fn of_copies(pieces: impl Iterator<Item = bool>) -> Self {
        let mut held = Self::default();
        for kept in pieces {
            held.retained |= kept;
            held.reclaimed |= !kept;
        }
        held
    }
}
