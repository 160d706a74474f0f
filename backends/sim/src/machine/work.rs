//! What a stream does: copies, fills and kernels, in chunks, each under a lock that keeps memory
//! mapped.

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use allocator_core::Access;

use super::addresses::length;
use super::answer::{Answer, Code, Refusal};
use super::core::Core;
use super::link::Link;

/// The body of a kernel.
pub(crate) type Body = Arc<dyn Fn(&Lane<'_>) + Send + Sync>;

/// One piece of work. Host addresses are numbers, as they are for a driver.
#[derive(Clone)]
pub(crate) enum Work {
    ToHost { from: u64, to: u64, bytes: u64 },
    ToDevice { to: u64, from: u64, bytes: u64 },
    Within { to: u64, from: u64, bytes: u64 },
    Fill { at: u64, byte: u8, bytes: u64 },
    Kernel { busy: Duration, body: Body },
    Nothing,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToHost { from, bytes, .. } => write!(f, "ToHost({from:#x}, {bytes})"),
            Self::ToDevice { to, bytes, .. } => write!(f, "ToDevice({to:#x}, {bytes})"),
            Self::Within { to, from, bytes } => write!(f, "Within({from:#x}, {to:#x}, {bytes})"),
            Self::Fill { at, bytes, .. } => write!(f, "Fill({at:#x}, {bytes})"),
            Self::Kernel { busy, .. } => write!(f, "Kernel({busy:?})"),
            Self::Nothing => f.write_str("Nothing"),
        }
    }
}

const ILLEGAL: Refusal =
    Code::IllegalAddress.because("work touched memory that is not mapped or not accessible");
const BAD_HOST: Refusal = Code::InvalidValue.because("the host bytes cannot be read or written");

impl Core {
    /// What the work needs to be queued at all.
    pub(crate) fn check_work(&self, device: u32, work: &Work) -> Answer {
        let memory = self.look();
        match *work {
            Work::ToHost { from, bytes, .. } => memory.check(device, from, bytes, Access::READ),
            Work::ToDevice { to, bytes, .. } => memory.check(device, to, bytes, Access::WRITE),
            Work::Within { to, from, bytes } => memory
                .check(device, from, bytes, Access::READ)
                .and_then(|()| memory.check(device, to, bytes, Access::WRITE)),
            Work::Fill { at, bytes, .. } => memory.check(device, at, bytes, Access::WRITE),
            Work::Kernel { .. } | Work::Nothing => Ok(()),
        }
    }

    /// Does the work in the calling thread. Memory that has gone meanwhile makes the error sticky.
    ///
    /// # Safety
    /// The host bytes of a copy are valid for its length, and nobody else uses them meanwhile.
    pub(crate) unsafe fn perform(&self, device: u32, work: &Work) -> Answer {
        let state = self.device(device)?;
        match work {
            &Work::ToHost { from, to, bytes } => {
                self.chunks(device, bytes, Some(&state.down), |done, step| {
                    // SAFETY: within the host bytes of this copy (the caller's promise).
                    unsafe { self.read_step(device, from + done, to + done, step) }
                })
            }
            &Work::ToDevice { to, from, bytes } => {
                self.chunks(device, bytes, Some(&state.up), |done, step| {
                    // SAFETY: within the host bytes of this copy (the caller's promise).
                    let bytes = unsafe { host_bytes(from + done, step) };
                    self.write_step(device, to + done, bytes)
                })
            }
            &Work::Within { to, from, bytes } => {
                let mut bounce = vec![0; length(bytes.min(1 << 20))];
                self.chunks(device, bytes, None, |done, step| {
                    let part = bounce.get_mut(..length(step)).unwrap_or_default();
                    let step = self.read_slice(device, from + done, part)?;
                    let part = part.get(..length(step)).unwrap_or_default();
                    self.write_all(device, to + done, part)?;
                    Ok(step)
                })
            }
            &Work::Fill { at, byte, bytes } => {
                let pattern = vec![byte; length(bytes.min(1 << 20))];
                self.chunks(device, bytes, None, |done, step| {
                    let part = pattern.get(..length(step)).unwrap_or_default();
                    self.write_step(device, at + done, part)
                })
            }
            Work::Kernel { busy, body } => {
                self.halt.sleep(*busy);
                body(&Lane { core: self, device });
                Ok(())
            }
            Work::Nothing => Ok(()),
        }
    }

    /// Runs `step(done, bytes)` over all bytes; it says how many it has done. Waits for the link
    /// between steps, outside all locks.
    fn chunks(
        &self,
        device: u32,
        bytes: u64,
        link: Option<&Link>,
        mut step: impl FnMut(u64, u64) -> Answer<u64>,
    ) -> Answer {
        let chunk = link.map_or(1 << 20, Link::chunk_bytes);
        let mut done = 0;
        while done < bytes {
            if self.halt.is_halted() {
                return Ok(());
            }
            let moved = step(done, chunk.min(bytes - done))
                .inspect_err(|refusal| {
                    if refusal.code == Code::IllegalAddress && self.alive(device).is_ok() {
                        self.poison();
                    }
                })?
                .max(1);
            done += moved;
            if let Some(link) = link {
                link.pass(moved, &self.halt);
            }
        }
        Ok(())
    }

    /// Copies up to `bytes` to the host, as far as memory is mapped in one stretch.
    ///
    /// # Safety
    /// `to` is the address of `bytes` bytes that may be written, and nobody else uses meanwhile.
    unsafe fn read_step(&self, device: u32, from: u64, to: u64, bytes: u64) -> Answer<u64> {
        let memory = self.look();
        self.alive(device)?;
        let stretch = memory.stretch(device, from, bytes, Access::READ).ok_or(ILLEGAL)?;
        // SAFETY: the caller's promise, for at most as many bytes; `MaybeUninit` asks for no
        // contents.
        let target = unsafe {
            std::slice::from_raw_parts_mut(
                ptr::with_exposed_provenance_mut::<MaybeUninit<u8>>(length(to)),
                length(stretch.bytes),
            )
        };
        self.device(stretch.owner)?.arena.read(stretch.at, target).map_err(|_| BAD_HOST)?;
        Ok(stretch.bytes)
    }

    fn read_slice(&self, device: u32, from: u64, to: &mut [u8]) -> Answer<u64> {
        let at = to.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: the bytes of `to`, which is borrowed mutably for this call.
        unsafe { self.read_step(device, from, at, to.len() as u64) }
    }

    fn write_step(&self, device: u32, to: u64, from: &[u8]) -> Answer<u64> {
        let memory = self.look();
        self.alive(device)?;
        let bytes = from.len() as u64;
        let stretch = memory.stretch(device, to, bytes, Access::WRITE).ok_or(ILLEGAL)?;
        let part = from.get(..length(stretch.bytes)).unwrap_or_default();
        self.device(stretch.owner)?.arena.write(stretch.at, part).map_err(|_| BAD_HOST)?;
        Ok(stretch.bytes)
    }

    fn write_all(&self, device: u32, to: u64, from: &[u8]) -> Answer {
        let mut done = 0;
        while let Some(rest) = from.get(length(done)..).filter(|rest| !rest.is_empty()) {
            done += self.write_step(device, to + done, rest)?;
        }
        Ok(())
    }
}

/// The bytes of a copy's host side.
///
/// # Safety
/// `at` is the address of `bytes` initialised bytes that nobody writes while the result lives.
unsafe fn host_bytes<'a>(at: u64, bytes: u64) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance(length(at)), length(bytes)) }
}

/// What a kernel sees: device memory as its device may use it. A bad access makes the error
/// sticky and is returned, so that the kernel can stop; later ones fail too.
pub struct Lane<'a> {
    core: &'a Core,
    device: u32,
}

impl fmt::Debug for Lane<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Lane<'_> {
    /// The device that the kernel runs on.
    #[must_use]
    pub fn device(&self) -> u32 {
        self.device
    }

    /// Reads device memory.
    ///
    /// # Errors
    /// `IllegalAddress`, sticky; `DeviceLost`.
    pub fn read(&self, from: u64, to: &mut [u8]) -> Answer {
        let bytes = to.len() as u64;
        self.core.chunks(self.device, bytes, None, |done, step| {
            let part = to.get_mut(length(done)..length(done + step)).unwrap_or_default();
            self.core.read_slice(self.device, from.wrapping_add(done), part)
        })
    }

    /// Writes device memory.
    ///
    /// # Errors
    /// `IllegalAddress`, sticky; `DeviceLost`.
    pub fn write(&self, to: u64, from: &[u8]) -> Answer {
        let bytes = from.len() as u64;
        self.core.chunks(self.device, bytes, None, |done, step| {
            let part = from.get(length(done)..length(done + step)).unwrap_or_default();
            self.core.write_step(self.device, to.wrapping_add(done), part)
        })
    }

    /// Sets device memory to one byte.
    ///
    /// # Errors
    /// `IllegalAddress`, sticky; `DeviceLost`.
    pub fn fill(&self, at: u64, byte: u8, bytes: u64) -> Answer {
        // SAFETY: a fill has no host bytes.
        unsafe { self.core.perform(self.device, &Work::Fill { at, byte, bytes }) }
    }

    /// Keeps the device busy, between two accesses.
    pub fn sleep(&self, time: Duration) {
        self.core.halt.sleep(time);
    }
}
