//! The two loops of a lane: from the device, and to it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use allocator_core::{Driver, Error, Mapped, Result};
use smallvec::SmallVec;

use super::{Lane, STAGING_BYTES};
use crate::job::{Batch, RestoreJob, SaveJob, Source, Target};

/// Jobs of one half that are under way, and where in its buffer each has its bytes.
type UnderWay<'a, B> = SmallVec<[(SaveJob<'a, B>, usize); 1]>;

impl<D: Driver> Lane<D> {
    /// Copies what `next` names until it names nothing more; returns the bytes copied. Every copy
    /// has ended when this returns, also with an error.
    ///
    /// # Errors
    /// `InvalidArgument` for a job outside its block, longer than may be, or of another device, and
    /// for a batch that does not fit the staging buffer; `Io` for a file; else the driver's first error.
    pub fn save<'a, B>(&mut self, next: impl FnMut() -> Batch<SaveJob<'a, B>>) -> Result<u64>
    where
        B: Mapped<Driver = D> + 'a,
    {
        self.then_drain(|lane| lane.save_all(next))
    }

    /// Copies what `next` names to the device until it names nothing more; returns the bytes
    /// copied. Every copy has ended when this returns, also with an error.
    ///
    /// # Errors
    /// As for [`save`](Self::save), and `ChecksumMismatch` for contents that are not what they were.
    pub fn restore<'a, B>(&mut self, next: impl FnMut() -> Batch<RestoreJob<'a, B>>) -> Result<u64>
    where
        B: Mapped<Driver = D> + 'a,
    {
        self.then_drain(|lane| lane.restore_all(next))
    }

    /// Runs copies and waits for all of them, also when `next`, which is the caller's, panics.
    fn then_drain(&mut self, copies: impl FnOnce(&mut Self) -> Result<u64>) -> Result<u64> {
        let result = catch_unwind(AssertUnwindSafe(|| copies(self)));
        let drained = self.drain();
        match result {
            Ok(result) => result.and_then(|copied| drained.map(|()| copied)),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn save_all<'a, B>(&mut self, mut next: impl FnMut() -> Batch<SaveJob<'a, B>>) -> Result<u64>
    where
        B: Mapped<Driver = D> + 'a,
    {
        self.drain()?;
        let mut copied = 0;
        let mut under_way: [UnderWay<'a, B>; 2] = [SmallVec::new(), SmallVec::new()];
        let mut dry = false;
        loop {
            for (index, jobs) in under_way.iter_mut().enumerate() {
                if !jobs.is_empty() {
                    self.wait(index)?;
                    for (job, at) in jobs.drain(..) {
                        copied += job.bytes() as u64;
                        self.finish(index, job, at)?;
                    }
                }
                if dry {
                    continue;
                }
                let batch = next();
                dry = batch.is_empty();
                let mut at = 0;
                for job in batch {
                    let staged = job.staged_bytes();
                    self.begin(index, &job, at)?;
                    jobs.push((job, at));
                    at += staged;
                }
            }
            if dry && under_way.iter().all(SmallVec::is_empty) {
                return Ok(copied);
            }
        }
    }

    /// Queues one copy from the device; `at`: its place in the half's buffer.
    fn begin<B: Mapped<Driver = D>>(
        &mut self,
        index: usize,
        job: &SaveJob<'_, B>,
        at: usize,
    ) -> Result<()> {
        let bytes = job.bytes() as u64;
        self.check(job.block, job.offset, bytes, job.into.most_bytes() as u64)?;
        check_room(at, job.staged_bytes())?;
        let from = job.block.address().offset(job.offset);
        let half = &mut self.halves[index];
        let to = match &job.into {
            Target::Direct(memory) => memory.start(),
            // SAFETY: the place and what is staged there lie within the buffer (`check_room`).
            Target::Memory(_) | Target::Disk(_) => unsafe { half.buffer.add(at) },
        };
        half.in_flight = true;
        // SAFETY: the source lies within the block (`check`), which stays mapped as it is borrowed
        // for longer than the copy, which ends before `save` returns or unwinds. The target is a part
        // of the buffer that no other job of this batch has, of one registered piece, owned by the
        // lane and idle; or memory that the job borrows exclusively for as long.
        unsafe { self.driver.read(&half.stream, from, to, bytes) }
    }

    /// Moves the bytes of a copy that has ended on to where they are wanted.
    fn finish<B: Mapped<Driver = D>>(
        &self,
        index: usize,
        job: SaveJob<'_, B>,
        at: usize,
    ) -> Result<()> {
        // SAFETY: within the buffer, as `begin` has checked.
        let start = unsafe { self.halves[index].buffer.add(at) };
        // SAFETY: the copy that filled these bytes has ended (`wait`), and none is queued on them
        // before the next `begin`; what pads them to whole sectors was zero or an earlier job's.
        let filled = unsafe { std::slice::from_raw_parts(start.as_ptr(), job.into.staged_bytes()) };
        job.into.take(filled, job.sum).map_err(|error| of_block(error, job.block))
    }

    fn restore_all<'a, B>(
        &mut self,
        mut next: impl FnMut() -> Batch<RestoreJob<'a, B>>,
    ) -> Result<u64>
    where
        B: Mapped<Driver = D> + 'a,
    {
        self.drain()?;
        let mut copied = 0;
        let mut index = 0;
        loop {
            let batch = next();
            if batch.is_empty() {
                return Ok(copied);
            }
            self.wait(index)?;
            let mut at = 0;
            for job in batch {
                self.send(index, &job, at)?;
                at += job.staged_bytes();
                copied += job.bytes();
            }
            index ^= 1;
        }
    }

    /// Queues one copy to the device; `at`: its place in the half's buffer.
    fn send<B: Mapped<Driver = D>>(
        &mut self,
        index: usize,
        job: &RestoreJob<'_, B>,
        at: usize,
    ) -> Result<()> {
        let bytes = job.bytes();
        self.check(job.block, job.offset, bytes, job.from.most_bytes())?;
        check_room(at, job.staged_bytes())?;
        let to = job.block.address().offset(job.offset);
        let half = &mut self.halves[index];
        // SAFETY: the place and what is staged there lie within the buffer (`check_room`).
        let staged = unsafe { half.buffer.add(at) };
        // SAFETY: no copy is using these bytes: the half's last batch has ended (`wait`), and no other
        // job of this one has them.
        let buffer =
            unsafe { std::slice::from_raw_parts_mut(staged.as_ptr(), job.from.staged_bytes()) };
        let put = job.from.put(buffer, job.sum, job.offset);
        put.map_err(|error| of_block(error, job.block))?;
        half.in_flight = true;
        let from = match job.from {
            Source::Memory(_) | Source::Disk(_) => staged,
            Source::Direct(memory) => std::ptr::NonNull::from(memory).cast(),
            Source::Zeroes(bytes) => {
                // SAFETY: the bytes lie within the block (`check`), which is borrowed until the
                // fill has ended: before `restore` returns or unwinds.
                return unsafe { self.driver.fill(&half.stream, to, 0, bytes) };
            }
        };
        // SAFETY: the target lies within the block (`check`), which stays mapped as it is borrowed
        // for longer than the copy, which ends before `restore` returns or unwinds. The source is a
        // part of one registered piece, left alone until the next `wait`; or memory that the job
        // borrows for as long.
        unsafe { self.driver.write(&half.stream, to, from, bytes) }
    }
}

fn check_room(at: usize, bytes: usize) -> Result<()> {
    if at.checked_add(bytes).is_some_and(|end| end <= STAGING_BYTES) {
        return Ok(());
    }
    Err(super::invalid("copies that do not fit the staging buffer together")
        .with_bytes(bytes as u64))
}

/// Says whose contents a file or a checksum failed.
fn of_block<B: Mapped>(error: Error, block: &B) -> Error {
    error.with_address(block.address()).with_device(block.device())
}
