//! The `dormant` program: what this machine has for pausable GPU memory, a demonstration, and how to
//! start a program that has our hooks.

mod backend;
mod cli;
mod demo;
mod failure;
mod identity;
mod info;
mod output;
mod pattern;
mod progress;
mod run;
mod size;
mod table;
mod time;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::output::Output;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => {
            // Also what answers --help and --version.
            let _ = answer.print();
            return ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2));
        }
    };
    let mut output = Output::default();
    let well = match &cli.command {
        Command::Demo(args) => demo::run(args, &mut output),
        Command::Info(args) => info::run(args, &mut output),
        Command::Run(args) => return run::run(args),
    };
    match output.finish() {
        Ok(()) if well => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            output::complain(format_args!("standard output could not be written: {error}"));
            ExitCode::FAILURE
        }
    }
}
