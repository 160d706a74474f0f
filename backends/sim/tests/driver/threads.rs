//! A thread that ends can use the driver to its end: blocks may be kept in its thread-locals.

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::mpsc;

use super::*;

/// Uses the driver when it is dropped, and tells what came of it.
struct AtEnd {
    sim: Arc<Sim>,
    block: Option<ActiveBlock<Sim>>,
    told: mpsc::Sender<Result<Option<Device>>>,
}

impl AtEnd {
    fn use_driver(&mut self) -> Result<Option<Device>> {
        let sim = &self.sim;
        sim.set_current_device(Some(ONE))?;
        let mut host = [1_u8; 8];
        let stream = sim.open_stream(ZERO)?;
        let Some(block) = self.block.take() else { return Ok(None) };
        let at = NonNull::from(&mut host).cast();
        // SAFETY: the block is mapped and `host` lives until the stream was waited for.
        unsafe { sim.write(&stream, block.address(), at, 8) }?;
        sim.wait(&stream)?;
        sim.close_stream(stream)?;
        sim.memory(ZERO)?;
        block.free::<Stash>().map_err(|stuck| stuck.error().clone())?;
        let current = sim.current_device();
        sim.set_current_device(None)?;
        Ok(current)
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        let outcome = self.use_driver();
        // Whoever wants to know waits for it.
        let _ = self.told.send(outcome);
    }
}

thread_local! {
    static KEPT: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

#[test]
fn a_block_kept_in_a_thread_local_is_freed_when_its_thread_ends() {
    let sim = sim();
    let captured = sim.open_user_stream(ONE, false).unwrap();
    sim.begin_capture(captured).unwrap();
    let (told, outcome) = mpsc::channel();
    let keep = || {
        // The slot before the first use of the driver, so that its destructor comes last.
        KEPT.with(|kept| {
            let block = Some(active(&sim, GRANULE));
            *kept.borrow_mut() = Some(AtEnd { sim: Arc::clone(&sim), block, told });
        });
    };
    std::thread::scope(|scope| scope.spawn(keep).join()).unwrap();
    let current = outcome.recv().unwrap().unwrap();
    assert_eq!(current, Some(ONE), "each call left the thread as it was");
    sim.end_capture(captured).expect("no call broke the capture");
    assert_eq!(free(&sim, ZERO), CAPACITY);
    assert_eq!(sim.machine().counts(), Default::default());
}
