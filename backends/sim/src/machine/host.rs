//! Registered host memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::answer::{Answer, Code};
use super::core::lock;

/// Copies that are queued on one registration.
#[derive(Debug, Default)]
struct Queued {
    copies: Mutex<u64>,
    fell: Condvar,
}

/// One queued copy; ends when dropped.
#[derive(Debug)]
pub(crate) struct QueuedCopy(Arc<Queued>);

impl QueuedCopy {
    fn new(queued: &Arc<Queued>) -> Self {
        *lock(&queued.copies) += 1;
        Self(Arc::clone(queued))
    }
}

impl Drop for QueuedCopy {
    fn drop(&mut self) {
        *lock(&self.0.copies) -= 1;
        self.0.fell.notify_all();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Registrations {
    by_start: Mutex<BTreeMap<u64, (u64, Arc<Queued>)>>,
}

impl Registrations {
    pub(crate) fn register(&self, at: u64, bytes: u64) -> Answer {
        let end = at
            .checked_add(bytes)
            .filter(|_| at != 0 && bytes > 0)
            .ok_or(Code::InvalidValue.because("no host memory"))?;
        let mut by_start = lock(&self.by_start);
        let before = by_start.range(..end).next_back();
        if before.is_some_and(|(start, (length, _))| start + length > at) {
            return Err(Code::HostAlreadyRegistered.because("some of it is registered already"));
        }
        by_start.insert(at, (bytes, Arc::default()));
        Ok(())
    }

    /// Waits for queued copies, as CUDA does.
    pub(crate) fn unregister(&self, at: u64) -> Answer {
        let (_, queued) = lock(&self.by_start)
            .remove(&at)
            .ok_or(Code::HostNotRegistered.because("no registration starts there"))?;
        let mut copies = lock(&queued.copies);
        while *copies > 0 {
            copies = queued.fell.wait(copies).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Checks the host side of an asynchronous copy: within one registration, or outside all.
    pub(crate) fn queue(&self, at: u64, bytes: u64) -> Answer<Option<QueuedCopy>> {
        let end = at
            .checked_add(bytes)
            .filter(|_| at != 0)
            .ok_or(Code::InvalidValue.because("no host memory"))?;
        let by_start = lock(&self.by_start);
        match by_start.range(..end).next_back() {
            Some((start, (length, queued))) if start + length > at => {
                if *start <= at && end <= start + length {
                    return Ok(Some(QueuedCopy::new(queued)));
                }
                Err(Code::InvalidValue.because("the host bytes cross the border of a registration"))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.by_start).values().map(|(bytes, _)| bytes).sum()
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.by_start).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_lies_within_one_registration_or_outside_all() {
        let registrations = Registrations::default();
        registrations.register(0x1000, 0x1000).unwrap();
        registrations.register(0x2000, 0x1000).unwrap();
        assert!(registrations.queue(0x1000, 0x1000).unwrap().is_some());
        assert!(registrations.queue(0x3000, 0x1000).unwrap().is_none());
        for (at, bytes) in [(0x1800, 0x1000), (0x800, 0x1000), (0x2800, 0x1000), (0x800, 0x9000)] {
            assert_eq!(registrations.queue(at, bytes).unwrap_err().code, Code::InvalidValue);
        }
        assert_eq!(registrations.bytes(), 0x2000);
    }

    #[test]
    fn registrations_do_not_overlap_and_end_once() {
        let registrations = Registrations::default();
        registrations.register(0x1000, 0x1000).unwrap();
        let again = registrations.register(0x1fff, 1).unwrap_err();
        assert_eq!(again.code, Code::HostAlreadyRegistered);
        registrations.unregister(0x1000).unwrap();
        let again = registrations.unregister(0x1000).unwrap_err();
        assert_eq!(again.code, Code::HostNotRegistered);
    }
}
