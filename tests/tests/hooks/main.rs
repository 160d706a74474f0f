//! The hooks, in C programs that are linked to a GPU runtime and know nothing of us, or call us by
//! our names; each case on the stand-ins for CUDA's runtimes and for HIP, under `LD_PRELOAD` of
//! `libdormant.so` or of the small file that hands calls on to it.

mod blocks;
mod captures;
mod copies;
mod environment;
mod exits;
mod forks;
mod frameworks;
mod interface;
mod keeping;
mod peers;
mod programs;
mod regions;
mod shortage;
mod threads;
