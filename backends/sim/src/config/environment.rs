//! The machine as the environment describes it.

use std::env::{self, VarError};

use allocator_core::Result;

use super::{Fault, SimConfig, invalid};

const DEVICES: &str = "DORMANT_SIM_DEVICES";
const CAPACITY: &str = "DORMANT_SIM_CAPACITY";
const GRANULARITY: &str = "DORMANT_SIM_GRANULARITY";
const LINK: &str = "DORMANT_SIM_LINK";
const HELD_BACK: &str = "DORMANT_SIM_HELD_BACK";
const STRICT: &str = "DORMANT_SIM_STRICT";
const FAULTS: &str = "DORMANT_SIM_FAULTS";

impl SimConfig {
    /// The default, changed by these variables where they are set:
    ///
    /// | variable | value |
    /// |---|---|
    /// | `DORMANT_SIM_DEVICES` | a number of devices |
    /// | `DORMANT_SIM_CAPACITY` | bytes of each device, as `4GiB` |
    /// | `DORMANT_SIM_GRANULARITY` | the granule, as `64KiB` |
    /// | `DORMANT_SIM_LINK` | bytes per second, as `2GiB` |
    /// | `DORMANT_SIM_HELD_BACK` | bytes that read as free and are given to nobody, as `8MiB` |
    /// | `DORMANT_SIM_STRICT` | `0` lets pass what the real driver lets pass |
    /// | `DORMANT_SIM_FAULTS` | some of the words below, with commas |
    ///
    /// The faults are `keep_until_unreserved`, `keep_unsaid`, `no_joined_unmap`, `max_piece=2MiB`, `address_lost`,
    /// `refuse_host_registration`, `early_release_keeps_range`, `no_joined_access`,
    /// `host_access_needed`, `bogus_ipc_handle`, as [`Fault`] describes them, and `stale_bytes`,
    /// which is [`scribble`](Self::scribble).
    ///
    /// # Errors
    /// `InvalidArgument`, with the variable's name, for a value that cannot be read.
    pub fn from_env() -> Result<Self> {
        Self::from_lookup(|name| match env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => Err(invalid(format!("{name} is not text"))),
        })
    }

    /// The same, with something else than the environment to look the variables up in.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env), and those of `lookup`.
    pub fn from_lookup(lookup: impl Fn(&'static str) -> Result<Option<String>>) -> Result<Self> {
        // A variable that is set to nothing is one that is not set.
        let get = |name| -> Result<Option<String>> {
            lookup(name).map(|value| value.map(|v| v.trim().to_owned()).filter(|v| !v.is_empty()))
        };
        let size = |name| {
            get(name)?
                .map(|value| parse_size(&value).ok_or_else(|| bad(name, &value, "a size as 64MiB")))
                .transpose()
        };
        let mut config = Self::default();
        if let Some(value) = get(DEVICES)? {
            config.devices =
                value.parse().map_err(|_| bad(DEVICES, &value, "a number of devices"))?;
        }
        if let Some(bytes) = size(GRANULARITY)? {
            if !bytes.is_power_of_two() {
                return Err(bad(GRANULARITY, &bytes.to_string(), "a power of two"));
            }
            config.granularity = bytes;
        }
        config.capacity_bytes = size(CAPACITY)?;
        config.link_bytes_per_second = size(LINK)?;
        config.held_back_bytes = size(HELD_BACK)?.unwrap_or(0);
        if let Some(value) = get(STRICT)? {
            config.strict = match value.as_str() {
                "0" => false,
                "1" => true,
                _ => return Err(bad(STRICT, &value, "0 or 1")),
            };
        }
        for (name, value) in [
            (CAPACITY, config.capacity_bytes.map(|bytes| bytes / config.granularity)),
            (LINK, config.link_bytes_per_second),
        ] {
            if value == Some(0) {
                let typed = get(name)?.unwrap_or_default();
                return Err(bad(name, &typed, "more than nothing, and one granule at least"));
            }
        }
        for word in get(FAULTS)?.unwrap_or_default().split(',').map(str::trim) {
            if word == "stale_bytes" {
                config.scribble = Some(STALE_BYTE);
            } else if !word.is_empty() {
                let fault = parse_fault(word)
                    .ok_or_else(|| bad(FAULTS, word, "a fault that the simulation knows"))?;
                config.faults.push(fault);
            }
        }
        Ok(config)
    }
}

/// What fresh memory holds with `stale_bytes`.
const STALE_BYTE: u8 = 0xD5;

fn bad(name: &str, value: &str, wanted: &str) -> allocator_core::Error {
    invalid(format!("{name}: {value:?} is not {wanted}"))
}

fn parse_fault(word: &str) -> Option<Fault> {
    Some(match word {
        "keep_until_unreserved" => Fault::KeepUntilUnreserved,
        "keep_unsaid" => Fault::KeepUnsaid,
        "no_joined_unmap" => Fault::NoJoinedUnmap,
        "address_lost" => Fault::AddressLost,
        "refuse_host_registration" => Fault::RefuseHostRegistration,
        "early_release_keeps_range" => Fault::EarlyReleaseKeepsRange,
        "no_joined_access" => Fault::NoJoinedAccess,
        "host_access_needed" => Fault::HostAccessNeeded,
        "bogus_ipc_handle" => Fault::BogusIpcHandle,
        _ => Fault::MaxPiece(parse_size(word.strip_prefix("max_piece=")?)?),
    })
}

/// Reads `4096`, `64KiB`, `2MiB`, `4GiB`, `1TiB`; a space before the unit is fine.
fn parse_size(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("B", 0)];
    let (number, shift) = units
        .iter()
        .find_map(|&(unit, shift)| text.strip_suffix(unit).map(|number| (number, shift)))
        .unwrap_or((text, 0_u32));
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use allocator_core::ErrorKind;

    use super::*;

    fn from(pairs: &[(&'static str, &str)]) -> Result<SimConfig> {
        SimConfig::from_lookup(|name| {
            Ok(pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        })
    }

    #[test]
    fn every_variable_is_read() {
        let config = from(&[
            (DEVICES, "3"),
            (CAPACITY, "4GiB"),
            (GRANULARITY, "64KiB"),
            (LINK, "2 GiB"),
            (HELD_BACK, "8MiB"),
            (STRICT, "0"),
            (
                FAULTS,
                "keep_until_unreserved, no_joined_unmap,max_piece=2MiB,address_lost, stale_bytes,",
            ),
        ])
        .unwrap();
        assert_eq!(config.devices, 3);
        assert_eq!(config.device_bytes(), 4 << 30);
        assert_eq!(config.granularity, 64 << 10);
        assert_eq!(config.link_bytes_per_second, Some(2 << 30));
        assert_eq!(config.held_back_bytes, 8 << 20);
        assert!(!config.strict);
        assert_eq!(config.scribble, Some(STALE_BYTE));
        assert_eq!(
            config.faults,
            [
                Fault::KeepUntilUnreserved,
                Fault::NoJoinedUnmap,
                Fault::MaxPiece(2 << 20),
                Fault::AddressLost
            ]
        );
    }

    #[test]
    fn without_variables_it_is_the_default() {
        let config = from(&[(CAPACITY, " ")]).unwrap();
        assert_eq!(config.devices, 2);
        assert!(config.device_bytes() <= 4 << 30);
        assert!(config.device_bytes().is_multiple_of(2 << 20));
        config.validate().unwrap();
    }

    #[test]
    fn a_bad_value_is_an_invalid_argument_that_names_the_variable() {
        for (name, value) in [
            (DEVICES, "many"),
            (DEVICES, "-1"),
            (CAPACITY, "4GB"),
            (CAPACITY, "99999999999TiB"),
            (CAPACITY, "1KiB"),
            (GRANULARITY, "3MiB"),
            (LINK, "0"),
            (STRICT, "perhaps"),
            (FAULTS, "forgetful"),
            (FAULTS, "max_piece=big"),
        ] {
            let error = from(&[(name, value)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}={value}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn a_machine_that_cannot_be_is_refused() {
        let config = SimConfig::new().capacity_bytes(1 << 20);
        assert_eq!(config.validate().unwrap_err().kind(), ErrorKind::InvalidArgument);
        for bytes in [0, 1000, 512] {
            let config = SimConfig::new().granularity(bytes);
            assert_eq!(config.validate().unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        let config = SimConfig::new().link_bytes_per_second(Some(0));
        assert_eq!(config.validate().unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
