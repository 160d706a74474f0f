//! No case exists for one backend and not for another: that is how two images drift apart.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Every module with a suite.
const MODULES: &[&str] = &[
    "cuda_device",
    "cuda_double",
    "hip_device",
    "hip_double_70",
    "hip_double_72",
    "hip_double_72_patched",
    "hip_double_all_faults",
    "hip_double_early_release_keeps_range",
    "hip_double_max_piece",
    "hip_double_no_joined_access",
    "hip_double_no_joined_unmap",
    "sim",
    "sim_early_release_keeps_range",
    "sim_host_access_needed",
    "sim_keep_until_unreserved",
    "sim_max_piece",
    "sim_no_joined_access",
    "sim_no_joined_unmap",
];

#[test]
fn every_backend_has_the_same_cases() {
    let test = std::env::current_exe().expect("this test's own path");
    let output = Command::new(test).arg("--list").output().expect("a list of the tests");
    let listed = String::from_utf8(output.stdout).expect("names");
    let mut cases = BTreeMap::<&str, BTreeSet<&str>>::new();
    for name in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
        let (module, case) = name.rsplit_once("::").expect("every test is in a module");
        if module != "parity" {
            cases.entry(module).or_default().insert(case);
        }
    }
    assert_eq!(cases.keys().copied().collect::<Vec<_>>(), MODULES);
    let first = &cases["sim"];
    assert!(!first.is_empty());
    for (module, others) in &cases {
        let missing: Vec<_> = first.difference(others).collect();
        let extra: Vec<_> = others.difference(first).collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "{module} has other cases than sim: without {missing:?}, and {extra:?} besides"
        );
    }
}
