//! Every interleaving of a free with a transition: `RUSTFLAGS="--cfg loom" cargo test -p
//! dormant-engine --lib --release loom`.

use loom::sync::Arc as LoomArc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::*;
use crate::sync::{Mutex, lock};

type Tokens = Registry<u32, u32, u32>;

const PLACE: Address = Address(0x1000);

fn shared() -> LoomArc<Mutex<Tokens>> {
    let mut registry = Tokens::default();
    let facts = Facts {
        id: 0,
        tag: "a".into(),
        policy: Policy::Discard,
        device: Device(0),
        bytes: 1,
        physical_bytes: 1,
        peers: Vec::new(),
        directory: None,
        host_mode: None,
        checksum: None,
        home: Arc::new(Home::default()),
    };
    registry.insert(PLACE, Arc::new(facts), 1);
    LoomArc::new(Mutex::new(registry))
}

/// Takes the block, does something without the lock, brings it back; frees it if it was doomed.
fn transition(registry: &Mutex<Tokens>, freed: &AtomicU32) {
    let taken = lock(registry).take_active(&Selection::All).taken;
    thread::yield_now();
    for taken in taken {
        let back =
            lock(registry).put_back(taken.address, &taken.facts, Resting::Paused(taken.block));
        if back.is_some() {
            freed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn free(registry: &Mutex<Tokens>, freed: &AtomicU32, accepted: &AtomicU32) {
    match lock(registry).free(PLACE, None) {
        Freed::Gone(..) => {
            freed.fetch_add(1, Ordering::Relaxed);
            accepted.fetch_add(1, Ordering::Relaxed);
        }
        Freed::Doomed => {
            accepted.fetch_add(1, Ordering::Relaxed);
        }
        Freed::NotFound => {}
    }
}

#[test]
fn loom_two_frees_and_a_transition_free_the_block_exactly_once() {
    loom::model(|| {
        let registry = shared();
        let freed = LoomArc::new(AtomicU32::new(0));
        let accepted = LoomArc::new(AtomicU32::new(0));
        let frees: Vec<_> = (0..2)
            .map(|_| {
                let (registry, freed, accepted) =
                    (registry.clone(), freed.clone(), accepted.clone());
                thread::spawn(move || free(&registry, &freed, &accepted))
            })
            .collect();
        transition(&registry, &freed);
        for thread in frees {
            let _ = thread.join();
        }
        assert_eq!(freed.load(Ordering::Relaxed), 1, "freed exactly once");
        assert_eq!(accepted.load(Ordering::Relaxed), 1, "one free was told that it worked");
        assert!(lock(&registry).find(PLACE).is_none());
    });
}

#[test]
fn loom_two_transitions_and_a_free_lose_no_block() {
    loom::model(|| {
        let registry = shared();
        let freed = LoomArc::new(AtomicU32::new(0));
        let accepted = LoomArc::new(AtomicU32::new(0));
        let second = {
            let (registry, freed) = (registry.clone(), freed.clone());
            thread::spawn(move || transition(&registry, &freed))
        };
        let third = {
            let (registry, freed, accepted) = (registry.clone(), freed.clone(), accepted.clone());
            thread::spawn(move || free(&registry, &freed, &accepted))
        };
        transition(&registry, &freed);
        let _ = second.join();
        let _ = third.join();
        assert_eq!(freed.load(Ordering::Relaxed), 1);
    });
}
