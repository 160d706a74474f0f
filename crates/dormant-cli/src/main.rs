//! The `dormant` program: what this machine has for pausable GPU memory, a demonstration, what it
//! costs, and how to start a program that has our hooks.

mod backend;
mod bench;
mod cli;
mod demo;
mod failure;
mod identity;
mod info;
mod inspect;
mod output;
mod pattern;
mod progress;
mod run;
mod size;
mod table;
mod time;
mod verify;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::output::Output;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Also what answers --help and --version.
        Err(answer) => return told(&answer),
    };
    let mut output = Output::default();
    let well = match &cli.command {
        Command::Bench(args) => match args.cases() {
            Ok(cases) => bench::run(args, &cases, &mut output),
            Err(answer) => return told(&answer),
        },
        Command::BenchRank(args) => bench::rank::run(args, &mut output),
        Command::Demo(args) => demo::run(args, &mut output),
        Command::Info(args) => info::run(args, &mut output),
        Command::Inspect(args) => inspect::run(args, &mut output),
        Command::Run(args) => return run::run(args),
        Command::Verify(args) => verify::run(args, &mut output),
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

/// The answer to a command line that starts no work.
fn told(answer: &clap::Error) -> ExitCode {
    let _ = answer.print();
    ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2))
}
