//! Pause, resume and free.

use std::time::Duration;

use allocator_core::{Driver, ErrorKind};
use dormant_engine::{
    Address, Allocation, BlockState, PauseOptions, Policy, ResumeOptions, Selection, region,
};

use crate::{Bench, expect_bytes, pattern};

fn pause<D: Driver>(bench: &Bench<D>, selection: impl Into<Selection>) -> dormant_engine::Report {
    bench.engine.pause(selection, &PauseOptions::default()).expect("pause")
}

fn resume<D: Driver>(bench: &Bench<D>, selection: impl Into<Selection>) -> dormant_engine::Report {
    bench.engine.resume(selection, &ResumeOptions::default()).expect("resume")
}

fn state<D: Driver>(bench: &Bench<D>, address: Address) -> BlockState {
    bench.engine.find(address).expect("a block of ours").state
}

/// The promise in one case.
pub fn a_pause_gives_the_memory_back_and_a_resume_takes_it_again<D: Driver>(bench: &Bench<D>) {
    let start = bench.free_bytes();
    let bytes = bench.granularity.round_up(bench.unit_bytes).expect("a size");
    let blocks: Vec<_> =
        (1..=3).map(|seed| bench.filled("w", Policy::Host, bench.unit_bytes, seed)).collect();
    bench.expect_free(start - 3 * bytes, "allocated");
    let report = pause(bench, "w");
    bench.expect_free(start, "paused");
    assert_eq!(report.moved().bytes, 3 * bytes);
    assert!(!report.devices[0].freed_nothing(), "{report:?}");
    // Somebody else can have it meanwhile.
    let other = bench.filled("other", Policy::Discard, bench.unit_bytes, 9);
    bench.engine.free(other).expect("free");
    resume(bench, "w");
    bench.expect_free(start - 3 * bytes, "resumed");
    for (address, seed) in blocks.into_iter().zip(1..) {
        bench.expect_pattern(address, bench.unit_bytes, seed);
        bench.engine.free(address).expect("free");
    }
    bench.expect_free(start, "freed");
}

/// The case this project grew from: freeing a paused block must not release its handle again.
pub fn a_block_freed_while_paused_gives_its_bytes_back_once<D: Driver>(bench: &Bench<D>) {
    let start = bench.free_bytes();
    let bytes = bench.granularity.round_up(bench.unit_bytes).expect("a size");
    let a = bench.filled("default", Policy::Host, bench.unit_bytes, 1);
    let b = bench.filled("default", Policy::Host, bench.unit_bytes, 2);
    pause(bench, Selection::All);
    bench.engine.free(a).expect("free while paused");
    bench.expect_free(start, "paused, one freed");
    let report = resume(bench, Selection::All);
    assert_eq!(report.moved().blocks, 1);
    bench.expect_free(start - bytes, "the freed block's bytes stay away");
    bench.expect_pattern(b, bench.unit_bytes, 2);
    bench.write(b, bench.unit_bytes, 3);
    bench.expect_pattern(b, bench.unit_bytes, 3);
    bench.engine.free(b).expect("free");
    bench.expect_free(start, "all freed");
    // What is freed in the background is, before a pause begins.
    pause(bench, Selection::All);
    assert_eq!(bench.engine.stats().host_backup_bytes, 0, "backups of freed blocks");
}

/// Idempotent in both directions.
pub fn pausing_the_paused_and_resuming_the_active_is_counted<D: Driver>(bench: &Bench<D>) {
    let a = bench.filled("a", Policy::Host, bench.unit_bytes, 1);
    let b = bench.filled("b", Policy::Host, bench.unit_bytes, 2);
    pause(bench, "a");
    let again = pause(bench, "a");
    assert_eq!((again.moved().blocks, again.already().blocks), (0, 1));
    let all = pause(bench, Selection::All);
    assert_eq!((all.moved().blocks, all.already().blocks), (1, 1));
    resume(bench, "a");
    let again = resume(bench, "a");
    assert_eq!((again.moved().blocks, again.already().blocks), (0, 1));
    resume(bench, Selection::All);
    bench.expect_pattern(a, bench.unit_bytes, 1);
    bench.expect_pattern(b, bench.unit_bytes, 2);
    bench.engine.free(a).expect("free");
    bench.engine.free(b).expect("free");
}

/// A serving engine pauses tags that have no blocks yet.
pub fn an_unknown_tag_is_no_error<D: Driver>(bench: &Bench<D>) {
    let nothing = pause(bench, "nobody");
    assert!(nothing.tags.is_empty() && nothing.devices.is_empty());
    assert!(resume(bench, Selection::tags(["nobody", "none"])).tags.is_empty());
    assert!(pause(bench, Selection::Tags(Vec::new())).tags.is_empty());
}

/// Others do not notice.
pub fn only_the_selected_tags_are_paused<D: Driver>(bench: &Bench<D>) {
    let addresses: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .zip(1..)
        .map(|(tag, seed)| bench.filled(tag, Policy::Host, bench.unit_bytes, seed))
        .collect();
    pause(bench, Selection::tags(["a", "c", "a"]));
    let states: Vec<_> = addresses.iter().map(|address| state(bench, *address)).collect();
    assert_eq!(states, [BlockState::Paused, BlockState::Active, BlockState::Paused]);
    bench.expect_pattern(addresses[1], bench.unit_bytes, 2);
    resume(bench, Selection::All);
    for (address, seed) in addresses.into_iter().zip(1..) {
        bench.expect_pattern(address, bench.unit_bytes, seed);
        bench.engine.free(address).expect("free");
    }
}

/// No memory is born asleep.
pub fn a_block_allocated_under_a_paused_tag_is_active<D: Driver>(bench: &Bench<D>) {
    let early = bench.filled("w", Policy::Host, bench.unit_bytes, 1);
    pause(bench, "w");
    let late = bench.filled("w", Policy::Host, bench.unit_bytes, 2);
    assert_eq!(state(bench, early), BlockState::Paused);
    assert_eq!(state(bench, late), BlockState::Active);
    bench.expect_pattern(late, bench.unit_bytes, 2);
    let report = resume(bench, "w");
    assert_eq!((report.moved().blocks, report.already().blocks), (1, 1));
    bench.expect_pattern(early, bench.unit_bytes, 1);
    bench.engine.free(early).expect("free");
    bench.engine.free(late).expect("free");
}

/// How a trainer with three tags does it around a weight sync.
pub fn resuming_everything_with_one_tag_active_works<D: Driver>(bench: &Bench<D>) {
    let kept = bench.filled("default", Policy::Host, bench.unit_bytes, 1);
    let params = bench.filled("param_buffer", Policy::Discard, bench.unit_bytes, 2);
    let grads = bench.filled("grad_buffer", Policy::Discard, bench.unit_bytes, 3);
    for with_params in [true, false] {
        pause(bench, "grad_buffer");
        pause(bench, "default");
        bench.expect_pattern(params, bench.unit_bytes, 2);
        if with_params {
            pause(bench, "param_buffer");
        }
        resume(bench, Selection::All);
        bench.expect_pattern(kept, bench.unit_bytes, 1);
        bench.write(params, bench.unit_bytes, 2);
        bench.write(grads, bench.unit_bytes, 3);
    }
    for address in [kept, params, grads] {
        bench.engine.free(address).expect("free");
    }
}

/// Serving engines resume in another order than they pause.
pub fn tags_are_resumed_in_any_order<D: Driver>(bench: &Bench<D>) {
    let tags = ["kv_cache", "weights", "cuda_graph"];
    let addresses: Vec<_> = tags
        .into_iter()
        .zip(1..)
        .map(|(tag, seed)| bench.filled(tag, Policy::Host, bench.unit_bytes, seed))
        .collect();
    for order in [["cuda_graph", "weights", "kv_cache"], ["weights", "kv_cache", "cuda_graph"]] {
        tags.into_iter().for_each(|tag| drop(pause(bench, tag)));
        order.into_iter().for_each(|tag| drop(resume(bench, tag)));
        for (address, seed) in addresses.iter().zip(1..) {
            bench.expect_pattern(*address, bench.unit_bytes, seed);
        }
    }
    addresses.into_iter().for_each(|address| bench.engine.free(address).expect("free"));
}

/// An error value, never a crash.
pub fn a_second_free_and_a_foreign_address_are_not_found<D: Driver>(bench: &Bench<D>) {
    let address = bench.filled("w", Policy::Host, bench.unit_bytes, 1);
    for wrong in [Address(0), Address(u64::MAX), address.offset(1)] {
        let error = bench.engine.free(wrong).expect_err("no block starts there");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    assert!(bench.engine.owns(address));
    bench.engine.free(address).expect("free");
    assert!(!bench.engine.owns(address));
    let error = bench.engine.free(address).expect_err("freed already");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

/// The engine's own copies know what a kernel cannot.
pub fn reading_a_paused_block_is_refused<D: Driver>(bench: &Bench<D>) {
    let address = bench.filled("w", Policy::Host, bench.unit_bytes, 1);
    pause(bench, "w");
    let error = bench.engine.read(address, &mut [0; 16]).expect_err("it sleeps");
    assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
    let error = bench.engine.write(address, &[0; 16]).expect_err("it sleeps");
    assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
    bench.engine.free(address).expect("free");
}

/// Past an unwinding panic too.
pub fn a_region_gives_tag_and_policy_and_the_outer_one_comes_back<D: Driver>(bench: &Bench<D>) {
    let here = Allocation::new(bench.unit_bytes, bench.device);
    let _a = region::enter(region::Settings::new("a", Policy::Zero));
    let inner = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _b = region::enter(region::Settings::new("b", Policy::Host));
        let address = bench.engine.allocate(&here).expect("allocation");
        std::panic::resume_unwind(Box::new(address));
    }))
    .expect_err("it unwinds");
    let inner = *inner.downcast::<Address>().expect("an address");
    let outer = bench.engine.allocate(&here).expect("allocation");
    let refused = {
        let _off = region::disable();
        bench.engine.allocate(&here).expect_err("disabled")
    };
    assert_eq!(refused.kind(), ErrorKind::WrongState, "{refused}");
    for (address, tag, policy) in [(inner, "b", Policy::Host), (outer, "a", Policy::Zero)] {
        let info = bench.engine.find(address).expect("a block");
        assert_eq!((info.tag.as_str(), info.policy), (tag, policy));
        bench.engine.free(address).expect("free");
    }
}

/// A tag belongs to the bytes.
pub fn memory_of_one_tag_is_not_handed_out_under_another<D: Driver>(bench: &Bench<D>) {
    let a = bench.filled("a", Policy::Host, bench.unit_bytes, 1);
    pause(bench, "a");
    let others: Vec<_> =
        (0..4).map(|_| bench.filled("b", Policy::Host, bench.unit_bytes, 2)).collect();
    assert!(!others.contains(&a), "a paused block's address was handed out");
    bench.engine.free(a).expect("free");
    let new = bench.filled("b", Policy::Host, bench.unit_bytes, 3);
    resume(bench, "a");
    assert_eq!(bench.engine.find(new).expect("a block").tag.as_str(), "b");
    assert_eq!(pause(bench, "a").moved().blocks, 0);
    bench.expect_pattern(new, bench.unit_bytes, 3);
    for address in others.into_iter().chain([new]) {
        bench.engine.free(address).expect("free");
    }
}

/// Queues so many fills that they are still running when this returns; the last sets `byte`.
fn keep_busy<D: Driver>(bench: &Bench<D>, address: Address, byte: u8) -> D::Stream {
    let driver = bench.driver();
    let stream = driver.open_stream(bench.device).expect("stream");
    for round in 0..200_u8 {
        let byte = if round == 199 { byte } else { round };
        // SAFETY: the block is mapped; the engine waits for this work before it unmaps it, which
        // is what the cases ask about.
        unsafe { driver.fill(&stream, address, byte, bench.unit_bytes) }.expect("fill");
    }
    stream
}

/// On a stream that the null stream does not wait for.
pub fn work_in_flight_is_finished_before_it_is_saved<D: Driver>(bench: &Bench<D>) {
    let address = bench.filled("w", Policy::Host, bench.unit_bytes, 1);
    let stream = keep_busy(bench, address, 0xEE);
    pause(bench, "w");
    bench.driver().wait(&stream).expect("the work was not disturbed");
    bench.driver().close_stream(stream).expect("close");
    resume(bench, "w");
    assert!(bench.read(address, bench.unit_bytes).iter().all(|byte| *byte == 0xEE));
    bench.engine.free(address).expect("free");
}

/// Unmapping does not wait by itself.
pub fn a_free_waits_for_work_in_flight<D: Driver>(bench: &Bench<D>) {
    let address = bench.filled("w", Policy::Host, bench.unit_bytes, 1);
    let stream = keep_busy(bench, address, 1);
    bench.engine.free(address).expect("free");
    bench.driver().wait(&stream).expect("the work was not disturbed");
    bench.driver().close_stream(stream).expect("close");
    bench.driver().quiesce(bench.device, allocator_core::Deadline::NEVER).expect("no error");
}

/// Where there are two.
pub fn two_devices_keep_their_own_bytes<D: Driver>(bench: &Bench<D>) {
    let blocks: Vec<_> = bench
        .devices
        .iter()
        .take(2)
        .zip(1..)
        .map(|(device, seed)| {
            let allocation =
                Allocation::new(bench.unit_bytes, *device).tag("w").policy(Policy::Host);
            let address = bench.engine.allocate(&allocation).expect("allocation");
            bench.write(address, bench.unit_bytes, seed);
            (address, seed)
        })
        .collect();
    let report = pause(bench, "w");
    assert_eq!(report.devices.len(), blocks.len());
    for device in &report.devices {
        assert_eq!(device.moved_bytes, report.moved().bytes / blocks.len() as u64);
        assert!(!device.freed_nothing(), "{device:?}");
    }
    resume(bench, "w");
    for (address, seed) in blocks {
        bench.expect_pattern(address, bench.unit_bytes, seed);
        bench.engine.free(address).expect("free");
    }
}

/// Our own counts are authoritative.
pub fn a_report_counts_blocks_bytes_and_tags<D: Driver>(bench: &Bench<D>) {
    let odd = bench.unit_bytes - 5;
    let a = bench.filled("a", Policy::Host, odd, 1);
    let b = bench.filled("b", Policy::Zero, bench.unit_bytes, 2);
    let physical = bench.granularity.round_up(odd).expect("a size");
    let report = pause(bench, Selection::All);
    let tags: Vec<_> = report.tags.iter().map(|tag| tag.tag.as_str()).collect();
    assert_eq!(tags, ["a", "b"]);
    assert_eq!((report.tags[0].moved.bytes, report.tags[0].copied.bytes), (physical, odd));
    assert_eq!((report.tags[1].moved.blocks, report.tags[1].copied.blocks), (1, 0));
    assert!(report.workers >= 1 && report.phases.total >= report.phases.copy);
    let stats = bench.engine.stats();
    assert_eq!((stats.tags[0].paused.bytes, stats.tags[0].saved.bytes), (physical, odd));
    assert_eq!(stats.host_backup_bytes, odd.next_multiple_of(4096), "whole pages");
    let backup = bench.engine.backup(a).expect("backup");
    expect_bytes(&backup, &pattern(odd, 1));
    drop(backup);
    let report = resume(bench, Selection::All);
    assert_eq!((report.copied().bytes, report.zeroed().bytes), (odd, bench.unit_bytes));
    bench.engine.free(a).expect("free");
    bench.engine.free(b).expect("free");
    // The backup's pages go back in the background.
    for _ in 0..500 {
        if bench.engine.stats().host_backup_bytes == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("host memory is still charged: {:?}", bench.engine.stats());
}

/// No tags is not all tags.
pub fn a_resume_of_no_tags_wakes_nobody<D: Driver>(bench: &Bench<D>) {
    let address = bench.filled("w", Policy::Host, bench.unit_bytes, 1);
    pause(bench, "w");
    let report = resume(bench, Selection::Tags(Vec::new()));
    assert_eq!((report.moved().blocks, report.already().blocks), (0, 0));
    assert_eq!(state(bench, address), BlockState::Paused);
    resume(bench, "w");
    bench.expect_pattern(address, bench.unit_bytes, 1);
    bench.engine.free(address).expect("free");
}

/// Any byte of a block finds it, awake or asleep; the one behind it does not.
pub fn find_and_blocks_agree_at_addresses_inside_too<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes - 5;
    let a = bench.allocate("a", Policy::Discard, bytes);
    let b = bench.allocate("b", Policy::Zero, bytes);
    pause(bench, "b");
    let blocks = bench.engine.blocks();
    assert_eq!(blocks.len(), 2);
    assert!(blocks[0].address < blocks[1].address && blocks[0].id != blocks[1].id);
    for block in &blocks {
        let wanted = if block.address == a { BlockState::Active } else { BlockState::Paused };
        assert_eq!((block.bytes, block.state), (bytes, wanted));
        assert!(bench.engine.owns(block.address) && !bench.engine.owns(block.address.offset(1)));
        for inside in [0, 1, bytes / 2, bytes - 1] {
            let found = bench.engine.find(block.address.offset(inside));
            assert_eq!(found.as_ref(), Some(block), "{inside} bytes inside");
        }
        let behind = bench.engine.find(block.address.offset(block.physical_bytes));
        assert_ne!(behind.map(|found| found.id), Some(block.id));
    }
    for address in [a, b] {
        bench.engine.free(address).expect("free");
        assert_eq!(bench.engine.find(address), None);
    }
}

/// Every block is in one column of one line.
pub fn stats_add_up_to_the_blocks_there_are<D: Driver>(bench: &Bench<D>) {
    let bytes = bench.unit_bytes;
    let physical = bench.granularity.round_up(bytes).expect("a size");
    let mut addresses: Vec<_> =
        (1..=3).map(|seed| bench.filled("a", Policy::Host, bytes, seed)).collect();
    pause(bench, "a");
    addresses.push(bench.allocate("a", Policy::Discard, bytes));
    addresses.push(bench.allocate("b", Policy::Discard, bytes));
    let stats = bench.engine.stats();
    let lines: Vec<_> = stats
        .tags
        .iter()
        .map(|line| (line.tag.as_str(), line.active.blocks, line.paused.blocks, line.saved.bytes))
        .collect();
    assert_eq!(lines, [("a", 1, 3, 3 * bytes), ("b", 1, 0, 0)]);
    let sum: u64 = stats.tags.iter().map(|line| line.active.bytes + line.paused.bytes).sum();
    assert_eq!(sum, 5 * physical);
    let listed: u64 = bench.engine.blocks().iter().map(|block| block.physical_bytes).sum();
    assert_eq!(listed, sum);
    addresses.into_iter().for_each(|address| bench.engine.free(address).expect("free"));
}

/// A stale owner does not free its successor.
pub fn a_free_with_the_id_of_another_block_frees_nothing<D: Driver>(bench: &Bench<D>) {
    let id = |address| bench.engine.find(address).expect("a block").id;
    let a = bench.filled("w", Policy::Host, bench.unit_bytes, 1);
    let b = bench.filled("w", Policy::Host, bench.unit_bytes, 2);
    let (id_of_a, id_of_b) = (id(a), id(b));
    for asleep in [false, true] {
        if asleep {
            pause(bench, "w");
        }
        let error = bench.engine.free_block(a, id_of_b).expect_err("the id of another");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        bench.engine.free_eventually(a, id_of_b);
        assert!(bench.engine.owns(a));
    }
    resume(bench, "w");
    bench.expect_pattern(a, bench.unit_bytes, 1);
    bench.engine.free_block(a, id_of_a).expect("free");
    bench.engine.free_block(b, id_of_b).expect("free");
    let next = bench.allocate("w", Policy::Discard, bench.unit_bytes);
    assert!(![id_of_a, id_of_b].contains(&id(next)), "an id was given out again");
    bench.engine.free(next).expect("free");
}

/// A deadline that has passed is kept: the device is seen to be idle at once, or is busy.
pub fn a_pause_with_no_time_works_or_changes_nothing<D: Driver>(bench: &Bench<D>) {
    let address = bench.filled("w", Policy::Host, bench.unit_bytes, 1);
    let start = bench.free_bytes();
    match bench.engine.pause("w", &PauseOptions::default().timeout(Duration::ZERO)) {
        Ok(report) => {
            assert_eq!(report.moved().blocks, 1);
            resume(bench, "w");
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            assert_eq!(state(bench, address), BlockState::Active);
        }
    }
    bench.expect_free(start, "awake");
    bench.expect_pattern(address, bench.unit_bytes, 1);
    pause(bench, "w");
    resume(bench, "w");
    bench.expect_pattern(address, bench.unit_bytes, 1);
    bench.engine.free(address).expect("free");
}

/// What a program has stored of a block stays true.
pub fn a_block_keeps_address_id_and_size_over_many_rounds<D: Driver>(bench: &Bench<D>) {
    let address = bench.filled("w", Policy::Host, bench.unit_bytes, 1);
    let before = bench.engine.find(address).expect("a block");
    let free = bench.free_bytes();
    for _ in 0..10 {
        pause(bench, "w");
        let other = bench.filled("other", Policy::Discard, bench.unit_bytes, 2);
        resume(bench, "w");
        assert_eq!(bench.engine.find(address).as_ref(), Some(&before));
        bench.expect_pattern(address, bench.unit_bytes, 1);
        bench.engine.free(other).expect("free");
    }
    bench.expect_free(free, "after the rounds");
    bench.engine.free(address).expect("free");
}
