//! Sizes as people write them, and bytes as people read them.

use std::fmt;

use indicatif::BinaryBytes;

/// A number of bytes, given as `512MiB`, `2GiB`, `4GB` or `1073741824`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1_000),
    ("kb", 1_000),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// Reads a size: a whole number and a unit, in either case. `GiB` is binary; `GB` and `G` are
/// decimal.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn parse(text: &str) -> Result<Size, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    if number.is_empty() || unit.starts_with(['.', ',']) {
        return Err("a size is a whole number and a unit, such as 512MiB or 2GiB".to_owned());
    }
    let factor = UNITS
        .iter()
        .find_map(|&(name, factor)| unit.eq_ignore_ascii_case(name).then_some(factor))
        .ok_or_else(|| format!("no unit is called `{unit}`; there are KiB to TiB and kB to TB"))?;
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    match bytes {
        None => Err("that is more than an address can hold".to_owned()),
        Some(0) => Err("a size is more than nothing".to_owned()),
        Some(bytes) => Ok(Size(bytes)),
    }
}

/// Bytes to read: `1.25 GiB`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        BinaryBytes(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_binary_and_decimal_units_in_either_case() {
        for (text, bytes) in [
            ("1073741824", 1 << 30),
            ("17", 17),
            ("17B", 17),
            ("64KiB", 64 << 10),
            ("512MiB", 512 << 20),
            ("512 MiB", 512 << 20),
            ("2GiB", 2 << 30),
            ("2gib", 2 << 30),
            ("40GiB", 40 << 30),
            ("1TiB", 1 << 40),
            ("3k", 3_000),
            ("3kB", 3_000),
            ("5M", 5_000_000),
            ("5MB", 5_000_000),
            ("2G", 2_000_000_000),
            ("2GB", 2_000_000_000),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "whole number"),
            ("GiB", "whole number"),
            ("-1GiB", "whole number"),
            ("1.5GiB", "whole number"),
            ("big", "whole number"),
            ("2XiB", "`XiB`"),
            ("2GiBs", "`GiBs`"),
            ("0", "more than nothing"),
            ("0GiB", "more than nothing"),
            ("99999999999999999999", "more than an address"),
            ("99999999TiB", "more than an address"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }

    #[test]
    fn bytes_are_shown_in_binary_units() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes(256 << 20).to_string(), "256.00 MiB");
        assert_eq!(Bytes(5 << 28).to_string(), "1.25 GiB");
    }
}
