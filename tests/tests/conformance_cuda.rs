//! The conformance suite on a real CUDA device, where there is one.
//!
//! `DORMANT_REQUIRE_DEVICE=cuda` turns the skip into a failure.

use std::sync::{Arc, OnceLock};

use allocator_testkit::{Setup, conformance_suite, exclusive};
use dormant_cuda::Cuda;

fn setup() -> Option<Setup<Cuda>> {
    static DRIVER: OnceLock<Result<Arc<Cuda>, allocator_core::Error>> = OnceLock::new();
    let driver = match DRIVER.get_or_init(|| Cuda::open().map(Arc::new)) {
        Ok(driver) => Arc::clone(driver),
        Err(error) => {
            let required = std::env::var("DORMANT_REQUIRE_DEVICE").unwrap_or_default();
            assert_ne!(required, "cuda", "a CUDA device is required: {error}");
            return None;
        }
    };
    // Contexts and streams of the driver itself move the reading by some MiB.
    Some(Setup {
        driver,
        unit_bytes: 128 << 20,
        slack_bytes: 64 << 20,
        exclusive: Some(exclusive()),
    })
}

conformance_suite!(setup);
