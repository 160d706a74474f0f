//! What the demo found, as `--json` prints it.

use dormant::DeviceInfo;
use serde::Serialize;

use crate::failure::Failure;
use crate::identity::Identity;

/// All that was found. What was not reached is left out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backend: Option<&'static str>,
    /// Why it is this backend, where a GPU would have been better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<DeviceOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pause: Option<PauseOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) freed_while_paused: Option<FreedOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resume: Option<ResumeOutcome>,
    pub(crate) verified_bytes: u64,
    pub(crate) free_bytes: FreeBytes,
    pub(crate) problems: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure>,
    pub(crate) build: Identity,
}

#[derive(Debug, Serialize)]
pub(crate) struct DeviceOutcome {
    pub(crate) ordinal: u32,
    pub(crate) name: String,
    pub(crate) total_bytes: u64,
}

impl From<DeviceInfo> for DeviceOutcome {
    fn from(DeviceInfo { device, name, total_bytes, .. }: DeviceInfo) -> Self {
        Self { ordinal: device.0, name, total_bytes }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct PauseOutcome {
    pub(crate) freed_bytes: u64,
    pub(crate) saved_bytes: u64,
    pub(crate) ms: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct FreedOutcome {
    pub(crate) bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct ResumeOutcome {
    /// Physical bytes under the addresses again.
    pub(crate) mapped_bytes: u64,
    /// Logical bytes copied back from the host.
    pub(crate) restored_bytes: u64,
    pub(crate) ms: f64,
}

/// The device's free reading, step by step.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FreeBytes {
    pub(crate) start: Option<u64>,
    pub(crate) active: Option<u64>,
    pub(crate) paused: Option<u64>,
    pub(crate) resumed: Option<u64>,
    pub(crate) end: Option<u64>,
}
