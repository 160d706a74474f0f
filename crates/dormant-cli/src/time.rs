//! Times for JSON.

use std::time::Duration;

/// Milliseconds, to the microsecond.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
