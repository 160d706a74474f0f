//! Reading the note of a file, without loading it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use dormant_identity::note::{IDENTITY_TYPE, OWNER};
use object::elf::{FileHeader64, PT_NOTE};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, FileKind, ReadCache};

use crate::identity::Identity;

/// More than any linker makes.
const MOST_SEGMENTS: usize = 1 << 16;
const MOST_NOTE_BYTES: u64 = 16 << 20;

/// What a file says of itself.
///
/// # Errors
/// The file cannot be read, is no ELF file, has no note of ours, or more than one.
pub(crate) fn read(path: &Path) -> Result<Identity, String> {
    let said = match opened(path) {
        Ok(Some(file)) => of(&ReadCache::new(file)),
        Ok(None) => Err("neither a program nor a library: it is no file".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    said.map_err(|error| format!("{}: {error}", path.display()))
}

/// The file, if it is one: a pipe would be waited for, and a device has no end.
fn opened(path: &Path) -> io::Result<Option<File>> {
    let is_file = fs::metadata(path)?.is_file();
    is_file.then(|| File::open(path)).transpose()
}

/// What a file says. No more of it is read than headers and notes.
fn of(file: &ReadCache<File>) -> Result<Identity, String> {
    if !matches!(FileKind::parse(file), Ok(FileKind::Elf64)) {
        return Err("not a 64-bit ELF file (a program or a library)".to_owned());
    }
    let contents = notes(file).map_err(|error| format!("not a whole ELF file: {error}"))?;
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
fn notes(file: &ReadCache<File>) -> Result<Vec<&[u8]>, String> {
    let text = |error: object::Error| error.to_string();
    let header = FileHeader64::<Endianness>::parse(file).map_err(text)?;
    let endian = header.endian().map_err(text)?;
    let segments = header.phnum(endian, file).map_err(text)?;
    if segments > MOST_SEGMENTS {
        return Err(format!("{segments} segments"));
    }
    let mut found = Vec::new();
    for segment in header.program_headers(endian, file).map_err(text)? {
        if segment.p_type(endian) == PT_NOTE && segment.p_filesz(endian) > MOST_NOTE_BYTES {
            return Err(format!("{} bytes of notes", segment.p_filesz(endian)));
        }
        let Some(mut notes) = segment.notes(endian, file).map_err(text)? else { continue };
        while let Some(note) = notes.next().map_err(text)? {
            if note.name() == OWNER.as_bytes() && note.n_type(endian) == IDENTITY_TYPE {
                found.push(note.desc());
            }
        }
    }
    Ok(found)
}
