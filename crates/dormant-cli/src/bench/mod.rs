//! `dormant bench`: what pauses and resumes cost here, beside what the link, the driver and the disk
//! reach without us.

pub(crate) mod case;
pub(crate) mod rank;

mod bed;
mod cases;
mod figure;
mod floors;
mod machine;
mod outcome;
mod plan;
mod raw;
mod samples;
mod screen;

use std::path::Path;
use std::sync::Arc;

use dormant::core::Driver as _;
use dormant::{Backend, Device, Driver, ErrorKind};
use dormant_host::Mapping;

use crate::backend::{self, Opened};
use crate::cli::BenchArgs;
use crate::failure::Failure;
use crate::output::{Output, complain};
use crate::pattern::Contents;
use crate::progress::Progress;

use case::Case;
use cases::Bench;
use floors::Floors;
use machine::{DeviceFacts, Machine};
use outcome::{Entry, Outcome, Settings};
use plan::{Room, Sizes};

/// What the targets are for.
const TARGET_CPUS: usize = 16;

const GPU_CYCLES: u32 = 5;
const SIMULATED_CYCLES: u32 = 2;

/// Whether everything could be measured, and contents came back. Says so, or why not.
pub(crate) fn run(args: &BenchArgs, cases: &[Case], output: &mut Output) -> bool {
    let mut outcome = Outcome::default();
    let measured = measure(args, cases, &mut outcome);
    outcome.close(measured.err());
    if args.json {
        output.json(&outcome);
        outcome.problems.iter().for_each(complain);
    } else {
        screen::show(&outcome, output);
    }
    let written = args.json_to.as_ref().is_none_or(|file| write(file, &outcome));
    for Entry { name, error, .. } in &outcome.cases {
        if let Some(failure) = error {
            complain(format_args!("{name}: {failure}"));
        }
    }
    if let Some(failure) = &outcome.error {
        complain(failure);
    }
    outcome.ok && written
}

/// Writes what was found to a file; says what went wrong.
fn write(file: &Path, outcome: &Outcome) -> bool {
    let written = serde_json::to_vec_pretty(outcome)
        .map_err(std::io::Error::from)
        .and_then(|text| std::fs::write(file, text));
    if let Err(error) = &written {
        complain(format_args!("{}: {error}", file.display()));
    }
    written.is_ok()
}

fn measure(args: &BenchArgs, cases: &[Case], outcome: &mut Outcome) -> Result<(), Failure> {
    let Opened { driver, why } = backend::open(args.backend)?;
    outcome.notes.extend(why);
    let info = driver.info();
    let backend: Backend = info.backend.parse()?;
    let simulated = backend == Backend::Sim;
    let facts = devices(&driver, &args.device, backend)?;
    let devices: Vec<_> = facts.iter().map(|device| Device(device.ordinal)).collect();
    let machine = Machine::look(info, facts);
    let sizes = fit(args, &driver, simulated, &machine, &devices, &mut outcome.notes)?;
    let cycles = args.cycles.unwrap_or(if simulated { SIMULATED_CYCLES } else { GPU_CYCLES });
    outcome.settings = Some(Settings {
        size_bytes: sizes.bytes,
        block_bytes: sizes.block_bytes,
        cycles,
        devices: devices.iter().map(|device| device.0).collect(),
        cases: cases.iter().map(|case| case.name()).collect(),
        disk_directory: args.disk_dir.as_ref().map(|path| path.display().to_string()),
    });
    if simulated {
        let text = "the simulated device has no link to be measured against: no verdicts";
        outcome.notes.push(text.to_owned());
    } else {
        let cpus = machine.cpus;
        if cpus < TARGET_CPUS {
            outcome.notes.push(format!("the targets are for {TARGET_CPUS} CPUs; here are {cpus}"));
        }
        // Host memory that a virtual machine has never touched is slow once.
        touch(sizes.bytes)?;
    }
    outcome.machine = Some(machine);

    let mut bench = Bench {
        driver: Arc::new(driver),
        backend,
        devices,
        sizes,
        cycles,
        disk_directory: args.disk_dir.clone(),
        floors: Floors::default(),
        progress: Progress::spinner(""),
        notes: Vec::new(),
        problems: Vec::new(),
    };
    for case in cases {
        let found = bench.measure(*case);
        outcome.cases.extend(Entry::all_of(case.name(), &found, !simulated));
    }
    outcome.floors = bench.floors;
    outcome.notes.append(&mut bench.notes);
    outcome.problems = bench.problems;
    Ok(())
}

/// The devices that were named, or all.
fn devices(driver: &Driver, named: &[u32], backend: Backend) -> Result<Vec<DeviceFacts>, Failure> {
    let all = driver.devices()?;
    if let Some(missing) = named.iter().find(|named| all.iter().all(|d| d.device.0 != **named)) {
        let message = format!("no device {missing}; {} has {}", backend.name(), all.len());
        return Err(Failure { kind: ErrorKind::NotFound, message });
    }
    let mut devices = Vec::new();
    for info in all {
        if named.is_empty() || named.contains(&info.device.0) {
            devices.push(DeviceFacts {
                ordinal: info.device.0,
                free_bytes: driver.memory(info.device)?.free_bytes,
                name: info.name,
                total_bytes: info.total_bytes,
            });
        }
    }
    // In the order in which they were named.
    devices.sort_by_key(|device| named.iter().position(|named| *named == device.ordinal));
    if devices.is_empty() {
        let message = format!("{} has no device", backend.name());
        return Err(Failure { kind: ErrorKind::NotFound, message });
    }
    Ok(devices)
}

fn fit(
    args: &BenchArgs,
    driver: &Driver,
    simulated: bool,
    machine: &Machine,
    devices: &[Device],
    notes: &mut Vec<String>,
) -> Result<Sizes, Failure> {
    let default = if simulated { plan::SIMULATED_BYTES } else { plan::GPU_BYTES };
    let wanted = args.size.map_or(default, |size| size.0);
    let blocks = args.blocks.map_or(plan::BLOCK_BYTES, |size| size.0);
    let free = machine.devices().iter().map(|device| device.free_bytes).min();
    let room = Room { device_bytes: free.unwrap_or(0), host_bytes: machine.available_bytes };
    let device = devices.first().copied().unwrap_or(Device(0));
    let granularity = driver.granularity(device)?;
    Ok(Sizes::fit(wanted, blocks, granularity, room, notes))
}

/// Touches this much memory and gives it back.
fn touch(bytes: u64) -> Result<(), Failure> {
    let _progress = Progress::spinner("Touching host memory");
    let mut mapping = Mapping::new(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    Contents::Pattern { seed: 1 }.fill(0, mapping.as_mut_slice());
    Ok(())
}
