//! What a device's driver does otherwise than documented, found by asking it and not by its
//! version: patched runtimes with the same number are in the field.
//!
//! Asked are a few MiB, for a tenth of a second at most, when somebody wants to know the device's
//! capabilities: the engine before its first pause there, and `dormant info`. A device that
//! nobody asks about is left alone. Answers are kept for the life of the process.
//!
//! | quirk | asked how |
//! |---|---|
//! | `keeps_until_unreserved` | free bytes before, with and after a mapping whose range stays; three times, since other processes move the reading. No agreement is doubt, and doubt counts as yes |
//! | `joined_unmap` | one unmap over two mappings side by side, and whether the range can be freed then. Where it goes wrong, a granule stays with the process |
//! | `host_access` | not asked: a host read of device memory that is not allowed is a fault. `no` unless the environment says yes |
//!
//! Each can be set in the environment, and is then not asked:
//! `DORMANT_HIP_QUIRKS=keeps_until_unreserved=yes,joined_unmap=no,host_access=yes`.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use allocator_core::waiting::lock;
use allocator_core::{Address, Capabilities, Error, ErrorKind, Operation, Result};

use crate::Hip;
use crate::device::Slot;
use crate::memory::{Vmm, access};
use crate::sys::{ACCESS_READ_WRITE, Handle};

/// Sets quirks instead of asking.
const VARIABLE: &str = "DORMANT_HIP_QUIRKS";

const OPERATION: Operation = Operation::Capabilities;

/// How many times the free bytes are asked about.
const TIMES: usize = 3;
/// How many bytes are taken for that, in whole granules.
const PROBE_BYTES: u64 = 2 << 20;
/// No asking begins after this time.
const BUDGET: Duration = Duration::from_millis(100);

/// What the environment says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overrides {
    keeps_until_unreserved: Option<bool>,
    joined_unmap: Option<bool>,
    host_access: Option<bool>,
}

impl Overrides {
    /// # Errors
    /// `InvalidArgument` for a word that is not understood.
    pub(crate) fn from_env() -> Result<Self> {
        match std::env::var_os(VARIABLE) {
            Some(text) => Self::parse(&text.to_string_lossy()),
            None => Ok(Self::default()),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let mut all = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let quirk = match name.trim() {
                "keeps_until_unreserved" => &mut all.keeps_until_unreserved,
                "joined_unmap" => &mut all.joined_unmap,
                "host_access" => &mut all.host_access,
                _ => return Err(not_understood(word)),
            };
            *quirk = Some(match value.trim() {
                "yes" => true,
                "no" => false,
                _ => return Err(not_understood(word)),
            });
        }
        Ok(all)
    }

    /// Whether the host gets an access descriptor of its own.
    pub(crate) fn host_access(self) -> bool {
        self.host_access == Some(true)
    }
}

fn not_understood(word: &str) -> Error {
    let text = format!(
        "`{word}` in {VARIABLE} is not understood; it holds some of keeps_until_unreserved, \
         joined_unmap and host_access, each with =yes or =no, and commas between them"
    );
    Error::new(ErrorKind::InvalidArgument, Operation::Open, text)
}

/// An answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Unsure,
}

impl From<bool> for Answer {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// The answers that a device has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answers {
    keeps_until_unreserved: Answer,
    joined_unmap: Answer,
}

/// A device's answers, once it was asked.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    answers: OnceLock<Answers>,
    asking: Mutex<()>,
}

fn flags(answers: Answers, overrides: Overrides) -> Capabilities {
    let Answers { keeps_until_unreserved: keeps, joined_unmap: joined } = answers;
    let mut found = Capabilities::empty();
    found.set(Capabilities::KEEPS_UNTIL_UNRESERVED, keeps != Answer::No);
    found.set(Capabilities::NO_JOINED_UNMAP, joined != Answer::Yes);
    found.set(Capabilities::HOST_ACCESS_NEEDED, overrides.host_access());
    let doubt = keeps == Answer::Unsure || joined == Answer::Unsure;
    found.set(Capabilities::QUIRKS_IN_DOUBT, doubt);
    found
}

/// Free bytes before a mapping, with it, after its release, and after the range is gone.
#[derive(Clone, Copy, Debug)]
struct Readings {
    before: u64,
    mapped: u64,
    released: u64,
    unreserved: u64,
}

impl Readings {
    /// Whether memory of `bytes` stayed until the range was gone. What came back in neither step,
    /// or was never missing, says nothing.
    fn keeps(self, bytes: u64) -> Answer {
        let most = |from: u64, to: u64| from.saturating_sub(to) > bytes / 2;
        if !most(self.before, self.mapped) {
            Answer::Unsure
        } else if most(self.released, self.mapped) {
            Answer::No
        } else if most(self.unreserved, self.mapped) {
            Answer::Yes
        } else {
            Answer::Unsure
        }
    }
}

impl Hip {
    /// The quirks of a device, as flags.
    pub(crate) fn quirks_of(&self, slot: &Slot) -> Capabilities {
        let asked = &slot.asked;
        if asked.answers.get().is_none() {
            let _turn = lock(&asked.asking);
            if asked.answers.get().is_none() {
                match self.ask(slot) {
                    Ok(answers) => asked.answers.get_or_init(|| answers),
                    // It could not be asked now (memory is short, say); a later call asks again.
                    Err(_) => return flags(self.with_overrides(DOUBT), self.overrides),
                };
            }
        }
        flags(asked.answers.get().copied().unwrap_or(DOUBT), self.overrides)
    }

    fn with_overrides(&self, answers: Answers) -> Answers {
        let Overrides { keeps_until_unreserved, joined_unmap, .. } = self.overrides;
        Answers {
            keeps_until_unreserved: keeps_until_unreserved
                .map_or(answers.keeps_until_unreserved, Answer::from),
            joined_unmap: joined_unmap.map_or(answers.joined_unmap, Answer::from),
        }
    }

    /// Asks what the environment leaves open.
    fn ask(&self, slot: &Slot) -> Result<Answers> {
        let mut answers = self.with_overrides(DOUBT);
        if answers.keeps_until_unreserved != Answer::Unsure
            && answers.joined_unmap != Answer::Unsure
        {
            return Ok(answers);
        }
        let granularity = self.granule(slot.device)?;
        let bytes = granularity.round_up(PROBE_BYTES)?;
        // Held to the end, so that at least this process does not move the readings.
        let vmm = self.vmm(slot.device, OPERATION)?;
        slot.use_it();
        let begun = Instant::now();
        if answers.keeps_until_unreserved == Answer::Unsure {
            answers.keeps_until_unreserved = self.ask_keeps(&vmm, bytes, begun)?;
        }
        if answers.joined_unmap == Answer::Unsure && begun.elapsed() < BUDGET {
            let answer = ask_joined(&vmm, granularity.bytes());
            answers.joined_unmap = answer.map_or(Answer::Unsure, Answer::from);
        }
        Ok(answers)
    }

    /// The answer on which all askings agree, or none.
    fn ask_keeps(&self, vmm: &Vmm<'_>, bytes: u64, begun: Instant) -> Result<Answer> {
        let mut agreed = None;
        for _ in 0..TIMES {
            if begun.elapsed() >= BUDGET {
                return Ok(Answer::Unsure);
            }
            let answer = self.readings(vmm, bytes)?.keeps(bytes);
            if *agreed.get_or_insert(answer) != answer || answer == Answer::Unsure {
                return Ok(Answer::Unsure);
            }
        }
        Ok(agreed.unwrap_or(Answer::Unsure))
    }

    fn readings(&self, vmm: &Vmm<'_>, bytes: u64) -> Result<Readings> {
        let free = || self.reading(vmm.device(), OPERATION).map(|memory| memory.free_bytes);
        let at = vmm.reserve(OPERATION, bytes, None)?;
        let taken = (|| {
            let before = free()?;
            // SAFETY: the range is this function's, and empty.
            let handle = unsafe { place(vmm, at, bytes) }?;
            let mapped = free();
            // SAFETY: placed there two lines above, and used by nobody.
            unsafe { vmm.unmap(OPERATION, at, bytes) }?;
            // SAFETY: it is unmapped, and released once.
            unsafe { vmm.release(OPERATION, handle, bytes) }?;
            Ok((before, mapped?, free()?))
        })();
        // SAFETY: reserved above; either nothing is mapped in it, or an unmap has failed and the
        // runtime refuses this too.
        let unreserved = unsafe { vmm.unreserve(OPERATION, at, bytes) };
        let (before, mapped, released) = taken?;
        unreserved?;
        Ok(Readings { before, mapped, released, unreserved: free()? })
    }
}

/// Whether one unmap may cover two mappings.
fn ask_joined(vmm: &Vmm<'_>, granule: u64) -> Result<bool> {
    let at = vmm.reserve(OPERATION, 2 * granule, None)?;
    let works = (|| {
        // SAFETY: the range is this function's, and empty.
        let first = unsafe { place(vmm, at, granule) }?;
        let next = at.offset(granule);
        // SAFETY: the range is two granules long, and the second is empty.
        let second = match unsafe { place(vmm, next, granule) } {
            Ok(handle) => handle,
            Err(error) => {
                // SAFETY: placed above, and used by nobody.
                unsafe { take_away(vmm, at, granule, first) }?;
                return Err(error);
            }
        };
        // SAFETY: both mappings, whole, used by nobody. Whether this is allowed is the question.
        let joined = unsafe { vmm.unmap(OPERATION, at, 2 * granule) }.is_ok();
        if joined {
            // SAFETY: the runtime says that it is unmapped; a release while mapped is legal.
            unsafe { vmm.release(OPERATION, first, granule) }?;
            // SAFETY: as above.
            unsafe { vmm.release(OPERATION, second, granule) }?;
        } else {
            // SAFETY: a refused unmap leaves both as they were.
            unsafe { take_away(vmm, at, granule, first) }?;
            // SAFETY: as above.
            unsafe { take_away(vmm, next, granule, second) }?;
        }
        Ok(joined)
    })();
    // SAFETY: reserved above; either nothing is mapped in it, or the runtime refuses this too.
    let freed = unsafe { vmm.unreserve(OPERATION, at, 2 * granule) };
    // A range that is still busy tells that the second mapping is still there.
    Ok(works? && freed.is_ok())
}

/// Nothing is known.
const DOUBT: Answers =
    Answers { keeps_until_unreserved: Answer::Unsure, joined_unmap: Answer::Unsure };

/// Creates memory, maps it and opens it to its device; all or nothing.
///
/// # Safety
/// The place lies within a range of the caller's and holds no mapping.
unsafe fn place(vmm: &Vmm<'_>, at: Address, bytes: u64) -> Result<Handle> {
    let handle = vmm.create(OPERATION, bytes)?;
    // SAFETY: the caller's promise; the handle is fresh and of this size.
    if let Err(error) = unsafe { vmm.map(OPERATION, at, bytes, handle) } {
        // SAFETY: made above, not mapped, released once.
        let undone = unsafe { vmm.release(OPERATION, handle, bytes) };
        return Err(error.with_undo(undone));
    }
    let owner = [access(vmm.device(), ACCESS_READ_WRITE)];
    // SAFETY: mapped above with this address and size.
    if let Err(error) = unsafe { vmm.set_access(OPERATION, at, bytes, &owner) } {
        // SAFETY: mapped above, used by nobody.
        let undone = unsafe { take_away(vmm, at, bytes, handle) };
        return Err(error.with_undo(undone));
    }
    Ok(handle)
}

/// Undoes [`place`].
///
/// # Safety
/// The handle is mapped there, whole, and used by nobody; it is gone afterwards.
unsafe fn take_away(vmm: &Vmm<'_>, at: Address, bytes: u64, handle: Handle) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { vmm.unmap(OPERATION, at, bytes) }?;
    // SAFETY: unmapped by the line above, and released once.
    unsafe { vmm.release(OPERATION, handle, bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = PROBE_BYTES;

    #[test]
    fn the_environment_sets_quirks_one_by_one() {
        assert_eq!(Overrides::parse("").unwrap(), Overrides::default());
        let all = Overrides::parse("keeps_until_unreserved=no, joined_unmap=yes,host_access=yes,");
        let expected = Overrides {
            keeps_until_unreserved: Some(false),
            joined_unmap: Some(true),
            host_access: Some(true),
        };
        assert_eq!(all.unwrap(), expected);
        let one = Overrides::parse("joined_unmap=no").unwrap();
        assert_eq!(one, Overrides { joined_unmap: Some(false), ..Overrides::default() });
    }

    #[test]
    fn a_word_that_is_not_understood_is_named_with_those_that_are() {
        for word in ["keeps=yes", "joined_unmap", "host_access=maybe", "=yes"] {
            let error = Overrides::parse(&format!("joined_unmap=yes,{word}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let text = error.to_string();
            assert!(text.contains(&format!("`{word}`")) && text.contains(VARIABLE), "{text}");
            assert!(text.contains("keeps_until_unreserved"), "{text}");
        }
    }

    #[test]
    fn readings_tell_where_memory_stayed() {
        let readings = |mapped, released, unreserved| Readings {
            before: 10 * BYTES,
            mapped,
            released,
            unreserved,
        };
        let (full, taken) = (10 * BYTES, 9 * BYTES);
        assert_eq!(readings(taken, full, full).keeps(BYTES), Answer::No);
        assert_eq!(readings(taken, taken, full).keeps(BYTES), Answer::Yes);
        assert_eq!(readings(taken, taken, taken).keeps(BYTES), Answer::Unsure, "it is gone");
        assert_eq!(readings(full, full, full).keeps(BYTES), Answer::Unsure, "it never showed");
        // A little noise is no matter.
        assert_eq!(readings(taken - 4096, full - 8192, full).keeps(BYTES), Answer::No);
    }

    #[test]
    fn doubt_counts_as_a_quirk_and_is_told() {
        let found = flags(DOUBT, Overrides::default());
        assert_eq!(
            found,
            Capabilities::KEEPS_UNTIL_UNRESERVED
                | Capabilities::NO_JOINED_UNMAP
                | Capabilities::QUIRKS_IN_DOUBT
        );
        let sound = Answers { keeps_until_unreserved: Answer::No, joined_unmap: Answer::Yes };
        assert_eq!(flags(sound, Overrides::default()), Capabilities::empty());
    }
}
