//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use dormant::Backend;

use crate::size::{self, Size};

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
    /// Show the backends, their drivers and devices, and what this build is.
    Info(InfoArgs),
    /// Run a program whose GPU allocations can sleep.
    Run(RunArgs),
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

/// Arguments of `dormant info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
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

fn backend_names() -> impl TypedValueParser<Value = Backend> {
    PossibleValuesParser::new(Backend::compiled_in().map(Backend::name))
        .try_map(|name| name.parse::<Backend>())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
