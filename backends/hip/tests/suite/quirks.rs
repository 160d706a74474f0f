//! Asking a device for its quirks.

use std::time::{Duration, Instant};

use allocator_core::{Capabilities, Device, Driver, ErrorKind};
use dormant_hip::Hip;

use crate::calls::{gone, mapped};
use crate::fake::Fake;
use crate::open::child;

const DEVICE: Device = Device(1);
const NONE: Capabilities = Capabilities::VIRTUAL_MEMORY;

fn ask(hip: &Hip) -> Capabilities {
    hip.capabilities(DEVICE).unwrap()
}

#[test]
fn a_driver_that_gives_memory_back_has_no_quirks() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    assert_eq!(ask(&hip), NONE);
    assert_eq!(fake.get("last_device"), 1);
    fake.expect_nothing_left();
}

#[test]
fn a_driver_that_keeps_memory_with_the_range_is_found_out() {
    let fake = Fake::build(&[]);
    fake.set("keeps", 1);
    let hip = fake.open();
    assert_eq!(ask(&hip), NONE | Capabilities::KEEPS_UNTIL_UNRESERVED);
    fake.expect_nothing_left();
}

#[test]
fn readings_that_do_not_agree_are_doubt_and_doubt_counts_as_keeping() {
    let fake = Fake::build(&[]);
    fake.set("keeps", 2);
    let hip = fake.open();
    let doubt = NONE | Capabilities::KEEPS_UNTIL_UNRESERVED | Capabilities::QUIRKS_IN_DOUBT;
    assert_eq!(ask(&hip), doubt);
    fake.expect_nothing_left();
}

#[test]
fn a_device_is_asked_once_and_only_when_somebody_wants_to_know() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    let block = mapped(&hip, DEVICE);
    gone(&hip, block);
    assert_eq!((fake.get("readings"), fake.get("creates")), (0, 1));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(ask(&hip), NONE));
        }
    });
    let calls = || ["readings", "reserves", "creates", "unmaps"].map(|count| fake.get(count));
    let asked = calls();
    assert_eq!(asked, [3 * 4, 1 + 3 + 1, 1 + 3 + 2, 1 + 3 + 1]);
    ask(&hip);
    assert_eq!(calls(), asked);
    hip.capabilities(Device(0)).unwrap();
    assert_ne!(calls(), asked, "each device is asked");
}

#[test]
fn memory_that_is_short_is_doubt_for_now_and_leaves_nothing_behind() {
    let fake = Fake::build(&[]);
    let hip = fake.open();
    for answer in ["create_result", "reserve_result", "access_result"] {
        fake.set(answer, 2);
        assert!(ask(&hip).contains(Capabilities::QUIRKS_IN_DOUBT), "{answer}");
        assert!(ask(&hip).contains(Capabilities::KEEPS_UNTIL_UNRESERVED), "{answer}");
        assert_eq!(fake.last_error(), 0, "{answer}");
        fake.expect_nothing_left();
        fake.set(answer, 0);
    }
    assert_eq!(ask(&hip), NONE, "asked again when there is memory");
}

#[test]
fn an_unmap_over_two_mappings_that_is_refused_or_half_done_is_told() {
    for (how, left) in [(1, 0), (2, 1)] {
        let fake = Fake::build(&[]);
        fake.set("joined", how);
        let hip = fake.open();
        assert_eq!(ask(&hip), NONE | Capabilities::NO_JOINED_UNMAP);
        assert_eq!(fake.get("reserves") - fake.get("frees"), left, "a range that stays busy");
        assert_eq!(fake.get("handle_bytes_mib"), 0);
        assert_eq!(fake.last_error(), 0);
    }
}

#[test]
fn asking_takes_its_time_but_not_more_than_it_may() {
    let fake = Fake::build(&[]);
    fake.set("slow_us", 30_000);
    let hip = fake.open();
    let began = Instant::now();
    let found = ask(&hip);
    assert!(found.contains(Capabilities::QUIRKS_IN_DOUBT), "{found}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    fake.expect_nothing_left();
}

#[test]
fn the_environment_answers_in_the_devices_place_one_by_one() {
    for (quirks, mode) in [
        ("keeps_until_unreserved=no", "gives back"),
        ("keeps_until_unreserved=yes,joined_unmap=yes", "all set"),
        ("joined_unmap=no,host_access=yes", "the rest is asked"),
    ] {
        let variables = [("DORMANT_HIP_QUIRKS", quirks), ("DORMANT_TEST_MODE", mode)];
        let (well, text) = child("quirks::child_is_told_its_quirks", &variables);
        assert!(well, "{quirks}: {text}");
    }
}

#[test]
#[ignore = "run by the_environment_answers_in_the_devices_place_one_by_one in processes of its own"]
fn child_is_told_its_quirks() {
    let fake = Fake::build(&[]);
    fake.set("keeps", 1);
    let hip = fake.open();
    let found = ask(&hip);
    match std::env::var("DORMANT_TEST_MODE").as_deref() {
        Ok("gives back") => assert_eq!((found, fake.get("readings")), (NONE, 0)),
        Ok("all set") => {
            assert_eq!(found, NONE | Capabilities::KEEPS_UNTIL_UNRESERVED);
            assert_eq!((fake.get("readings"), fake.get("reserves")), (0, 0));
        }
        Ok("the rest is asked") => {
            let set = Capabilities::NO_JOINED_UNMAP | Capabilities::HOST_ACCESS_NEEDED;
            assert_eq!(found, NONE | Capabilities::KEEPS_UNTIL_UNRESERVED | set);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_quirk_that_is_not_understood_is_an_error_when_the_driver_is_opened() {
    let (well, text) =
        child("quirks::child_refuses_to_open", &[("DORMANT_HIP_QUIRKS", "joined_unmap=maybe")]);
    assert!(well, "{text}");
}

#[test]
#[ignore = "run by a_quirk_that_is_not_understood_is_an_error_when_the_driver_is_opened"]
fn child_refuses_to_open() {
    let fake = Fake::build(&[]);
    let error = fake.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("joined_unmap=maybe"), "{error}");
}
