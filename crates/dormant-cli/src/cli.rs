//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use dormant::{Backend, Policy};

use crate::bench::case::{self, Case};
use crate::size::{self, Size};
use crate::verify::args::VerifyArgs;

/// The version, and what else identifies the build. The program's name is put before it.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let line = dormant::build_info().to_string();
    line.strip_prefix("dormant ").map(str::to_owned).unwrap_or(line)
});

const EXIT_STATUS: &str = "\
Exit status: 0 when everything held, 1 when something failed, 2 for a wrong command line.";

const DEMO_HELP: &str = "\
Without --backend, and without DORMANT_BACKEND in the environment, the demo takes a GPU if a driver \
opens, else the simulated device.

The demo checks that our count of freed bytes is what the blocks had, that the addresses stay, that \
every byte is as its policy promises, and that the device's own reading of free memory agrees: \
exactly on the simulated device, within 64 MiB on a GPU, where other processes and the driver itself move it.

Exit status: 0 when everything held, 1 when something failed, 2 for a wrong command line.";

const BENCH_HELP: &str = "\
Measures pauses and resumes, and in the same run what they are held against:

  copy   a plain copy of the same bytes between the device and registered memory, one stream
  calls  the driver's own calls for as many handles: unmap and release, or create, map and access
  disk   plain writes and reads around the page cache, of a file of the same size

Each figure is the median of --cycles cycles after a first one that does not count. Before each \
pause the backups of the cycle before have gone. A limit is made of the floors; the ratio is what was \
measured to the limit, so a target is met up to 1. The targets are for 16 CPUs. The simulated device \
has no link, and gets figures without verdicts.

Sizes: `discard` uses four times --size, `small`, `two-devices` and `disk` half of it (`two-devices` \
on each device; one block at least), each of the eight processes of `ranks` an eighth. --size is cut to two fifths of \
what is free on the device and on the host.

Without --disk-dir, the case `disk` makes a directory in the current one, and takes it away at the end.

Exit status: 0 when it ran, also where a target is not met; 1 when something failed or contents came \
back wrong; 2 for a wrong command line.";

const INSPECT_HELP: &str = "\
Version, commit, hash of the source tree, backends, compiler and guarantees lie in the file as an ELF \
note. What could not be known when it was built is `unknown`.

Exit status: 0 when the file has a note, 1 when it has none or cannot be read, 2 for a wrong command line.";

const RUN_HELP: &str = "\
The program gets our library in LD_PRELOAD, before what is there already. Memory that it allocates \
with cudaMalloc or hipMalloc is then ours in regions, or everywhere with --all, and the program \
pauses it through the package dormant of Python or the C interface.

The library is looked for beside this program, in ../lib, and in the Python package of the same prefix.

Exit status: the program's own; 127 if there is no such program, 126 if it cannot be run, 1 without \
a library, 2 for a wrong command line.";

/// GPU memory that can sleep: pause gives the memory back, the address stays.
#[derive(Debug, Parser)]
#[command(name = "dormant", version = VERSION.as_str(), after_help = EXIT_STATUS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put memory to sleep, wake it, and check every byte.
    Demo(DemoArgs),
    /// Measure pauses and resumes against what the machine can do.
    Bench(BenchArgs),
    /// One of the processes of the case `ranks`.
    #[command(hide = true)]
    BenchRank(RankArgs),
    /// Show the backends, their drivers and devices, and what this build is.
    Info(InfoArgs),
    /// Show what a program or library file is, without loading it.
    Inspect(InspectArgs),
    /// Run a program whose GPU allocations can sleep.
    Run(RunArgs),
    /// Prove on this machine's device that the installed library is the right one and does what it
    /// promises.
    Verify(VerifyArgs),
}

/// Arguments of `dormant demo`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_HELP)]
pub(crate) struct DemoArgs {
    /// Use this backend and no other.
    #[arg(long, value_parser = backend_names())]
    pub(crate) backend: Option<Backend>,

    /// How much device memory to use, such as 512MiB, 2GiB, 4GB or a number of bytes [default:
    /// 2GiB on a GPU, 256MiB on the simulated device, less where that is more than half].
    #[arg(long, value_parser = size::parse)]
    pub(crate) size: Option<Size>,

    /// The device, as its driver counts.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: u32,

    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `dormant bench`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_HELP)]
pub(crate) struct BenchArgs {
    /// Use this backend and no other.
    #[arg(long, value_parser = backend_names())]
    pub(crate) backend: Option<Backend>,

    /// A device, as its driver counts; may be given several times [default: all]. Cases of one
    /// device use the first.
    #[arg(long, value_name = "N")]
    pub(crate) device: Vec<u32>,

    /// How much device memory to pause, such as 512MiB or 16GiB [default: 16GiB on a GPU, 256MiB on
    /// the simulated device].
    #[arg(long, value_parser = size::parse)]
    pub(crate) size: Option<Size>,

    /// The size of a block [default: 64MiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) blocks: Option<Size>,

    /// Measure this case; several with commas, or given several times [default: all].
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    pub(crate) case: Vec<Case>,

    /// Measure only cases in which this becomes of the contents.
    #[arg(long, value_parser = policies())]
    pub(crate) policy: Option<Policy>,

    /// Cycles that count [default: 5, and 2 on the simulated device].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) cycles: Option<u32>,

    /// Where the case `disk` writes; made if missing [default: a directory of its own in the
    /// current one].
    #[arg(long, value_name = "DIR")]
    pub(crate) disk_dir: Option<PathBuf>,

    /// Write the JSON object to this file as well.
    #[arg(long, value_name = "FILE")]
    pub(crate) json_to: Option<PathBuf>,

    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of one of the processes of `dormant bench --case ranks`.
#[derive(Debug, Args)]
pub(crate) struct RankArgs {
    #[arg(long, value_parser = backend_names())]
    pub(crate) backend: Backend,

    #[arg(long)]
    pub(crate) device: u32,

    #[arg(long, value_parser = size::parse)]
    pub(crate) size: Size,

    #[arg(long, value_parser = size::parse)]
    pub(crate) blocks: Size,
}

/// Arguments of `dormant info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `dormant inspect`.
#[derive(Debug, Args)]
#[command(after_help = INSPECT_HELP)]
pub(crate) struct InspectArgs {
    /// libdormant.so, this program, or another file that dormant is linked into; for any processor.
    pub(crate) file: PathBuf,

    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `dormant run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP, override_usage = "dormant run [OPTIONS] -- COMMAND [ARGUMENTS]...")]
pub(crate) struct RunArgs {
    /// Make all that the program allocates ours, not only what it allocates in regions.
    #[arg(long)]
    pub(crate) all: bool,

    /// The tag of memory outside regions [default: default].
    #[arg(long, requires = "all", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tag: Option<String>,

    /// What happens to the contents of memory outside regions [default: discard].
    #[arg(long, requires = "all", value_parser = ["discard", "zero", "host", "disk"])]
    pub(crate) policy: Option<String>,

    /// The file libdormant.so [default: DORMANT_LIBRARY, else the installed one].
    #[arg(long, value_name = "PATH")]
    pub(crate) library: Option<PathBuf>,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

pub(crate) fn backend_names() -> impl TypedValueParser<Value = Backend> {
    PossibleValuesParser::new(Backend::compiled_in().map(Backend::name))
        .try_map(|name| name.parse::<Backend>())
}

fn policies() -> impl TypedValueParser<Value = Policy> {
    PossibleValuesParser::new(["discard", "host", "disk"]).try_map(|name| name.parse::<Policy>())
}

impl BenchArgs {
    /// The cases to measure.
    ///
    /// # Errors
    /// As for a wrong command line, if there is none.
    pub(crate) fn cases(&self) -> Result<Vec<Case>, clap::Error> {
        case::chosen(&self.case, self.policy)
            .map_err(|text| Cli::command().error(clap::error::ErrorKind::ArgumentConflict, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
