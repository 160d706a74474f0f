//! Uses both libraries in one program.

use cudarc::driver::sys::{CUmemAllocationProp, CUresult};

fn main() {
    let success = CUresult::CUDA_SUCCESS;
    assert_eq!(size_of::<CUmemAllocationProp>(), 32);
    println!("{}; cudarc says {success:?}", dormant::build_info::build_info());
}
