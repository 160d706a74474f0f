//! The steps of the demo, in order, and what must hold after each.

use std::time::Instant;

use dormant::{Address, BlockState, MemoryInfo, Report};

use super::checks::Checks;
use super::outcome::{FreedOutcome, Outcome, PauseOutcome, ResumeOutcome};
use super::plan::{Role, Wanted};
use super::screen::{Screen, rate};
use super::stage::Stage;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::size::Bytes;
use crate::time::milliseconds;

/// The roles that see the resume.
const SURVIVORS: [Role; 3] = [Role::Weights, Role::KvCache, Role::Scratch];

/// The demo at work.
#[derive(Debug)]
pub(crate) struct Demo<'a, 'b> {
    pub(crate) stage: Stage,
    pub(crate) screen: &'a mut Screen<'b>,
    pub(crate) outcome: &'a mut Outcome,
    pub(crate) checks: &'a mut Checks,
}

impl Demo<'_, '_> {
    pub(crate) fn perform(mut self, plan: &[Wanted]) -> Result<(), Failure> {
        self.fill(plan)?;
        self.pause()?;
        let doomed = self.free_doomed()?;
        self.resume(&doomed)?;
        self.verify()?;
        self.free_all()
    }

    fn fill(&mut self, plan: &[Wanted]) -> Result<(), Failure> {
        let begun = Instant::now();
        self.stage.allocate(plan)?;
        let bytes = self.stage.bytes_of(&Role::ALL);
        self.stage.fill(&Role::ALL, 0, &Progress::bar("Filling", bytes))?;
        let took = begun.elapsed();
        let memory = self.stage.memory()?;
        self.outcome.free_bytes.active = Some(memory.free_bytes);
        self.screen.step(format_args!(
            "Allocated {} in {} blocks, each filled with a pattern of its own, in {took:.1?}.",
            Bytes(self.stage.physical_bytes_of(&Role::ALL)),
            plan.len()
        ));
        self.table(memory);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        let report = {
            let _progress = Progress::spinner("Pausing");
            self.stage.pause()?
        };
        let took = begun.elapsed();
        let (freed, saved) = (report.moved().bytes, report.copied().bytes);
        let memory = self.stage.memory()?;
        self.outcome.free_bytes.paused = Some(memory.free_bytes);
        self.outcome.pause =
            Some(PauseOutcome { freed_bytes: freed, saved_bytes: saved, ms: milliseconds(took) });
        let expected = self.stage.physical_bytes_of(&Role::ALL);
        self.checks.count("given back by the pause", freed, expected);
        let expected = self.stage.bytes_of(&[Role::Weights, Role::Doomed]);
        self.checks.count("saved by the pause", saved, expected);
        if let Some(before) = self.outcome.free_bytes.active {
            self.checks.rose("pause", before, memory.free_bytes, freed);
        }
        self.check_strays("after the pause", BlockState::Paused);
        self.screen.step(format_args!(
            "Paused in {took:.1?}: {} given back to the device, {} saved on the host{}.",
            Bytes(freed),
            Bytes(saved),
            copying(&report, saved),
        ));
        self.table(memory);
        Ok(())
    }

    /// The addresses that there must be nothing at any more.
    fn free_doomed(&mut self) -> Result<Vec<Address>, Failure> {
        let doomed: Vec<_> = self
            .stage
            .blocks
            .iter()
            .filter(|block| block.wanted.role == Role::Doomed)
            .map(|block| block.buffer.address())
            .collect();
        let bytes = self.stage.physical_bytes_of(&[Role::Doomed]);
        let took = self.stage.free(&[Role::Doomed])?;
        self.outcome.freed_while_paused = Some(FreedOutcome { bytes });
        self.screen.step(format_args!(
            "Freed `doomed` while it slept, in {took:.1?}: its {} will not come back.",
            Bytes(bytes)
        ));
        let memory = self.stage.memory()?;
        self.table(memory);
        Ok(doomed)
    }

    fn resume(&mut self, doomed: &[Address]) -> Result<(), Failure> {
        let begun = Instant::now();
        let report = {
            let _progress = Progress::spinner("Resuming");
            self.stage.resume()?
        };
        let took = begun.elapsed();
        let (mapped, restored) = (report.moved().bytes, report.copied().bytes);
        let memory = self.stage.memory()?;
        self.outcome.free_bytes.resumed = Some(memory.free_bytes);
        self.outcome.resume = Some(ResumeOutcome {
            mapped_bytes: mapped,
            restored_bytes: restored,
            ms: milliseconds(took),
        });
        let expected = self.stage.physical_bytes_of(&SURVIVORS);
        self.checks.count("mapped by the resume", mapped, expected);
        let expected = self.stage.bytes_of(&[Role::Weights]);
        self.checks.count("copied back by the resume", restored, expected);
        let expected = self.stage.bytes_of(&[Role::Scratch]);
        self.checks.count("set to zero by the resume", report.zeroed().bytes, expected);
        if self.stage.owns_any(doomed) {
            self.checks.problem("a block that was freed while paused came back");
        }
        if let (Some(active), Some(freed)) =
            (self.outcome.free_bytes.active, &self.outcome.freed_while_paused)
        {
            self.checks.rose("freed while paused", active, memory.free_bytes, freed.bytes);
        }
        self.check_strays("after the resume", BlockState::Active);
        self.screen.step(format_args!(
            "Resumed in {took:.1?}: {} mapped at the same addresses, {} copied back{}.",
            Bytes(mapped),
            Bytes(restored),
            copying(&report, restored),
        ));
        self.table(memory);
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        // The cache is written anew before it is read.
        let bytes = self.stage.bytes_of(&SURVIVORS) + self.stage.bytes_of(&[Role::KvCache]);
        let progress = Progress::bar("Verifying", bytes);
        self.stage.fill(&[Role::KvCache], 1, &progress)?;
        for (role, round) in
            [(Role::Weights, Some(0)), (Role::Scratch, None), (Role::KvCache, Some(1))]
        {
            for (index, difference) in self.stage.verify(role, round, &progress)? {
                let tag = role.tag();
                self.checks.problem(format!("block {index} of `{tag}`: {difference}"));
            }
            self.outcome.verified_bytes += self.stage.bytes_of(&[role]);
        }
        drop(progress);
        self.screen.step(format_args!(
            "Verified {} in {:.1?}: `weights` against what was written, `scratch` against zero, \
             `kv_cache` by writing it anew.",
            Bytes(self.outcome.verified_bytes),
            begun.elapsed(),
        ));
        Ok(())
    }

    fn free_all(&mut self) -> Result<(), Failure> {
        let took = self.stage.free(&Role::ALL)?;
        let free = self.stage.memory()?.free_bytes;
        self.outcome.free_bytes.end = Some(free);
        if let Some(start) = self.outcome.free_bytes.start {
            self.checks.back("after everything was freed", start, free);
        }
        let stats = self.stage.stats();
        let lost = stats.leaked_handles + stats.leaked_ranges + stats.failed_frees;
        if lost > 0 {
            self.checks.problem(format!("{lost} pieces of memory or address space were leaked"));
        }
        self.screen.step(format_args!(
            "Freed everything in {took:.1?}: {} free, {} at the start.",
            Bytes(free),
            Bytes(self.outcome.free_bytes.start.unwrap_or(0)),
        ));
        Ok(())
    }

    fn check_strays(&mut self, when: &str, state: BlockState) {
        for stray in self.stage.strays(state) {
            self.checks.problem(format!("{when}: {stray}"));
        }
    }

    fn table(&mut self, memory: MemoryInfo) {
        self.screen.table(&self.stage.stats(), memory);
    }
}

/// How fast the contents were copied, and by how many.
fn copying(report: &Report, bytes: u64) -> String {
    let workers = match report.workers {
        1 => "1 worker".to_owned(),
        several => format!("{several} workers"),
    };
    rate(bytes, report.phases.copy)
        .map_or_else(String::new, |rate| format!(" by {workers} at {rate}"))
}
