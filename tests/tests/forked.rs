//! What a forked child drops: its parent's backups are not there, and its own memory is.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use allocator_core::{Address, Device};
use dormant_engine::{Allocation, Config, Engine, PauseOptions, Policy, ResumeOptions};
use dormant_sim::{Sim, SimConfig};

const BYTES: usize = 16 << 20;

fn paused() -> (Engine<Sim>, Address) {
    let config = SimConfig::new().devices(1).capacity_bytes(64 << 20);
    let engine = Engine::new(Arc::new(Sim::new(config).expect("sim")), Config::default());
    let allocation = Allocation::new(BYTES as u64, Device(0)).tag("w").policy(Policy::Host);
    let address = engine.allocate(&allocation).expect("allocation");
    engine.write(address, &vec![7; BYTES]).expect("write");
    engine.pause("w", &PauseOptions::default()).expect("pause");
    (engine, address)
}

/// Runs `child` in a forked child, and answers with its exit code, or none after a signal.
fn forked(child: impl FnOnce() -> i32) -> Option<i32> {
    // SAFETY: the child calls nothing that needs another thread or a lock that one may hold.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = child();
        // SAFETY: ends the child at once, without its parent's exit handlers.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: the child is ours, and `status` is writable.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
}

/// In the child: maps memory of its own where the parent's backup is, drops `theirs`, and looks
/// whether its own is as it was.
fn own_memory_survives<T>(place: usize, theirs: ManuallyDrop<T>) -> i32 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let wanted = std::ptr::without_provenance_mut(place);
    // SAFETY: `MAP_FIXED_NOREPLACE` replaces nothing that exists.
    let own =
        unsafe { libc::mmap(wanted, BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if own.addr() != place {
        return 9;
    }
    // SAFETY: mapped above for so many bytes, and nobody else's.
    unsafe { own.cast::<u8>().write_bytes(0x77, BYTES) };
    drop(ManuallyDrop::into_inner(theirs));
    let mut resident = vec![0_u8; BYTES / 4096];
    // SAFETY: asks about pages only; the vector has a byte for each.
    if unsafe { libc::mincore(own, BYTES, resident.as_mut_ptr()) } != 0 {
        return 2;
    }
    // SAFETY: `mincore` has just said that all of it is mapped.
    let bytes = unsafe { std::slice::from_raw_parts(own.cast::<u8>(), BYTES) };
    if bytes.iter().all(|byte| *byte == 0x77) { 0 } else { 3 }
}

#[test]
fn dropping_an_engine_in_a_forked_child_leaves_the_childs_own_memory_alone() {
    let (engine, address) = paused();
    let place = engine.backup(address).unwrap().as_ptr().addr();
    let engine = ManuallyDrop::new(engine);
    assert_eq!(forked(|| own_memory_survives(place, engine)), Some(0));
}

#[test]
fn dropping_a_backup_in_a_forked_child_leaves_the_childs_own_memory_alone() {
    let (engine, address) = paused();
    let backup = engine.backup(address).unwrap();
    engine.resume("w", &ResumeOptions::default()).unwrap();
    let place = backup.as_ptr().addr();
    let backup = ManuallyDrop::new(backup);
    assert_eq!(forked(|| own_memory_survives(place, backup)), Some(0));
}
