//! What must not compile: everything that would release one handle twice, or use a block in a
//! state that it is not in. Generic over the driver, so it holds for every backend.

#[test]
fn a_block_misused_does_not_compile_and_one_used_well_does() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail/legal/*.rs");
    cases.compile_fail("tests/compile_fail/*.rs");
}
