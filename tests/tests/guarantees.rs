//! Each guarantee is tied to conformance cases, and each case shows something that is promised.

use std::collections::BTreeSet;

use allocator_testkit::suite;

#[test]
fn every_guarantee_names_cases_that_there_are_and_every_case_belongs_to_one() {
    let cases: BTreeSet<_> = suite::cases().iter().map(|case| case.name).collect();
    let mut named = BTreeSet::new();
    for guarantee in dormant::build_info().guarantees {
        for case in guarantee.cases {
            assert!(
                cases.contains(case),
                "{} names {case}, and there is no such case",
                guarantee.name
            );
            named.insert(*case);
        }
    }
    let without: Vec<_> = cases.difference(&named).collect();
    assert!(without.is_empty(), "no guarantee is tied to {without:?}");
}
