//! What works less well than it could, by bits.

use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

use dormant::Notice;

use crate::edge::forward;
use crate::text::c_string;
use crate::types::{
    DORMANT_NOTICE_DISK_BUFFERED, DORMANT_NOTICE_DISK_IN_MEMORY, DORMANT_NOTICE_HUGE_PAGES_OFF,
    DORMANT_NOTICE_REGISTRATION_REFUSED,
};

const NOTICES: [(u32, Notice); 4] = [
    (DORMANT_NOTICE_HUGE_PAGES_OFF, Notice::HugePagesOff),
    (DORMANT_NOTICE_REGISTRATION_REFUSED, Notice::RegistrationRefused),
    (DORMANT_NOTICE_DISK_IN_MEMORY, Notice::DiskInMemory),
    (DORMANT_NOTICE_DISK_BUFFERED, Notice::DiskBuffered),
];

/// The bits of notices.
pub(crate) fn bits(notices: &[Notice]) -> u32 {
    let met = NOTICES.iter().filter(|(_, notice)| notices.contains(notice));
    met.fold(0, |bits, (bit, _)| bits | bit)
}

struct Words {
    name: CString,
    text: CString,
}

/// In the order of `NOTICES`.
fn words(notice: u32) -> Option<&'static Words> {
    static WORDS: OnceLock<Vec<Words>> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        let of =
            |notice: Notice| Words { name: c_string(notice.name()), text: c_string(notice.text()) };
        NOTICES.iter().map(|(_, notice)| of(*notice)).collect()
    });
    words.get(NOTICES.iter().position(|(bit, _)| *bit == notice)?)
}

fn pointer(text: Option<&'static CStr>) -> *const c_char {
    text.map_or(std::ptr::null(), CStr::as_ptr)
}

/// The stable name of one bit of `DormantReport.notices`, as in `disk_in_memory`; NULL for what is
/// none. Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_notice_name(notice: u32) -> *const c_char {
    forward!(dormant_notice_name(notice));
    pointer(words(notice).map(|words| words.name.as_c_str()))
}

/// A sentence for people about one bit of `DormantReport.notices`; NULL for what is none. Lives for
/// ever.
#[unsafe(no_mangle)]
pub extern "C" fn dormant_notice_text(notice: u32) -> *const c_char {
    forward!(dormant_notice_text(notice));
    pointer(words(notice).map(|words| words.text.as_c_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notice_has_a_bit_a_name_and_a_text() {
        let mut all = 0_u32;
        for notice in Notice::ALL {
            let bit = bits(&[*notice]);
            assert_eq!((bit.count_ones(), all & bit), (1, 0), "{notice}");
            all |= bit;
            let words = words(bit).unwrap();
            assert_eq!(words.name.to_str().unwrap(), notice.name());
            assert_eq!(words.text.to_str().unwrap(), notice.text());
        }
        assert_eq!(bits(Notice::ALL), all);
        assert!(words(0).is_none() && words(all).is_none() && words(1 << 31).is_none());
    }
}
