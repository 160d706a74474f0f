//! Host memory for backups, and the unsafe code that it needs.
//!
//! - [`Mapping`]: an owned anonymous mapping on huge pages, left out of forks and core dumps
//!   before its first touch.
//! - [`Piece`]: an exclusive part of a mapping, whose pages go back when it is dropped.
//! - [`Slab`]: memory that is kept registered, and handed out in pieces again and again; no piece
//!   crosses the border of two registrations.
//! - [`Lane`]: one worker's way between a device and host memory or a file.
//! - [`UnnamedFile`]: a file that no directory names, so that nothing is left after a crash.
//! - [`Extent`]: an exclusive part of such a file, which goes back when it is dropped.
//! - [`Claims`]: what other processes hold of host memory, and are about to take.
//! - [`Headroom`]: how much more host memory this process can take, and what ends it.
//! - [`Node`]: the CPUs near a device.
//! - [`process`]: whether this process is a forked child, or on its way out; its CPUs.

pub mod claims;
pub mod extent;
pub mod file;
pub mod headroom;
pub mod job;
pub mod lane;
pub mod mapping;
pub mod numa;
pub mod piece;
mod places;
pub mod process;
mod registration;
pub mod slab;

pub use claims::{Claim, Claims, Entered, Others};
pub use extent::{Extent, ExtentFile, ExtentPart, extent_bytes};
pub use file::UnnamedFile;
pub use headroom::{CgroupLimit, Headroom, HeadroomSource};
pub use job::{Batch, DIRECT_BYTES, RestoreJob, SaveJob, Source, Target, check_sums, checksum};
pub use lane::{CHUNK_BYTES, LANE_BYTES, Lane, STAGING_BYTES};
pub use mapping::{Mapping, huge_page_bytes, huge_pages_are_on, page_bytes};
pub use numa::Node;
pub use piece::{Piece, carve, whole_pages};
pub use slab::{Shadow, Slab};
