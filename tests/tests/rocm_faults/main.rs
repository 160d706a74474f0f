//! Faults that were seen on ROCm, acted out by the simulated device, one module each: what a
//! program meets that has no answer to it, and that ours has one.

mod access;
mod memory;
mod pieces;
mod support;
