//! `dormant demo`: memory is filled, put to sleep, partly freed while it sleeps, woken, checked
//! byte by byte, and freed.

mod checks;
mod outcome;
mod plan;
mod screen;
mod stage;
mod steps;

use dormant::core::Driver as _;
use dormant::{Backend, Device, ErrorKind, MemoryInfo};

use crate::backend::{self, Opened};
use crate::cli::DemoArgs;
use crate::failure::Failure;
use crate::output::{Output, complain};

use checks::Checks;
use outcome::Outcome;
use screen::Screen;
use stage::Stage;
use steps::Demo;

/// What the demo uses of a GPU, and of the simulated device, where nothing else is said.
const GPU_BYTES: u64 = 2 << 30;
const SIMULATED_BYTES: u64 = 256 << 20;

/// Whether everything held. Says so, or why not.
pub(crate) fn run(args: &DemoArgs, output: &mut Output) -> bool {
    let mut screen = Screen::new(output, args.json);
    let mut outcome = Outcome::default();
    let mut checks = Checks::default();
    let performed = perform(args, &mut screen, &mut outcome, &mut checks);
    outcome.problems = checks.into_problems();
    outcome.error = performed.err().map(hint);
    outcome.ok = outcome.error.is_none() && outcome.problems.is_empty();
    screen.verdict(&outcome);
    if args.json {
        outcome.problems.iter().for_each(complain);
    }
    if let Some(failure) = &outcome.error {
        complain(failure);
    }
    outcome.ok
}

fn perform(
    args: &DemoArgs,
    screen: &mut Screen<'_>,
    outcome: &mut Outcome,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let Opened { driver, why } = backend::open(args.backend)?;
    let info = driver.info();
    let simulated = info.backend == Backend::Sim.name();
    *checks = Checks::new(simulated);
    outcome.backend = Some(info.backend);
    outcome.why.clone_from(&why);
    let device = Device(args.device);
    let found = driver.devices()?.into_iter().find(|info| info.device == device);
    if found.is_none() {
        let count = driver.devices()?.len();
        return Err(Failure {
            kind: ErrorKind::NotFound,
            message: format!("no device {device}; {} has {count}", info.backend),
        });
    }
    screen.opened(&info, found.as_ref(), why.as_deref());
    outcome.device = found.map(Into::into);

    let stage = Stage::new(driver, device)?;
    let granularity = stage.driver().granularity(device)?;
    let memory = stage.memory()?;
    outcome.free_bytes.start = Some(memory.free_bytes);
    let bytes = args.size.map_or_else(
        || default_bytes(simulated, memory).max(plan::least_bytes(granularity)),
        |size| size.0,
    );
    let plan = plan::plan(bytes, granularity)?;
    Demo { stage, screen, outcome, checks }.perform(&plan)
}

/// How much to use where nothing is said: the host needs memory for the backups as well, and the
/// simulated device lives in the host's memory itself.
fn default_bytes(simulated: bool, memory: MemoryInfo) -> u64 {
    if simulated {
        SIMULATED_BYTES.min(memory.total_bytes / 2)
    } else {
        GPU_BYTES.min(memory.free_bytes / 2)
    }
}

/// Adds what the user can do about it.
fn hint(mut failure: Failure) -> Failure {
    let short = [ErrorKind::OutOfMemory, ErrorKind::TooLarge, ErrorKind::HostMemory];
    if short.contains(&failure.kind) {
        failure.message.push_str("; try a smaller --size");
    }
    failure
}
