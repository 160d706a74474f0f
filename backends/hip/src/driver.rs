//! The [`Driver`](allocator_core::Driver) contract on the functions of the other files.

use crate::{Hip, Physical, Stream};

// SAFETY: the runtime hands out ranges and handles that are nobody else's (HIP's own contract);
// copies and fills are given to it with exactly the caller's addresses and sizes, and have ended
// once their stream is synchronised; `OutOfMemory` is the runtime's, except for more than the
// device has, which is `TooLarge`, and for a size not in granules.
allocator_core::driver_in_parts!(unsafe Hip, Physical, Stream);
