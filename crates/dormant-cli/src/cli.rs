//! The command line.

use std::sync::LazyLock;

use clap::builder::{PossibleValuesParser, TypedValueParser};
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
