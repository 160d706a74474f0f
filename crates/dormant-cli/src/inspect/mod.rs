//! `dormant inspect`: what a file says of itself, without loading it.

pub(crate) mod note;

use crate::cli::InspectArgs;
use crate::output::{self, Output};

/// Shows it.
pub(crate) fn run(args: &InspectArgs, output: &mut Output) -> bool {
    match note::read(&args.file) {
        Ok(identity) => {
            if args.json {
                output.json(&identity);
            } else {
                output.line(identity);
            }
            true
        }
        Err(why) => {
            output::complain(why);
            false
        }
    }
}
