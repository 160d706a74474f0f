//! The ELF note.

use crate::{Guarantee, IDENTITY, text};

/// The owner's name in the note. There a zero byte ends it.
pub const OWNER: &str = "dormant";

/// How long it is with its end, which leaves no room for padding.
const OWNER_BYTES: usize = OWNER.len() + 1;

/// The note's type: its content is the identity as JSON.
pub const IDENTITY_TYPE: u32 = 1;

/// A note as it lies in the file; `N` bytes of content with the padding.
#[repr(C, align(4))]
#[derive(Debug)]
pub struct Note<const N: usize> {
    owner_bytes: u32,
    content_bytes: u32,
    kind: u32,
    owner: [u8; OWNER_BYTES],
    content: [u8; N],
}

impl<const N: usize> Note<N> {
    /// The identity of this build with these backends and guarantees. `N` is what [`padded`] says.
    #[must_use]
    pub const fn new(features: &[&str], guarantees: &[Guarantee]) -> Self {
        let (content, length) = text::json::<N>(&IDENTITY, features, guarantees);
        assert!(length.next_multiple_of(4) == N, "not the length that `padded` says");
        #[expect(clippy::cast_possible_truncation, reason = "some thousand bytes")]
        let content_bytes = length as u32;
        let mut owner = [0; OWNER_BYTES];
        let mut at = 0;
        while at < OWNER.len() {
            owner[at] = OWNER.as_bytes()[at];
            at += 1;
        }
        Self { owner_bytes: 8, content_bytes, kind: IDENTITY_TYPE, owner, content }
    }

    /// The identity as JSON.
    #[must_use]
    pub fn json(&self) -> &str {
        let content = self.content.get(..self.content_bytes as usize).unwrap_or_default();
        str::from_utf8(content).unwrap_or_default()
    }
}

/// How many bytes the content takes with its padding.
#[must_use]
pub const fn padded(features: &[&str], guarantees: &[Guarantee]) -> usize {
    text::json::<0>(&IDENTITY, features, guarantees).1.next_multiple_of(4)
}

/// Puts the note into the file that this crate becomes a part of, as `static NOTE`. Once in a file:
/// the arguments are the backends compiled in and the guarantees given, both constants.
#[macro_export]
macro_rules! note {
    ($features:expr, $guarantees:expr) => {
        #[used]
        #[allow(unsafe_code, reason = "the section is named as no other is, and is only read")]
        // SAFETY: nothing else defines or overwrites this section.
        #[unsafe(link_section = ".note.dormant")]
        static NOTE: $crate::note::Note<{ $crate::note::padded($features, $guarantees) }> =
            $crate::note::Note::new($features, $guarantees);
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GUARANTEES;

    const FEATURES: &[&str] = &["cuda", "sim"];
    const CONTENT: usize = padded(FEATURES, GUARANTEES);
    static NOTE: Note<CONTENT> = Note::new(FEATURES, GUARANTEES);

    #[test]
    fn a_note_is_json_with_all_that_is_known() {
        let parsed: serde_json::Value = serde_json::from_str(NOTE.json()).expect("JSON");
        assert_eq!(parsed["schema"], 1);
        assert_eq!(parsed["version"], IDENTITY.version);
        assert_eq!(parsed["commit"].as_str(), IDENTITY.commit);
        assert_eq!(parsed["dirty"].as_bool(), IDENTITY.dirty);
        assert_eq!(parsed["source"].as_str(), IDENTITY.source);
        assert_eq!(parsed["features"], serde_json::json!(["cuda", "sim"]));
        assert_eq!(parsed["target"], IDENTITY.target);
        assert_eq!(parsed["profile"], IDENTITY.profile);
        assert_eq!(parsed["rustc"], IDENTITY.rustc);
        let names: Vec<_> = GUARANTEES.iter().map(|guarantee| guarantee.name).collect();
        assert_eq!(parsed["guarantees"], serde_json::json!(names));
    }

    #[test]
    fn nothing_compiled_in_is_an_empty_list_and_what_is_unknown_is_null() {
        let unknown = crate::Identity { commit: None, dirty: None, source: None, ..IDENTITY };
        let (bytes, length) = text::json::<4096>(&unknown, &[], &[]);
        let parsed: serde_json::Value = serde_json::from_slice(&bytes[..length]).expect("JSON");
        for name in ["commit", "dirty", "source"] {
            assert!(parsed[name].is_null(), "{name}");
        }
        assert_eq!(parsed["features"], serde_json::json!([]));
        assert_eq!(parsed["guarantees"], serde_json::json!([]));
    }

    #[test]
    fn a_note_lies_as_elf_wants_it() {
        assert_eq!(align_of::<Note<4>>(), 4);
        assert_eq!(size_of::<Note<CONTENT>>(), 20 + CONTENT);
        assert_eq!((NOTE.owner_bytes, NOTE.kind), (8, IDENTITY_TYPE));
        assert_eq!(std::mem::offset_of!(Note<CONTENT>, content), 20);
    }
}
