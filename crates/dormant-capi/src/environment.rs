//! What the environment says: read once, at first use. An empty value means unset; one that makes no
//! sense is one line on standard error, and the default holds.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use dormant::region::{self, Place, Settings};
use dormant::{Config, Tag};

use crate::config::limit;
use crate::text::say;
use crate::tms;

static READY: OnceLock<()> = OnceLock::new();

/// Makes what the environment says hold on every thread that says nothing else.
pub(crate) fn ready() {
    READY.get_or_init(|| {
        tms::retain(flag("TMS_RETAIN_CPU_BACKUP").unwrap_or(false));
        region::set_process_default(place());
    });
}

fn place() -> Place {
    let ours = flag("DORMANT_ENABLE").unwrap_or(false);
    if ours {
        let mut settings = Settings::default();
        if let Some(tag) = text("DORMANT_TAG") {
            settings.tag = Tag::from(tag);
        }
        if let Some(policy) = choice("DORMANT_POLICY") {
            settings.policy = policy;
        }
        return Place { on: true, settings, ..Place::default() };
    }
    let mut place = Place { on: flag("TMS_INIT_ENABLE").unwrap_or(false), ..Place::default() };
    let marks = &mut place.marks;
    *marks = tms::KNOWN;
    for (name, mark) in
        [("TMS_INIT_ENABLE_CPU_BACKUP", tms::CPU), ("TMS_INIT_ENABLE_DISK_BACKUP", tms::DISK)]
    {
        if flag(name).unwrap_or(false) {
            *marks |= mark;
        }
    }
    if let Some(backend) = text("TMS_INIT_CPU_BACKUP_BACKEND") {
        match backend.as_str() {
            "pinned" => {}
            "mmap" => *marks |= tms::MMAP,
            other => say(&format!(
                "TMS_INIT_CPU_BACKUP_BACKEND is ignored: `{other}` is neither pinned nor mmap"
            )),
        }
    }
    place.settings.policy = tms::policy(place.marks);
    if let Some(directory) = variable("TMS_DISK_BACKUP_DIR") {
        place.settings.directory = Some(Arc::from(Path::new(&directory)));
    }
    place
}

/// Whether hooks may hand out memory of the simulated device.
pub(crate) fn hooks_may_simulate() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| flag("DORMANT_SIM_HOOKS").unwrap_or(false))
}

/// The engine's settings.
pub(crate) fn config() -> Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(read_config).clone()
}

fn read_config() -> Config {
    let mut config = Config::from_env();
    if let Some(mode) = choice("DORMANT_HOST_MODE") {
        config.host_mode = mode;
    }
    if let Some(checksum) = choice("DORMANT_CHECKSUM") {
        config.checksum = checksum;
    }
    config.host_limit_bytes = size("DORMANT_HOST_LIMIT").and_then(limit);
    config.retain_limit_bytes = size("DORMANT_RETAIN_LIMIT").and_then(limit);
    // 0 is no limit elsewhere; of this one it is a limit.
    config.disk_keep_bytes = size("DORMANT_DISK_KEEP");
    if let Some(mebibytes) = text("TMS_DISK_BACKUP_CHUNK_MB") {
        match mebibytes.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << 20)) {
            Some(bytes) if bytes > 0 => config.disk_staging_bytes = bytes,
            _ => say(&format!(
                "TMS_DISK_BACKUP_CHUNK_MB is ignored: `{mebibytes}` is not a number of MiB"
            )),
        }
    }
    config
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The same, as text.
fn text(name: &str) -> Option<String> {
    let value = variable(name)?.into_string();
    value.map_err(|_| say(&format!("{name} is ignored: it is not UTF-8"))).ok()
}

/// A variable that names one of several things.
fn choice<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let chosen = text(name)?.parse();
    chosen.map_err(|error| say(&format!("{name} is ignored: {error}"))).ok()
}

/// A variable that says how many bytes.
fn size(name: &str) -> Option<u64> {
    let value = text(name)?;
    let bytes = bytes(&value);
    if bytes.is_none() {
        say(&format!("{name} is ignored: `{value}` is no number of bytes, as in 1048576 or 64GiB"));
    }
    bytes
}

/// Reads `4096`, `64KiB`, `2MiB`, `4GiB`, `1TiB`; a space before the unit is fine.
fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    number.trim_end().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A variable that says yes or no.
fn flag(name: &str) -> Option<bool> {
    let value = text(name)?;
    match value.as_str() {
        "1" | "true" | "TRUE" | "True" | "yes" | "YES" | "on" | "ON" => Some(true),
        "0" | "false" | "FALSE" | "False" | "no" | "NO" | "off" | "OFF" => Some(false),
        other => {
            say(&format!("{name} is ignored: `{other}` is neither yes nor no"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_have_a_binary_unit() {
        for (text, wanted) in [
            ("0", Some(0)),
            ("1048576", Some(1 << 20)),
            ("64KiB", Some(64 << 10)),
            ("2 MiB", Some(2 << 20)),
            ("4GiB", Some(4 << 30)),
            ("1TiB", Some(1 << 40)),
            ("4GB", None),
            ("GiB", None),
            ("-1", None),
            ("1.5GiB", None),
            ("99999999TiB", None),
        ] {
            assert_eq!(bytes(text), wanted, "{text}");
        }
    }
}
