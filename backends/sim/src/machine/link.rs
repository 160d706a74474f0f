//! The way between host and device, which all copies of one direction share.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::core::{Halt, lock};

const MOST_CHUNK_BYTES: u64 = 1 << 20;
const LEAST_CHUNK_BYTES: u64 = 16 << 10;

/// One direction.
#[derive(Debug)]
pub(crate) struct Link {
    bytes_per_second: Option<u64>,
    busy_until: Mutex<Option<Instant>>,
}

impl Link {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, busy_until: Mutex::new(None) }
    }

    /// How much a copy moves at a time: about 5 ms of a slow link.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.bytes_per_second.map_or(MOST_CHUNK_BYTES, |speed| {
            (speed / 200).clamp(LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES)
        })
    }

    /// Waits for as long as these bytes take, after what others have on the link before them.
    pub(crate) fn pass(&self, bytes: u64, halt: &Halt) {
        let Some(speed) = self.bytes_per_second else { return };
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(speed.max(1));
        let takes = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let until = {
            let mut busy_until = lock(&self.busy_until);
            let now = Instant::now();
            let start = busy_until.map_or(now, |until| until.max(now));
            let until = start.checked_add(takes).unwrap_or(start);
            *busy_until = Some(until);
            until
        };
        halt.sleep_until(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_copies_share_one_link() {
        let link = Link::new(Some(10 << 20));
        let halt = Halt::default();
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| link.pass(512 << 10, &halt));
            }
        });
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(95), "{took:?}");
    }

    #[test]
    fn a_link_without_a_speed_waits_for_nothing() {
        let start = Instant::now();
        Link::new(None).pass(u64::MAX, &Halt::default());
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
