//! Settings.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dormant::Config;

use crate::choices::{checksum, checksum_number, host_mode, host_mode_number};
use crate::edge::{self, entry, forward};
use crate::environment;
use crate::status::Failed;
use crate::text::{c_path, keep, path};
use crate::types::{DormantConfig, DormantStatus};

static CHOSEN: Mutex<Option<Config>> = Mutex::new(None);

/// What the engine is opened with: what was configured, else what the environment says.
pub(crate) fn chosen() -> Config {
    let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    chosen.clone().unwrap_or_else(environment::config)
}

fn holding() -> Config {
    edge::opened().map_or_else(chosen, |engine| engine.config().clone())
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A limit in bytes; 0 is none.
pub(crate) fn limit(bytes: u64) -> Option<u64> {
    Some(bytes).filter(|bytes| *bytes > 0)
}

thread_local! {
    static DIRECTORY: RefCell<Option<CString>> = const { RefCell::new(None) };
}

fn shown(config: &Config, directory: Option<&CStr>) -> DormantConfig {
    DormantConfig {
        size: 0,
        workers: config.workers.and_then(|workers| u32::try_from(workers).ok()).unwrap_or(0),
        transition_timeout_ms: ms(config.transition_timeout),
        free_timeout_ms: ms(config.free_timeout),
        idle_timeout_ms: ms(config.idle_timeout),
        ranks_on_node: u32::try_from(config.ranks_on_node).unwrap_or(u32::MAX),
        reserved: 0,
        host_limit_bytes: config.host_limit_bytes.unwrap_or(0),
        disk_directory: directory.map_or(std::ptr::null(), CStr::as_ptr),
        disk_staging_bytes: config.disk_staging_bytes,
        host_mode: host_mode_number(Some(config.host_mode)),
        checksum: checksum_number(Some(config.checksum)),
        host_margin_bytes: config.host_margin_bytes,
        retain_limit_bytes: config.retain_limit_bytes.unwrap_or(0),
        disk_keep_bytes: config.disk_keep_bytes.unwrap_or(u64::MAX),
    }
}

/// Fills `config` with the settings that hold, or that the first use would take from the environment.
/// The directory's text lives until the thread's next call of this.
///
/// # Safety
/// `config` is a `DormantConfig` whose `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_configuration(config: *mut DormantConfig) -> DormantStatus {
    forward!(dormant_configuration(config));
    entry(|| {
        let holding = holding();
        let directory = holding.disk_directory.as_ref();
        let directory = directory.map(|directory| c_path(directory));
        keep(&DIRECTORY, directory.unwrap_or_default(), |directory| {
            let directory = (!directory.is_empty()).then_some(directory.as_c_str());
            // SAFETY: the caller's promise.
            unsafe { edge::write_sized(config, shown(&holding, directory)) }
        })
    })
}

/// Chooses the settings, before the first use; `WrongState` afterwards. Begin with what
/// `dormant_configuration` fills in.
///
/// # Safety
/// `config` is a `DormantConfig` whose `size` is set, and what it points to is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dormant_configure(config: *const DormantConfig) -> DormantStatus {
    forward!(dormant_configure(config));
    entry(|| {
        if config.is_null() {
            return Err(Failed::invalid("config is NULL"));
        }
        if edge::opened().is_some() {
            let text = "the engine is open already, with other settings";
            return Err(Failed::new(DormantStatus::WrongState, text));
        }
        let mut next = chosen();
        // SAFETY: the caller's promise; numbers and pointers may be any bytes.
        let given = unsafe { edge::read_sized(config, shown(&next, None)) }?;
        let directory = given.disk_directory;
        next.workers = usize::try_from(given.workers).ok().filter(|workers| *workers > 0);
        next.transition_timeout = Duration::from_millis(given.transition_timeout_ms);
        next.free_timeout = Duration::from_millis(given.free_timeout_ms);
        next.idle_timeout = Duration::from_millis(given.idle_timeout_ms);
        next.ranks_on_node = given.ranks_on_node.max(1) as usize;
        // SAFETY: the caller's promise.
        if let Some(directory) = unsafe { path(directory) } {
            next.disk_directory = Some(directory.into());
        }
        if given.disk_staging_bytes > 0 {
            next.disk_staging_bytes = given.disk_staging_bytes;
        }
        next.host_limit_bytes = limit(given.host_limit_bytes);
        if let Some(mode) = host_mode(given.host_mode)? {
            next.host_mode = mode;
        }
        if let Some(checksum) = checksum(given.checksum)? {
            next.checksum = checksum;
        }
        next.host_margin_bytes = given.host_margin_bytes;
        next.retain_limit_bytes = limit(given.retain_limit_bytes);
        next.disk_keep_bytes = Some(given.disk_keep_bytes).filter(|bytes| *bytes < u64::MAX);
        *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
        Ok(())
    })
}
