//! Reading the note of a file, without loading it.

use std::fs;
use std::path::Path;

use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, FileKind};

use crate::identity::Identity;

/// The owner's name in the note.
const OWNER: &[u8] = b"dormant";

/// The note's type: its content is the identity as JSON.
const IDENTITY_TYPE: u32 = 1;

/// What a file says of itself.
///
/// # Errors
/// The file cannot be read, is no ELF file, has no note of ours, or more than one.
pub(crate) fn read(path: &Path) -> Result<Identity, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    of(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// What the bytes of a file say.
///
/// # Errors
/// As [`read`].
pub(crate) fn of(bytes: &[u8]) -> Result<Identity, String> {
    if !matches!(FileKind::parse(bytes), Ok(FileKind::Elf64)) {
        return Err("not a 64-bit ELF file (a program or a library)".to_owned());
    }
    let contents = notes(bytes).map_err(|error| format!("not a whole ELF file: {error}"))?;
    match contents.as_slice() {
        [] => Err("no part of dormant, or of a build before it had a note: there is no note of \
                   its owner"
            .to_owned()),
        [content] => {
            let text = str::from_utf8(content).map_err(|error| format!("its note: {error}"))?;
            Identity::parse(text).map_err(|error| format!("its note: {error}"))
        }
        more => Err(format!("{} builds of dormant are linked into it", more.len())),
    }
}

/// The contents of our notes. From the program headers, which a stripped file has too.
fn notes(bytes: &[u8]) -> object::Result<Vec<&[u8]>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let mut found = Vec::new();
    for segment in header.program_headers(endian, bytes)? {
        let Some(mut notes) = segment.notes(endian, bytes)? else { continue };
        while let Some(note) = notes.next()? {
            if note.name() == OWNER && note.n_type(endian) == IDENTITY_TYPE {
                found.push(note.desc());
            }
        }
    }
    Ok(found)
}
