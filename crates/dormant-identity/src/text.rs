//! Writing the identity as JSON at compile time.

use crate::{Guarantee, Identity};

/// A place to write, or only to count, at compile time.
struct Writer<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Writer<N> {
    const fn plain(&mut self, text: &str) {
        let text = text.as_bytes();
        let mut at = 0;
        while at < text.len() {
            if self.length < N {
                self.bytes[self.length] = text[at];
            }
            self.length += 1;
            at += 1;
        }
    }

    /// Text in quotation marks.
    const fn quoted(&mut self, text: &str) {
        let mut at = 0;
        while at < text.len() {
            let byte = text.as_bytes()[at];
            assert!(byte >= b' ' && byte != b'"' && byte != b'\\', "text that JSON would escape");
            at += 1;
        }
        self.plain("\"");
        self.plain(text);
        self.plain("\"");
    }

    const fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.quoted(text),
            None => self.plain("null"),
        }
    }
}

/// The identity as one JSON object, and how long it is; with `N` of 0 it is only counted.
pub(crate) const fn json<const N: usize>(
    identity: &Identity,
    features: &[&str],
    guarantees: &[Guarantee],
) -> ([u8; N], usize) {
    let mut to = Writer { bytes: [0; N], length: 0 };
    to.plain("{\"schema\":1,\"version\":");
    to.quoted(identity.version);
    to.plain(",\"commit\":");
    to.optional(identity.commit);
    to.plain(",\"dirty\":");
    to.plain(match identity.dirty {
        Some(true) => "true",
        Some(false) => "false",
        None => "null",
    });
    to.plain(",\"source\":");
    to.optional(identity.source);
    to.plain(",\"features\":[");
    let mut at = 0;
    while at < features.len() {
        to.plain(if at == 0 { "" } else { "," });
        to.quoted(features[at]);
        at += 1;
    }
    to.plain("],\"target\":");
    to.quoted(identity.target);
    to.plain(",\"profile\":");
    to.quoted(identity.profile);
    to.plain(",\"rustc\":");
    to.quoted(identity.rustc);
    to.plain(",\"guarantees\":[");
    at = 0;
    while at < guarantees.len() {
        to.plain(if at == 0 { "" } else { "," });
        to.quoted(guarantees[at].name);
        at += 1;
    }
    to.plain("]}");
    (to.bytes, to.length)
}
