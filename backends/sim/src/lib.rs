//! A simulated GPU for tests. It enforces the rules of the real drivers, and its memory is real:
//! a mapped block can be read and written by the CPU, a paused one faults, and what is given back
//! is given back to the system.
//!
//! - [`Sim`] is an [`allocator_core::Driver`], with a control surface for tests: it can fail the
//!   n-th call of any operation, run simulated kernels, lose a device.
//! - [`Machine`] is what lies below: the calls of the CUDA driver, one to one, over numbers.
//! - [`SimConfig`] says how many devices there are and how large, how fast the link is, and which
//!   known faults of real drivers are acted out.
//!
//! ```
//! use allocator_core::{Deadline, Device, Driver};
//! use dormant_sim::{Sim, SimConfig};
//!
//! # fn main() -> allocator_core::Result<()> {
//! let sim = Sim::new(SimConfig::new().devices(1).capacity_bytes(64 << 20))?;
//! let before = sim.memory(Device(0))?.free_bytes;
//! let physical = sim.create(Device(0), 2 << 20)?;
//! assert_eq!(sim.memory(Device(0))?.free_bytes, before - (2 << 20));
//! sim.release(physical)?;
//! sim.quiesce(Device(0), Deadline::NEVER)?;
//! # Ok(())
//! # }
//! ```

mod config;
pub mod machine;
mod sim;

pub use config::{Fault, SimConfig};
pub use machine::{CaptureMode, Graph, Lane, Machine};
pub use sim::{Sim, SimPhysical, SimStream};
