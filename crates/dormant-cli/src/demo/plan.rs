//! What the demo allocates.

use dormant::{ErrorKind, Granularity, Policy};

use crate::failure::Failure;
use crate::size::Bytes;

/// No block is larger, unless there would be more than [`MOST_BLOCKS`] of a role.
const LARGEST_BLOCK_BYTES: u64 = 1 << 30;

/// The most blocks of one role.
const MOST_BLOCKS: u64 = 1024;

/// What a block stands for. Its name is its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Must be back after the resume, byte by byte.
    Weights,
    /// May be lost; must be usable again.
    KvCache,
    /// Must be zero after the resume.
    Scratch,
    /// Is freed while it sleeps.
    Doomed,
}

impl Role {
    pub(crate) const ALL: [Self; 4] = [Self::Weights, Self::KvCache, Self::Scratch, Self::Doomed];

    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::KvCache => "kv_cache",
            Self::Scratch => "scratch",
            Self::Doomed => "doomed",
        }
    }

    pub(crate) const fn policy(self) -> Policy {
        match self {
            Self::Weights | Self::Doomed => Policy::Host,
            Self::KvCache => Policy::Discard,
            Self::Scratch => Policy::Zero,
        }
    }

    /// Its share of the whole, in eighths. The weights take what is left.
    const fn eighths(self) -> u64 {
        match self {
            Self::Weights => 4,
            Self::KvCache => 2,
            Self::Scratch | Self::Doomed => 1,
        }
    }
}

/// A block to be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) role: Role,
    pub(crate) bytes: u64,
    pub(crate) physical_bytes: u64,
}

/// The least that [`plan`] can do with, in bytes: one granule for each role.
pub(crate) fn least_bytes(granularity: Granularity) -> u64 {
    granularity.bytes().saturating_mul(Role::ALL.len() as u64)
}

/// The blocks that take `bytes` of device memory, less what does not fill a granule. The last of
/// the weights is of an odd size, which its physical memory is rounded up from.
///
/// # Errors
/// `InvalidArgument` for less than [`least_bytes`].
pub(crate) fn plan(bytes: u64, granularity: Granularity) -> Result<Vec<Wanted>, Failure> {
    let granule = granularity.bytes();
    let granules = bytes / granule;
    if bytes < least_bytes(granularity) {
        let message = format!(
            "a size of {} is too small: this device hands memory out in pieces of {}, and the demo \
             needs {}",
            Bytes(bytes),
            Bytes(granule),
            Bytes(least_bytes(granularity)),
        );
        return Err(Failure { kind: ErrorKind::InvalidArgument, message });
    }
    let share = |role: Role| (granules * role.eighths() / 8).max(1);
    let others: u64 = Role::ALL.into_iter().skip(1).map(share).sum();
    let mut wanted = Vec::new();
    for role in Role::ALL {
        let of_role = if role == Role::Weights { granules - others } else { share(role) };
        wanted.extend(split(of_role, granule).map(|granules| Wanted {
            role,
            bytes: granules * granule,
            physical_bytes: granules * granule,
        }));
    }
    if let Some(last) = wanted.iter_mut().rfind(|wanted| wanted.role == Role::Weights) {
        last.bytes -= granule / 2 - 3;
    }
    Ok(wanted)
}

/// Divides granules among blocks as evenly as can be: two at least, where there are two granules.
fn split(granules: u64, granule: u64) -> impl Iterator<Item = u64> {
    let largest = (LARGEST_BLOCK_BYTES / granule).max(1);
    let blocks = granules.div_ceil(largest).clamp(2, MOST_BLOCKS).min(granules);
    (0..blocks).map(move |index| granules / blocks + u64::from(index < granules % blocks))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn granularity() -> Granularity {
        Granularity::new(2 * MIB).unwrap()
    }

    fn physical(plan: &[Wanted], role: Role) -> u64 {
        plan.iter().filter(|wanted| wanted.role == role).map(|wanted| wanted.physical_bytes).sum()
    }

    #[test]
    fn the_sizes_add_up_to_what_was_asked_for() {
        for bytes in [8 * MIB, 16 * MIB, 24 * MIB, 25 * MIB, 256 * MIB, 2 * GIB, 40 * GIB] {
            let plan = plan(bytes, granularity()).unwrap();
            let all: u64 = plan.iter().map(|wanted| wanted.physical_bytes).sum();
            assert_eq!(all, bytes - bytes % (2 * MIB), "{bytes}");
            for wanted in &plan {
                assert_eq!(granularity().round_up(wanted.bytes).unwrap(), wanted.physical_bytes);
                assert!(wanted.physical_bytes <= GIB);
            }
        }
    }

    #[test]
    fn half_is_weights_a_quarter_kv_cache_and_an_eighth_each_scratch_and_doomed() {
        let plan = plan(40 * GIB, granularity()).unwrap();
        assert_eq!(physical(&plan, Role::Weights), 20 * GIB);
        assert_eq!(physical(&plan, Role::KvCache), 10 * GIB);
        assert_eq!(physical(&plan, Role::Scratch), 5 * GIB);
        assert_eq!(physical(&plan, Role::Doomed), 5 * GIB);
        assert_eq!(plan.len(), 40);
    }

    #[test]
    fn one_block_of_the_weights_is_of_an_odd_size() {
        let plan = plan(64 * MIB, granularity()).unwrap();
        let odd: Vec<_> = plan.iter().filter(|wanted| !wanted.bytes.is_multiple_of(8)).collect();
        assert_eq!(odd.len(), 1);
        assert_eq!(odd[0].role, Role::Weights);
        assert!(odd[0].bytes < odd[0].physical_bytes);
    }

    #[test]
    fn every_role_has_several_blocks_where_the_size_allows() {
        let plan = plan(64 * MIB, granularity()).unwrap();
        for role in Role::ALL {
            assert!(plan.iter().filter(|wanted| wanted.role == role).count() >= 2, "{role:?}");
        }
    }

    #[test]
    fn too_small_a_size_is_refused_with_the_least_that_will_do() {
        let failure = plan(8 * MIB - 1, granularity()).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::InvalidArgument);
        assert!(failure.message.contains("8.00 MiB"), "{failure}");
    }

    #[test]
    fn a_size_beyond_all_devices_makes_no_endless_plan() {
        assert!(plan(u64::MAX, granularity()).unwrap().len() <= 4 * 1024);
    }
}
