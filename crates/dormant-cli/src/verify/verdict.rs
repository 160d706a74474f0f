//! What a file's identity and the cases' outcomes come to.

use crate::identity::Identity;
use crate::verify::record::{Case, Expected, Held, Outcome};

/// A commit's first digits, as people name it.
fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// Why a build is not of a commit; `what` says whose it is.
pub(crate) fn not_of_commit(identity: &Identity, wanted: &str, what: &str) -> Option<String> {
    let wanted_short = short(wanted);
    let Some(commit) = &identity.commit else {
        return Some(format!("{what} of an unknown commit, not of {wanted_short}"));
    };
    if !commit.starts_with(wanted) {
        return Some(format!("{what} of {}, not of {wanted_short}", short(commit)));
    }
    match identity.dirty {
        Some(false) => None,
        _ => Some(format!("{what} of {wanted_short} with changes")),
    }
}

/// Why a build is not what was expected.
pub(crate) fn unexpected(identity: &Identity, expected: &Expected) -> Vec<String> {
    let mut why = Vec::new();
    if let Some(commit) = &expected.commit {
        why.extend(not_of_commit(identity, commit, "the library is"));
    }
    if let Some(source) = &expected.source
        && identity.source.as_ref() != Some(source)
    {
        let have = identity.source.as_deref().unwrap_or("unknown");
        why.push(format!("the library is of sources {have}, not of {source}"));
    }
    for name in expected.guarantees.iter().filter(|name| !identity.guarantees.contains(name)) {
        why.push(format!("the library does not give the guarantee {name}"));
    }
    why
}

/// Which of this build's guarantees held.
pub(crate) fn held(cases: &[Case]) -> Vec<Held> {
    let outcome = |name: &&str| {
        let case = cases.iter().find(|case| case.case == **name);
        case.map_or(Outcome::Skipped, |case| case.outcome)
    };
    let held = |each: &dormant::build_info::Guarantee| {
        let outcomes: Vec<_> = each.cases.iter().map(outcome).collect();
        let held = match outcomes.as_slice() {
            some if some.contains(&Outcome::Failed) => Some(false),
            some if some.contains(&Outcome::Skipped) => None,
            _ => Some(true),
        };
        Held { guarantee: each.name.to_owned(), held }
    };
    dormant::build_info().guarantees.iter().map(held).collect()
}

/// Which of the cases that this build's guarantees are tied to were not told of.
pub(crate) fn missing(cases: &[Case]) -> Vec<String> {
    let told = |name: &str| cases.iter().any(|case| case.case == name);
    let all = dormant::build_info().guarantees.iter().flat_map(|each| each.cases);
    let untold = all.filter(|name| !told(name));
    untold.map(|name| format!("the library did not run the case {name}")).collect()
}

/// What the cases say against the build.
pub(crate) fn broken(cases: &[Case], guarantees: &[Held], expected: &Expected) -> Vec<String> {
    let mut why = Vec::new();
    for case in cases.iter().filter(|case| case.outcome == Outcome::Failed) {
        let reason = case.reason.as_deref().unwrap_or("no reason is known");
        why.push(format!("case {}: {reason}", case.case));
    }
    for name in &expected.guarantees {
        let held = guarantees.iter().any(|each| each.guarantee == *name && each.held == Some(true));
        if !held && !cases.is_empty() {
            why.push(format!("the guarantee {name} did not hold, or was not tried"));
        }
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "f05a0123456789abcdef0123456789abcdef0123";

    fn build(commit: Option<&str>, dirty: Option<bool>) -> Identity {
        Identity { commit: commit.map(str::to_owned), dirty, ..Identity::default() }
    }

    fn case(name: &str, outcome: Outcome) -> Case {
        Case { case: name.to_owned(), area: String::new(), outcome, ms: 1, reason: None }
    }

    #[test]
    fn only_a_clean_build_of_the_commit_is_of_it() {
        let clean = build(Some(COMMIT), Some(false));
        assert_eq!(not_of_commit(&clean, COMMIT, "this run is"), None);
        assert_eq!(not_of_commit(&clean, &COMMIT[..7], "this run is"), None);
        let other = not_of_commit(&clean, "b558aaaaaaaaaaaa", "this run is").unwrap();
        assert_eq!(other, "this run is of f05a01234567, not of b558aaaaaaaa");
        for (commit, dirty, words) in
            [(Some(COMMIT), Some(true), "with changes"), (None, None, "unknown commit")]
        {
            let why = not_of_commit(&build(commit, dirty), COMMIT, "this run is").unwrap();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn all_that_is_expected_and_is_not_so_is_named() {
        let expected = Expected {
            commit: Some("b558aaa".to_owned()),
            source: Some("sha256:00".to_owned()),
            guarantees: vec!["free-while-paused".to_owned(), "time-travel".to_owned()],
        };
        let why = unexpected(&build(Some(COMMIT), Some(false)), &expected);
        assert_eq!(why.len(), 3, "{why:?}");
        assert!(why[2].contains("time-travel"));
        assert!(unexpected(&build(None, None), &Expected::default()).is_empty());
    }

    #[test]
    fn a_case_that_was_not_told_of_is_missing() {
        let all = dormant::build_info().guarantees.iter().flat_map(|each| each.cases);
        let mut cases: Vec<_> = all.map(|name| case(name, Outcome::Skipped)).collect();
        assert!(missing(&cases).is_empty());
        let last = cases.pop().unwrap();
        assert!(missing(&cases)[0].contains(&last.case));
    }

    #[test]
    fn a_guarantee_holds_when_every_case_of_it_passed() {
        let guarantee = &dormant::build_info().guarantees[0];
        let mut cases: Vec<_> =
            guarantee.cases.iter().map(|name| case(name, Outcome::Passed)).collect();
        assert_eq!((held(&cases)[0].held, held(&cases)[1].held), (Some(true), None));
        let wanted =
            Expected { guarantees: vec![guarantee.name.to_owned()], ..Expected::default() };
        assert!(broken(&cases, &held(&cases), &wanted).is_empty());
        for (outcome, is) in [(Outcome::Failed, Some(false)), (Outcome::Skipped, None)] {
            cases[0].outcome = outcome;
            assert_eq!(held(&cases)[0].held, is);
            let why = broken(&cases, &held(&cases), &wanted);
            assert!(why.last().is_some_and(|why| why.contains(guarantee.name)), "{why:?}");
        }
    }
}
