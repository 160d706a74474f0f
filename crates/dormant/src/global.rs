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
    open(None)
}

/// The process-wide engine with these settings, for the program's first call.
///
/// # Errors
/// `WrongState` when it is open already; else as [`engine`].
pub fn engine_with(config: Config) -> Result<Arc<Engine>> {
    open(Some(config))
}

fn open(config: Option<Config>) -> Result<Arc<Engine>> {
    // Before the lock: a child that is forked while another thread holds it must not wait for it.
    dormant_host::process::watch();
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
        if config.is_some() {
            let text = "the process-wide engine is open already, with other settings";
            let kind = allocator_core::ErrorKind::WrongState;
            let operation = allocator_core::Operation::Engine;
            return Err(allocator_core::Error::new(kind, operation, text).into());
        }
        return Ok(Arc::clone(engine));
    }
    let driver = Arc::new(select::open(None)?);
    let opened = Arc::new(Engine::new(driver, config.unwrap_or_else(Config::from_env)));
    *engine = Some(Arc::clone(&opened));
    Ok(opened)
}
