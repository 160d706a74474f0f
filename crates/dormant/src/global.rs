//! The process-wide engine.

use std::sync::{Arc, Mutex, PoisonError};

use dormant_engine::{Config, Result};

use crate::{Engine, select};

static ENGINE: Mutex<Option<Arc<Engine>>> = Mutex::new(None);

/// The process-wide engine, opened at the first call with the driver that
/// [`open`](crate::open) finds and the settings of the environment. It is never dropped.
///
/// # Errors
/// `NoDriver` and the other errors of [`open`](crate::open); a later call tries again. `Forked`
/// in a forked child of a process that had opened it.
pub fn engine() -> Result<Arc<Engine>> {
    if dormant_host::process::is_forked_child() {
        let text = "this process is a forked child; the memory belongs to its parent";
        return Err(allocator_core::Error::new(
            allocator_core::ErrorKind::Forked,
            allocator_core::Operation::Open,
            text,
        )
        .into());
    }
    let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = &*engine {
        return Ok(Arc::clone(engine));
    }
    let driver = Arc::new(select::open(None)?);
    let opened = Arc::new(Engine::new(driver, Config::from_env()));
    *engine = Some(Arc::clone(&opened));
    Ok(opened)
}
