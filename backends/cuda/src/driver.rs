//! The [`Driver`](allocator_core::Driver) contract on the functions of the other files.

use crate::{Cuda, Physical, Stream};

// SAFETY: the driver hands out ranges and handles that are nobody else's (CUDA's own contract);
// copies and fills are given to it with exactly the caller's addresses and sizes, and have ended
// once their stream is synchronised; `OutOfMemory` is the driver's OUT_OF_MEMORY, except for more
// than the device has, which is `TooLarge`.
allocator_core::driver_in_parts!(unsafe Cuda, Physical, Stream);
