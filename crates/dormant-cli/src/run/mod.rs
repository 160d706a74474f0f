//! `dormant run`: starts a program that has our hooks.

pub(crate) mod library;
mod preload;

use std::env;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use crate::cli::RunArgs;
use crate::output::complain;

const LD_PRELOAD: &str = "LD_PRELOAD";

/// As shells answer for a program that cannot be run, and for one that is not there.
const CANNOT_RUN: u8 = 126;
const NOT_THERE: u8 = 127;

/// Becomes the program. Answers only if that fails.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    let mut command = match prepared(args) {
        Ok(command) => command,
        Err(text) => {
            complain(text);
            return ExitCode::FAILURE;
        }
    };
    let error = command.exec();
    complain(format_args!("{} cannot be run: {error}", command.get_program().display()));
    ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_THERE } else { CANNOT_RUN })
}

fn prepared(args: &RunArgs) -> Result<Command, String> {
    let library = library::find(args.library.as_deref())?;
    let before = env::var_os(LD_PRELOAD).unwrap_or_default();
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err("no program to run".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).env(LD_PRELOAD, preload::merged(&library, &before)?);
    if args.library.is_some() || env::var_os(library::VARIABLE).is_some_and(|set| !set.is_empty()) {
        // The Python package in the program is to use the same file, wherever it goes.
        command.env(library::VARIABLE, &library);
    }
    if args.all {
        command.env("DORMANT_ENABLE", "1");
    }
    if let Some(tag) = &args.tag {
        command.env("DORMANT_TAG", tag);
    }
    if let Some(policy) = &args.policy {
        command.env("DORMANT_POLICY", policy);
    }
    Ok(command)
}
