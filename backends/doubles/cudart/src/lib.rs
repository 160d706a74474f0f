//! A stand-in for the CUDA runtime, `libcudart.so.12` and `.so.13`, over whatever `libcuda.so.1` the
//! process finds: the stand-in, in tests. It holds no machine of its own. NVIDIA's runtime cannot
//! run on a stand-in, since it asks the driver for tables that are nobody's business.

mod calls;
mod driver;
mod errors;
mod streams;
