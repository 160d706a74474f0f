//! Devices and contexts: which is current, what is free, and waiting for all of it.

use std::sync::atomic::Ordering;

use super::Machine;
use super::answer::{Answer, Code};
use super::here;

impl Machine {
    /// Makes a device's context the calling thread's; `None` takes it away.
    ///
    /// # Errors
    /// `InvalidDevice`.
    pub fn set_current(&self, device: Option<u32>) -> Answer {
        if let Some(device) = device {
            self.core.device(device)?;
        }
        here::set_device(self.core.id, device);
        Ok(())
    }

    /// The device whose context is the calling thread's.
    #[must_use]
    pub fn current(&self) -> Option<u32> {
        here::device(self.core.id)
    }

    /// The current device, with a context on it.
    pub(crate) fn context(&self) -> Answer<u32> {
        let device = self.current().ok_or(Code::InvalidContext.because("no current device"))?;
        if self.core.device(device)?.contexts.load(Ordering::SeqCst) == 0 {
            return Err(Code::InvalidContext.because("no context is on the current device"));
        }
        Ok(device)
    }

    /// Makes the primary context of a device, or counts one more user of it
    /// (`cuDevicePrimaryCtxRetain`).
    ///
    /// # Errors
    /// `InvalidDevice`.
    pub fn context_retain(&self, device: u32) -> Answer {
        if self.core.device(device)?.contexts.fetch_add(1, Ordering::SeqCst) == 0 {
            self.core.contexts_made.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// One user less; the last one ends it.
    ///
    /// # Errors
    /// `InvalidDevice`; `InvalidContext` when there is none.
    pub fn context_release(&self, device: u32) -> Answer {
        self.core
            .device(device)?
            .contexts
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1))
            .map(|_| ())
            .map_err(|_| Code::InvalidContext.because("no context is on the device"))
    }

    /// Whether a device's primary context exists.
    #[must_use]
    pub fn has_context(&self, device: u32) -> bool {
        self.core.device(device).is_ok_and(|state| state.contexts.load(Ordering::SeqCst) > 0)
    }

    /// How many devices have a context now.
    #[must_use]
    pub fn contexts(&self) -> usize {
        let has = |state: &&super::core::DeviceState| state.contexts.load(Ordering::SeqCst) > 0;
        self.core.devices.iter().filter(has).count()
    }

    /// How many contexts have ever been made.
    #[must_use]
    pub fn contexts_made(&self) -> u64 {
        self.core.contexts_made.load(Ordering::SeqCst)
    }

    /// Free and total bytes of the current device (`cuMemGetInfo`).
    ///
    /// # Errors
    /// `InvalidContext`, and sticky errors.
    pub fn mem_info(&self) -> Answer<(u64, u64)> {
        self.core.enter();
        let device = self.context()?;
        self.core.alive(device)?;
        Ok((self.free_bytes(device)?, self.core.capacity))
    }

    /// Free bytes of a device by the books, which no error hides; not a driver call.
    ///
    /// # Errors
    /// `InvalidDevice`.
    pub fn free_bytes(&self, device: u32) -> Answer<u64> {
        let doomed = self.core.change().reap_lingering();
        self.core.bury(doomed);
        let used = self.core.change().pool(device)?.used;
        Ok(self.core.capacity.saturating_sub(used))
    }

    /// Waits for all streams of the current device (`cuCtxSynchronize`).
    ///
    /// # Errors
    /// `StreamCaptureUnsupported` during any capture in the context, which is then broken; sticky
    /// errors.
    pub fn context_synchronize(&self) -> Answer {
        self.core.enter();
        let device = self.context()?;
        self.core.refuse_context_wide(device)?;
        let marks = self.core.streams().marks(device);
        for mark in marks {
            mark.queue.wait(mark.ticket, &self.core);
        }
        self.settled(device)
    }

    /// After a wait: says what is sticky, once no work touches memory any more.
    pub(crate) fn settled(&self, device: u32) -> Answer {
        self.core.alive(device).inspect_err(|_| self.core.barrier())
    }

    /// Lets the calling thread's device reach memory of another (`cuCtxEnablePeerAccess`).
    ///
    /// # Errors
    /// `InvalidDevice` for itself or one that is not there, `NotSupported` without peers,
    /// `PeerAlreadyEnabled`.
    pub fn enable_peer(&self, to: u32) -> Answer {
        self.core.enter();
        let from = self.context()?;
        self.core.device(to)?;
        if from == to {
            return Err(Code::InvalidDevice.because("a device is no peer of itself"));
        }
        if !self.core.config.peers {
            return Err(Code::NotSupported.because("the devices are not peers"));
        }
        let mut memory = self.core.change();
        if memory.peers.contains(&(from, to)) {
            return Err(Code::PeerAlreadyEnabled.because("enabled before"));
        }
        memory.peers.push((from, to));
        Ok(())
    }

    /// Whether a device can be a peer of another.
    ///
    /// # Errors
    /// `InvalidDevice`.
    pub fn can_access_peer(&self, from: u32, to: u32) -> Answer<bool> {
        self.core.device(from)?;
        self.core.device(to)?;
        Ok(from != to && self.core.config.peers)
    }

    /// The device falls off the bus: its work ends without touching memory, and all that asks it
    /// gets `DeviceLost`. Not a driver call.
    ///
    /// # Errors
    /// `InvalidDevice`.
    pub fn lose_device(&self, device: u32) -> Answer {
        self.core.device(device)?.lost.store(true, Ordering::SeqCst);
        self.core.stir();
        self.core.barrier();
        Ok(())
    }
}
