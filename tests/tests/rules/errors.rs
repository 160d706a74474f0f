//! Rule 1: a failure says what was tried, where, how much was wanted and is free, and who has it.

use allocator_core::ErrorKind;
use dormant_engine::{Allocation, Policy, ResumeOptions};

use crate::support::{CAPACITY, GRANULE, ONE, ZERO, engine_over, filled, free_bytes, pause, small};

#[test]
fn rule_1_an_allocation_without_room_names_tag_device_bytes_and_holders() {
    let (_sim, engine) = engine_over(small());
    for (tag, granules) in [("small", 3), ("large", 200), ("middle", 40)] {
        engine.allocate(&Allocation::new(granules * GRANULE, ONE).tag(tag)).unwrap();
    }
    engine.allocate(&Allocation::new(GRANULE, ZERO).tag("elsewhere")).unwrap();
    let free = CAPACITY - 243 * GRANULE;
    let wanted = 14 * GRANULE - 1;
    let error = engine.allocate(&Allocation::new(wanted, ONE).tag("late")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!((error.wanted_bytes(), error.free_bytes()), (Some(wanted), Some(free)));
    assert_eq!(error.cause().device(), Some(ONE));
    let holders: Vec<_> = error
        .holders()
        .iter()
        .map(|holder| (holder.tag.as_str(), holder.device, holder.active_bytes / GRANULE))
        .collect();
    assert_eq!(holders, [("large", ONE, 200), ("middle", ONE, 40), ("small", ONE, 3)]);
    let text = error.to_string();
    for part in [
        "allocation under `late`".to_owned(),
        "out of memory".to_owned(),
        "device 1".to_owned(),
        format!("wanted {wanted} bytes"),
        format!("{free} bytes are free"),
        format!("{} bytes as `large`", 200 * GRANULE),
    ] {
        assert!(text.contains(&part), "`{part}` is not in: {text}");
    }
    assert!(!text.contains("elsewhere"), "another device's holder: {text}");
}

#[test]
fn rule_1_a_resume_without_room_names_tags_device_bytes_and_holders() {
    let (sim, engine) = engine_over(small());
    for tag in ["a", "b"] {
        let allocation = Allocation::new(100 * GRANULE, ONE).tag(tag).policy(Policy::Host);
        filled(&engine, &allocation, 100 * GRANULE, 1);
    }
    pause(&engine, dormant_engine::Selection::tags(["a", "b"]));
    engine.allocate(&Allocation::new(100 * GRANULE, ONE).tag("rollout")).unwrap();
    let both = dormant_engine::Selection::tags(["b", "a"]);
    let error = engine.resume(both, &ResumeOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!(error.wanted_bytes(), Some(200 * GRANULE));
    assert_eq!(error.free_bytes(), Some(CAPACITY - 100 * GRANULE));
    assert_eq!(free_bytes(&sim, ONE), CAPACITY - 100 * GRANULE, "nothing was kept");
    let text = error.to_string();
    for part in ["resume of `b`, `a`", "device 1", "as `rollout`", "bytes are free"] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn rule_1_what_never_fits_is_told_from_what_may_fit_later() {
    let (_sim, engine) = engine_over(small());
    let error = engine.allocate(&Allocation::new(CAPACITY + 1, ZERO).tag("w")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(error.wanted_bytes(), Some(CAPACITY + 1));
}
