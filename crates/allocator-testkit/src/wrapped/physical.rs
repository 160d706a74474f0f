//! Handles of physical memory, by number, and the memory behind them.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator_core::Device;

/// A handle of the wrapped driver, as a number that is never used again. The handle itself stays in
/// the wrapper, where it is found when this is lost.
#[derive(Debug)]
pub struct Physical<P> {
    pub(crate) id: u64,
    pub(super) device: Device,
    pub(crate) bytes: u64,
    of: PhantomData<fn() -> P>,
}

/// The handles that are not released.
#[derive(Debug)]
pub(crate) struct Handles<P>(Mutex<BTreeMap<u64, Handle<P>>>);

#[derive(Debug)]
struct Handle<P> {
    device: Device,
    bytes: u64,
    /// Shared with a `map` while that goes on.
    inner: Arc<P>,
}

impl<P> Default for Handles<P> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<P> Handles<P> {
    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, Handle<P>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, id: u64, device: Device, bytes: u64, inner: P) -> Physical<P> {
        self.live().insert(id, Handle { device, bytes, inner: Arc::new(inner) });
        Physical { id, device, bytes, of: PhantomData }
    }

    pub(super) fn get(&self, physical: &Physical<P>) -> Option<Arc<P>> {
        self.live().get(&physical.id).map(|handle| Arc::clone(&handle.inner))
    }

    pub(super) fn take(&self, physical: &Physical<P>) -> Option<P> {
        self.live().remove(&physical.id).and_then(|handle| Arc::into_inner(handle.inner))
    }

    /// All of them, once more.
    pub(crate) fn all(&self) -> Vec<Physical<P>> {
        let again = |(id, handle): (&u64, &Handle<P>)| Physical {
            id: *id,
            device: handle.device,
            bytes: handle.bytes,
            of: PhantomData,
        };
        self.live().iter().map(again).collect()
    }
}
