//! Work on several devices at once.

use std::sync::Arc;

use crate::sync::{Mutex, lock};

/// Runs `work` on each group, groups at the same time where there are several: one a device.
pub(crate) fn each_device<G: Send, T: Send>(
    groups: &mut [G],
    work: impl Fn(&mut G) -> T + Sync,
) -> Vec<T> {
    let Some((first, others)) = groups.split_first_mut() else { return Vec::new() };
    std::thread::scope(|scope| {
        let mut here = Vec::new();
        let mut running = Vec::new();
        for group in others {
            let work = &work;
            // A shared cell lets the group come back if no thread can be had.
            let cell = Arc::new(Mutex::new(Some(group)));
            let theirs = Arc::clone(&cell);
            let spawned = std::thread::Builder::new()
                .name("dormant-device".to_owned())
                .spawn_scoped(scope, move || lock(&theirs).take().map(work));
            match spawned {
                Ok(thread) => running.push(thread),
                Err(_) => here.push(cell),
            }
        }
        let mut results = vec![work(first)];
        for cell in here {
            results.extend(lock(&cell).take().map(&work));
        }
        for thread in running {
            match thread.join() {
                Ok(result) => results.extend(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}
