//! One block of pausable memory. Its state is a type, and every transition consumes it.

use std::sync::Arc;

use crate::backing::{Backing, MapFailed};
use crate::device::{Address, Device};
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::range::Range;
use crate::size::Granularity;

/// Physical memory is mapped, and the contents are the program's.
#[derive(Debug)]
pub struct Active<D: Driver> {
    backing: Backing<D>,
    access: Arc<[Device]>,
}

/// Only the addresses are held, and maybe a stash: whatever the layer above saved of the
/// contents. There is no physical memory in this state, so there is none to release.
#[derive(Debug)]
pub struct Paused<K> {
    stash: Option<K>,
}

/// Physical memory is mapped again, the contents are not right yet.
#[derive(Debug)]
pub struct Attached<D: Driver, K> {
    backing: Backing<D>,
    access: Arc<[Device]>,
    stash: Option<K>,
}

/// One block: a range of addresses for life, and a state.
///
/// Dropping a block calls no driver; it is a leak, counted by
/// [`leaked_ranges`](crate::leaked_ranges) and [`leaked_handles`](crate::leaked_handles).
#[derive(Debug)]
#[must_use = "a dropped block is a leak"]
pub struct Block<D: Driver, S> {
    driver: Arc<D>,
    range: Range,
    bytes: u64,
    state: S,
}

/// A block whose memory is in use.
pub type ActiveBlock<D> = Block<D, Active<D>>;
/// A block that sleeps, with a stash of type `K`.
pub type PausedBlock<D, K> = Block<D, Paused<K>>;
/// A block that is being woken.
pub type AttachedBlock<D, K> = Block<D, Attached<D, K>>;

/// An attach that did not happen; the physical memory comes back with the block.
pub type AttachFailed<D, K> = Box<Stuck<PausedBlock<D, K>, K, Backing<D>>>;
/// A detach that did not happen; the stash comes back with the block.
pub type DetachFailed<D, K> = Box<Stuck<ActiveBlock<D>, K, Option<K>>>;

/// A transition that did not happen.
#[derive(Debug)]
pub enum Stuck<B, K, X = ()> {
    /// The driver refused, and everything is as it was. `spare` is what was passed in beside the
    /// block.
    Unchanged {
        /// The block, in the state it had.
        block: B,
        /// What was passed in beside it.
        spare: X,
        /// Why.
        error: Error,
    },
    /// The driver left the block in a state nobody knows.
    Poisoned {
        /// What is left of it: the stash, if there was one.
        remnant: Remnant<K>,
        /// Why.
        error: Error,
    },
}

impl<B, K, X> Stuck<B, K, X> {
    /// Why it did not happen.
    #[must_use]
    pub fn error(&self) -> &Error {
        match self {
            Self::Unchanged { error, .. } | Self::Poisoned { error, .. } => error,
        }
    }
}

/// What is left of a block whose driver call failed half way. No method of it reaches the driver;
/// its memory and addresses stay with the process and are counted as leaks when it is dropped.
#[derive(Debug)]
#[must_use = "the stash in it may be the only copy of the contents"]
pub struct Remnant<K> {
    range: Option<Range>,
    device: Device,
    address: Address,
    bytes: u64,
    stash: Option<K>,
}

impl<K> Remnant<K> {
    fn of(range: Range, bytes: u64, stash: Option<K>) -> Self {
        let (device, address) = (range.device(), range.address());
        Self { range: Some(range), device, address, bytes, stash }
    }

    /// The device that the block was on.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// The block's address.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// The block's logical size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The saved contents, if there are any.
    #[must_use]
    pub fn stash(&self) -> Option<&K> {
        self.stash.as_ref()
    }

    /// Takes the saved contents away.
    pub fn take_stash(&mut self) -> Option<K> {
        self.stash.take()
    }

    /// Whether the addresses are held in here. If not, the driver has lost them, or has been given
    /// them and failed.
    #[must_use]
    pub fn holds_addresses(&self) -> bool {
        self.range.is_some()
    }
}

impl<D: Driver, S> Block<D, S> {
    /// The device that owns the block.
    #[must_use]
    pub fn device(&self) -> Device {
        self.range.device()
    }

    /// The block's address, the same for life.
    #[must_use]
    pub fn address(&self) -> Address {
        self.range.address()
    }

    /// The size that was asked for, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The size on the device in bytes: [`bytes`](Self::bytes) in whole granules.
    #[must_use]
    pub fn physical_bytes(&self) -> u64 {
        self.range.bytes()
    }
}

impl<D: Driver, K> Block<D, Paused<K>> {
    /// Reserves addresses for `bytes` on a device. A fresh block sleeps: it has addresses, no
    /// memory and no stash.
    ///
    /// # Errors
    /// `InvalidArgument` for no bytes, `TooLarge`, or the driver's error.
    pub fn reserve(
        driver: &Arc<D>,
        device: Device,
        bytes: u64,
        granularity: Granularity,
    ) -> Result<Self> {
        let rounded = granularity.round_up(bytes)?;
        let range = driver.reserve(device, rounded)?;
        Ok(Self { driver: Arc::clone(driver), range, bytes, state: Paused { stash: None } })
    }

    /// The saved contents, if there are any.
    #[must_use]
    pub fn stash(&self) -> Option<&K> {
        self.state.stash.as_ref()
    }

    /// Takes the saved contents away; the block will wake without them.
    pub fn take_stash(&mut self) -> Option<K> {
        self.state.stash.take()
    }

    /// Puts physical memory under the address and gives the devices access. The contents are
    /// undefined until the layer above has made them right and calls
    /// [`settle`](Block::settle).
    ///
    /// # Errors
    /// `Unchanged` with the block and the backing when the driver refused; `InvalidArgument` when
    /// the backing has another size, device or driver, or `access` does not begin with the owner.
    pub fn attach(
        self,
        backing: Backing<D>,
        access: impl Into<Arc<[Device]>>,
    ) -> Result<AttachedBlock<D, K>, AttachFailed<D, K>> {
        let access = access.into();
        if backing.bytes() != self.range.bytes()
            || backing.device() != self.range.device()
            || !backing.belongs_to(&self.driver)
            || access.first() != Some(&self.range.device())
        {
            let error = Error::new(
                ErrorKind::InvalidArgument,
                Operation::Map,
                "this physical memory or access does not fit the block",
            )
            .with_address(self.address())
            .with_device(self.device())
            .with_bytes(backing.bytes());
            return Err(Box::new(Stuck::Unchanged { block: self, spare: backing, error }));
        }
        // SAFETY: a paused block has nothing mapped in its range; sizes were compared above, and
        // an owned `Backing` is mapped nowhere.
        match unsafe { backing.map(&self.range, &access) } {
            Ok(()) => Ok(Block {
                driver: self.driver,
                range: self.range,
                bytes: self.bytes,
                state: Attached { backing, access, stash: self.state.stash },
            }),
            Err(MapFailed { error, undone: true }) => {
                Err(Box::new(Stuck::Unchanged { block: self, spare: backing, error }))
            }
            Err(MapFailed { error, undone: false }) => {
                backing.abandon();
                let remnant = Remnant::of(self.range, self.bytes, self.state.stash);
                Err(Box::new(Stuck::Poisoned { remnant, error }))
            }
        }
    }

    /// Gives back what the driver keeps with the range
    /// ([`Capabilities::KEEPS_UNTIL_UNRESERVED`](crate::Capabilities::KEEPS_UNTIL_UNRESERVED)):
    /// part of a detach, and of undoing an [`attach`](Block::attach) that had mapped something
    /// before it failed, once the backing is released.
    ///
    /// # Errors
    /// The driver's error, and what is left of the block, its stash readable.
    pub fn vacate(mut self) -> Result<Self, (Remnant<K>, Error)> {
        // SAFETY: a paused block has nothing mapped in its range, and what was has been released.
        match unsafe { self.driver.vacate(&mut self.range) } {
            Ok(()) => Ok(self),
            Err(error) => {
                let mut remnant = Remnant::of(self.range, self.bytes, self.state.stash);
                if error.kind() == ErrorKind::AddressLost {
                    // The addresses are the driver's again; they are no leak of ours.
                    let _ = remnant.range.take().map(Range::into_driver);
                }
                Err((remnant, error))
            }
        }
    }

    /// Gives the addresses back. The stash goes with the block.
    ///
    /// # Errors
    /// The driver's error; the addresses then stay reserved for the life of the process.
    pub fn free(self) -> Result<()> {
        // SAFETY: a paused block has nothing mapped; the block is consumed, so nobody of ours
        // uses its addresses again.
        unsafe { self.driver.unreserve(self.range) }
    }
}

impl<D: Driver, K> Block<D, Attached<D, K>> {
    /// The saved contents, to be written back.
    #[must_use]
    pub fn stash(&self) -> Option<&K> {
        self.state.stash.as_ref()
    }

    /// Says that the contents are right. Hands out the stash, which is of no more use.
    pub fn settle(self) -> (ActiveBlock<D>, Option<K>) {
        let Attached { backing, access, stash } = self.state;
        let block = Block {
            driver: self.driver,
            range: self.range,
            bytes: self.bytes,
            state: Active { backing, access },
        };
        (block, stash)
    }

    /// Undoes the attach: the block sleeps again, its stash kept.
    ///
    /// # Errors
    /// As for [`detach`](Block::detach).
    pub fn detach(self, vacate: bool) -> Result<PausedBlock<D, K>, Box<Stuck<Self, K>>> {
        let (block, stash) = self.settle();
        block.detach(stash, vacate).map_err(|stuck| {
            Box::new(match *stuck {
                Stuck::Unchanged { block, spare, error } => {
                    let Active { backing, access } = block.state;
                    let block = Block {
                        driver: block.driver,
                        range: block.range,
                        bytes: block.bytes,
                        state: Attached { backing, access, stash: spare },
                    };
                    Stuck::Unchanged { block, spare: (), error }
                }
                Stuck::Poisoned { remnant, error } => Stuck::Poisoned { remnant, error },
            })
        })
    }

    /// Gives the block up: its memory and addresses stay with the process and count as leaks, its
    /// stash stays readable. For a block that can neither be settled nor detached.
    pub fn abandon(self) -> Remnant<K> {
        self.state.backing.abandon();
        Remnant::of(self.range, self.bytes, self.state.stash)
    }

    /// Unmaps, releases and gives the addresses back.
    ///
    /// # Errors
    /// As for an active block's [`free`](Block::free).
    pub fn free(self) -> Result<(), Box<Stuck<ActiveBlock<D>, K>>> {
        let (block, _stash) = self.settle();
        block.free()
    }
}

impl<D: Driver> Block<D, Active<D>> {
    /// The devices that may use it, its owner first.
    #[must_use]
    pub fn access(&self) -> &[Device] {
        &self.state.access
    }

    /// Lets exactly these devices use the block, now and until it is paused. The owner is the
    /// first of them: it copies what is [`Mapped`].
    ///
    /// # Errors
    /// `InvalidArgument` when `access` does not begin with the owner; else the driver's error, and
    /// some devices may have got access already.
    pub fn set_access(&mut self, access: &[Device]) -> Result<()> {
        if access.first() != Some(&self.device()) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                Operation::SetAccess,
                "a block's own device comes first among those with access",
            )
            .with_address(self.address())
            .with_device(self.device()));
        }
        // SAFETY: an active block's backing is mapped in its range.
        unsafe { self.state.backing.set_access(&self.range, access) }?;
        self.state.access = access.into();
        Ok(())
    }

    /// Takes the physical memory away: unmap, release, and vacate where `vacate` says that this
    /// driver keeps memory with the range. The address stays the block's. No work in flight may
    /// touch the block (see [`Driver::quiesce`]).
    ///
    /// # Errors
    /// `Unchanged` with the block and the stash when unmapping was refused; `Poisoned`, its stash
    /// readable, when a later step failed.
    pub fn detach<K>(
        self,
        stash: Option<K>,
        vacate: bool,
    ) -> Result<PausedBlock<D, K>, DetachFailed<D, K>> {
        // SAFETY: an active block's backing is mapped in its range. That no work touches it is
        // the caller's duty, documented above; a kernel that does meets a device fault, not
        // undefined behaviour of the host.
        let unmapped = unsafe { self.state.backing.unmap(&self.range, &self.state.access) };
        match unmapped {
            Ok(()) => {}
            Err(MapFailed { error, undone: true }) => {
                return Err(Box::new(Stuck::Unchanged { block: self, spare: stash, error }));
            }
            Err(MapFailed { error, undone: false }) => {
                self.state.backing.abandon();
                let remnant = Remnant::of(self.range, self.bytes, stash);
                return Err(Box::new(Stuck::Poisoned { remnant, error }));
            }
        }
        if let Err(error) = self.state.backing.release() {
            let remnant = Remnant::of(self.range, self.bytes, stash);
            return Err(Box::new(Stuck::Poisoned { remnant, error }));
        }
        let block = Block {
            driver: self.driver,
            range: self.range,
            bytes: self.bytes,
            state: Paused { stash },
        };
        if !vacate {
            return Ok(block);
        }
        block.vacate().map_err(|(remnant, error)| Box::new(Stuck::Poisoned { remnant, error }))
    }

    /// Unmaps, releases and gives the addresses back, in this order. No work in flight may touch
    /// the block (see [`Driver::quiesce`]).
    ///
    /// # Errors
    /// `Unchanged` with the block when unmapping was refused; `Poisoned` when a later step failed.
    pub fn free<K>(self) -> Result<(), Box<Stuck<Self, K>>> {
        match self.detach::<K>(None, false) {
            Ok(paused) => {
                let (device, address, bytes) = (paused.device(), paused.address(), paused.bytes);
                paused.free().map_err(|error| {
                    let remnant = Remnant { range: None, device, address, bytes, stash: None };
                    Box::new(Stuck::Poisoned { remnant, error })
                })
            }
            Err(stuck) => Err(Box::new(match *stuck {
                Stuck::Unchanged { block, error, .. } => {
                    Stuck::Unchanged { block, spare: (), error }
                }
                Stuck::Poisoned { remnant, error } => Stuck::Poisoned { remnant, error },
            })),
        }
    }
}

/// A block that has physical memory mapped, so that it can be copied from and to. Sealed: it is
/// the proof that the copies in the layer above rest on.
pub trait Mapped: sealed::Sealed + Sync {
    /// The driver of the block.
    type Driver: Driver;

    /// The driver that the block belongs to.
    fn driver(&self) -> &Arc<Self::Driver>;
    /// The block's address.
    fn address(&self) -> Address;
    /// The bytes that can be copied, starting at the address: whole granules.
    fn mapped_bytes(&self) -> u64;
    /// The owner device.
    fn device(&self) -> Device;
}

mod sealed {
    pub trait Sealed {}
    impl<D: super::Driver> Sealed for super::ActiveBlock<D> {}
    impl<D: super::Driver, K> Sealed for super::AttachedBlock<D, K> {}
}

macro_rules! mapped {
    ($([$($extra:ident)?] $block:ty),* $(,)?) => {$(
        impl<D: Driver $(, $extra: Sync)?> Mapped for $block {
            type Driver = D;

            fn driver(&self) -> &Arc<D> {
                &self.driver
            }

            fn address(&self) -> Address {
                self.range.address()
            }

            fn mapped_bytes(&self) -> u64 {
                self.range.bytes()
            }

            fn device(&self) -> Device {
                self.range.device()
            }
        }
    )*};
}

mapped!([] ActiveBlock<D>, [K] AttachedBlock<D, K>);
