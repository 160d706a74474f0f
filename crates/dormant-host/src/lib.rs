//! Host memory for backups, and the unsafe code that it needs.
//!
//! - [`Mapping`]: an owned anonymous mapping on huge pages, left out of forks and core dumps
//!   before its first touch.
//! - [`Piece`]: an exclusive part of a mapping, whose pages go back when it is dropped.
//! - [`Lane`]: one worker's way between a device and host memory: two staging buffers in one
//!   registered piece, so that no copy crosses the border of two registrations.
//! - [`UnnamedFile`]: a file that no directory names, so that nothing is left after a crash.
//! - [`Extent`]: an exclusive part of such a file, which goes back when it is dropped.
//! - [`process`]: whether this process is a forked child, or on its way out; its CPUs.

pub mod extent;
pub mod file;
pub mod job;
pub mod lane;
pub mod mapping;
pub mod piece;
pub mod process;

pub use extent::{Extent, ExtentFile, ExtentPart, extent_bytes};
pub use file::UnnamedFile;
pub use job::{RestoreJob, SaveJob, Source, Target};
pub use lane::{CHUNK_BYTES, LANE_BYTES, Lane};
pub use mapping::{Mapping, huge_page_bytes, page_bytes};
pub use piece::{Piece, carve, whole_pages};
